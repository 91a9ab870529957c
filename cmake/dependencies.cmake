# What the engine links with, as one target. xxhash is used as a header alone.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
pkg_check_modules(LUAJIT REQUIRED IMPORTED_TARGET luajit)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_program(LUAJIT_PROGRAM luajit REQUIRED)
execute_process(
  COMMAND "${LUAJIT_PROGRAM}" -e
    "io.write(jit.version, ' ', jit.arch, ' ', tostring(require 'ffi'.abi 'gc64'))"
  OUTPUT_VARIABLE LUAJIT_FULL_VERSION)
# A module of Lua, which the library carries, where LuaJIT finds it now.
execute_process(
  COMMAND "${LUAJIT_PROGRAM}" -e
    "io.write(package.searchpath('argparse', package.path) or '')"
  WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}"
  OUTPUT_VARIABLE ARGPARSE_FILE)
if(NOT EXISTS "${ARGPARSE_FILE}")
  message(FATAL_ERROR "LuaJIT does not find argparse.lua (Debian: lua-argparse)")
endif()

add_library(cel_dependencies INTERFACE)
target_include_directories(cel_dependencies SYSTEM INTERFACE
  "${XXHASH_INCLUDE_DIR}")
target_link_libraries(cel_dependencies INTERFACE
  PkgConfig::LUAJIT PkgConfig::HWLOC PkgConfig::PNG PkgConfig::EDIT
  MPI::MPI_C Threads::Threads ${CMAKE_DL_LIBS} m)
