# cel_add_test_program(name sources...): a C program of spec/ that links with
# libceler; it lands beside the `celer` command.
function(cel_add_test_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE libceler)
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/spec")
endfunction()
