# Debian packages by CPack: libpolyconv0 (runtime), libpolyconv-dev, polyconv-tools, and polyconv-backend-<name> for each
# backend, so that nobody installs a GPU runtime for a CPU program. Other dependencies are read off the
# binaries by dpkg-shlibdeps.

include(package_tools)
polyconv_missing_package_tools(sentence)
if(POLYCONV_PACKAGES AND sentence)
  message(FATAL_ERROR "polyconv: ${sentence}")
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_CURRENT_LIST_DIR}/package_tools.cmake")
set(CPACK_PACKAGE_NAME polyconv)
set(CPACK_PACKAGE_CONTACT "polyconv contributors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_SYSTEM_NAME "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}") # in the name of an archive
if(CMAKE_CROSSCOMPILING) # dpkg would say this machine's
  set(names aarch64=arm64 armv7l=armhf i686=i386)
  list(FILTER names INCLUDE REGEX "^${CMAKE_SYSTEM_PROCESSOR}=")
  string(REGEX REPLACE "^.*=" "" CPACK_DEBIAN_PACKAGE_ARCHITECTURE "${names}")
  if(NOT CPACK_DEBIAN_PACKAGE_ARCHITECTURE)
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
  endif()
endif()
# polyconv-bench links the libpolyconv of the package beside it, which dpkg does not know yet.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${POLYCONV_OUTPUT_LIB}")

get_property(backends GLOBAL PROPERTY POLYCONV_BACKENDS)
get_target_property(soversion polyconv SOVERSION)
set(library libpolyconv${soversion})
set(CPACK_COMPONENTS_ALL runtime dev ${backends})
if(TARGET polyconv-bench)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "polyconv-backend-threads | polyconv-backend-openmp | polyconv-backend-tbb")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${PROJECT_DESCRIPTION}: the C library. It needs at least one backend.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libpolyconv-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${PROJECT_DESCRIPTION}: headers, CMake package, pkg-config and backend SDK.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME polyconv-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${library} (>= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "${PROJECT_DESCRIPTION}: the polyconv-bench command.")

foreach(backend IN LISTS backends)
  string(TOUPPER ${backend} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME polyconv-backend-${backend})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${library} (>= ${PROJECT_VERSION})")
  set(CPACK_COMPONENT_${key}_DESCRIPTION "${PROJECT_DESCRIPTION}: the ${backend} backend.")
endforeach()

include(PolyconvSbom)
include(CPack)
