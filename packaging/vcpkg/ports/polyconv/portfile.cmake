# From the tree that this port lies in: vcpkg install polyconv --overlay-ports=packaging/vcpkg/ports
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

set(backends reference)
foreach(feature openmp tbb)
  if(feature IN_LIST FEATURES)
    list(APPEND backends ${feature})
  endif()
endforeach()
string(REPLACE ";" "\\;" backends "${backends}")

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS "-DPOLYCONV_BACKENDS_ONLY=${backends}" -DPOLYCONV_BUILD_TESTS=OFF -DPOLYCONV_BUILD_BENCH=OFF
    -DPOLYCONV_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/polyconv)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
