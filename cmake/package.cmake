# `cmake --build --preset release --target package`: celer_<version>_<architecture>.deb.
# What libceler links to is found by dpkg-shlibdeps. Kernels for the processor take a C++
# compiler at run time; several ranks take a launcher.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Lua-scripted distributed compute engine")
set(CPACK_PACKAGE_CONTACT "The authors of celer <celer@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS g++)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "graphviz, libhdf5-103-1, libnccl2")
set(CPACK_STRIP_FILES ON)
include(CPack)
