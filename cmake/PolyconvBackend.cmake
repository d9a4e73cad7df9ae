# polyconv_add_backend and polyconv_kernel_names: what a backend's CMakeLists.txt calls, inside this project and
# outside it. find_package(polyconv) includes this file, so that a backend is built the same way everywhere.

include_guard(GLOBAL)
include(GNUInstallDirs)

# The kernel names in a kernels.inc, in order: lines POLYCONV_KERNEL(name).
function(polyconv_kernel_names inc out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${inc}")
  file(STRINGS "${inc}" lines REGEX "^POLYCONV_KERNEL\\(")
  set(names)
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^POLYCONV_KERNEL\\(([a-z0-9_]+)\\).*" "\\1" name "${line}")
    list(APPEND names ${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# polyconv_add_backend(<name> SOURCES ... [LINK ...])
# Builds the target polyconv_<name with - as _>, a libpolyconv_<same>.so that exports the entry symbol alone and is
# never unloaded, and installs it where an installed libpolyconv of the same prefix looks, as a component of its name.
# In a static build of this project the backend goes into libpolyconv.a instead.
function(polyconv_add_backend name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  string(REPLACE "-" "_" file ${name})
  set(target polyconv_${file})
  if(COMMAND polyconv_own_static_backend)
    polyconv_own_static_backend(${target} ${name} ${ARGN})
    return()
  endif()
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE polyconv::sdk ${ARG_LINK})
  target_compile_features(${target} PRIVATE cxx_std_17)
  set_target_properties(${target} PROPERTIES PREFIX lib POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(UNIX AND NOT APPLE)
    set(map "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/backend.map")
    # The build id, a hash of the contents, tells the tuning database that kernels have changed.
    target_link_options(${target} PRIVATE -Wl,-z,nodelete -Wl,--build-id=sha1 "-Wl,--version-script=${map}")
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${map}")
  endif()
  if(COMMAND polyconv_own_backend)
    polyconv_own_backend(${target} ${name})
  else()
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/polyconv COMPONENT ${name})
  endif()
endfunction()
