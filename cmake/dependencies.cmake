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
# A module of Lua, which the library carries.
find_file(ARGPARSE_FILE argparse.lua REQUIRED
  PATHS /usr/share/lua/5.1 /usr/local/share/lua/5.1)

add_library(cel_dependencies INTERFACE)
target_include_directories(cel_dependencies SYSTEM INTERFACE
  "${XXHASH_INCLUDE_DIR}")
target_link_libraries(cel_dependencies INTERFACE
  PkgConfig::LUAJIT PkgConfig::HWLOC PkgConfig::PNG PkgConfig::EDIT
  MPI::MPI_C Threads::Threads ${CMAKE_DL_LIBS} m)
