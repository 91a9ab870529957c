# layers: includes only point up the layers, and kernels and C say the same
#         (mirrors.lua); part of every build.
# check:  the specs and the random programs; the last line holds the totals.
# check-long: what takes too long for every change, such as all of spec/long.
# lint:   layers, formatting and static checks.
# lint-long: these, and clang's analyzer.

add_custom_target(layers ALL
  COMMAND "${LUAJIT_PROGRAM}" cmake/layers.lua engine
  COMMAND "${LUAJIT_PROGRAM}" cmake/mirrors.lua
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" COMMENT "" VERBATIM)
add_dependencies(libceler layers)

add_custom_target(check
  COMMAND cmake/check.sh "${CMAKE_CURRENT_BINARY_DIR}" "${CEL_SANITIZE}"
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
add_dependencies(check celer fuzz_instr bench_counts)
add_custom_target(check-long
  COMMAND cmake/check.sh "${CMAKE_CURRENT_BINARY_DIR}" "${CEL_SANITIZE}" long
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
add_dependencies(check-long celer)
if(TARGET mpi_check)
  add_dependencies(check mpi_check)
endif()
if(TARGET random_programs)
  add_dependencies(check random_programs)
  add_dependencies(check-long random_programs)
endif()

add_custom_target(lint
  COMMAND cmake/lint.sh "${CMAKE_CURRENT_BINARY_DIR}"
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
add_custom_target(lint-long
  COMMAND cmake/lint.sh "${CMAKE_CURRENT_BINARY_DIR}" long
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
