# How every C file of the project is compiled. CEL_SANITIZE is a list for
# -fsanitize; CEL_DEBUG switches cel_assert on, in every build but release.

set(CEL_SANITIZE "" CACHE STRING "Sanitizers, as given to -fsanitize=")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Nobody replaces the library's functions from outside, so its own calls may be
# inlined and bound when it is linked (-Bsymbolic-functions).
set(CMAKE_C_FLAGS_RELEASE "-O3 -g -fno-semantic-interposition")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(cel_flags INTERFACE)
target_compile_options(cel_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:
  -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes
  -fno-omit-frame-pointer>)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_definitions(cel_flags INTERFACE CEL_DEBUG=1)
endif()
if(CEL_SANITIZE)
  # At -O2 gcc warns of fences in what is sanitized for threads.
  set(level -O2)
  if(CEL_SANITIZE STREQUAL "thread")
    set(level -O1)
  endif()
  target_compile_options(cel_flags INTERFACE $<$<COMPILE_LANGUAGE:C>:
    ${level} -fno-semantic-interposition
    -fsanitize=${CEL_SANITIZE} -fno-sanitize-recover=all>)
  target_link_options(cel_flags INTERFACE -fsanitize=${CEL_SANITIZE})
endif()
