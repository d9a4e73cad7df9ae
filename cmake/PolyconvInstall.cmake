# What `cmake --install` puts where. Components: runtime (the library), dev (headers, CMake package, pkg-config, SDK),
# tools (polyconv-bench), and one for each backend (polyconv_add_backend).

include(CMakePackageConfigHelpers)

set(polyconv_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/polyconv")
set(polyconv_exported polyconv polyconv_sdk)
if(TARGET polyconv_check)
  list(APPEND polyconv_exported polyconv_check)
endif()

install(TARGETS ${polyconv_exported} EXPORT polyconv-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(EXPORT polyconv-targets NAMESPACE polyconv:: DESTINATION ${polyconv_cmake_dir} COMPONENT dev)

install(DIRECTORY include/polyconv backends/sdk/include/polyconv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES cmake/PolyconvBackend.cmake cmake/backend.map cmake/kernel_versions.cmake DESTINATION ${polyconv_cmake_dir} COMPONENT dev)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(FILES docs/add-a-backend.md docs/add-a-kernel.md docs/problem-token.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT dev OPTIONAL)

# What libpolyconv.a leaves to the program that links it: the runtimes beneath its backends, and C++'s.
set(POLYCONV_STATIC_DEPENDENCIES "")
set(POLYCONV_STATIC_LIBS "")
if(POLYCONV_STATIC)
  get_property(built_in GLOBAL PROPERTY POLYCONV_BACKENDS)
  if("openmp" IN_LIST built_in)
    string(APPEND POLYCONV_STATIC_DEPENDENCIES "find_dependency(OpenMP COMPONENTS CXX)\n")
    list(APPEND POLYCONV_STATIC_LIBS ${OpenMP_CXX_FLAGS})
  endif()
  if("tbb" IN_LIST built_in)
    string(APPEND POLYCONV_STATIC_DEPENDENCIES "find_dependency(TBB CONFIG)\n")
    list(APPEND POLYCONV_STATIC_LIBS -ltbb)
  endif()
  list(APPEND POLYCONV_STATIC_LIBS -lstdc++ -lm -lpthread ${CMAKE_DL_LIBS})
  list(TRANSFORM POLYCONV_STATIC_LIBS REPLACE "^([a-z])" "-l\\1")
  list(JOIN POLYCONV_STATIC_LIBS " " POLYCONV_STATIC_LIBS)
  string(PREPEND POLYCONV_STATIC_LIBS " ")
endif()

configure_package_config_file(cmake/polyconv-config.cmake.in "${PROJECT_BINARY_DIR}/cmake/polyconv-config.cmake"
  INSTALL_DESTINATION ${polyconv_cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/polyconv-config-version.cmake"
  COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/cmake/polyconv-config.cmake"
  "${PROJECT_BINARY_DIR}/cmake/polyconv-config-version.cmake" DESTINATION ${polyconv_cmake_dir} COMPONENT dev)

# pkg-config: paths from the .pc file's own place, so that the tree can be moved; absolute ones where the
# installer chose absolute folders.
set(polyconv_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(polyconv_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH polyconv_pc_up "/${polyconv_pc_dir}" "/")
  string(REGEX REPLACE "/$" "" polyconv_pc_up "${polyconv_pc_up}")
  set(polyconv_pc_prefix "\${pcfiledir}/${polyconv_pc_up}")
endif()
foreach(dir LIB INCLUDE)
  cmake_path(APPEND polyconv_pc_${dir} "\${prefix}" "${CMAKE_INSTALL_${dir}DIR}")
endforeach()
configure_file(cmake/polyconv.pc.in "${PROJECT_BINARY_DIR}/cmake/polyconv.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cmake/polyconv.pc" DESTINATION ${polyconv_pc_dir} COMPONENT dev)

if(TARGET polyconv-bench)
  file(RELATIVE_PATH polyconv_bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_target_properties(polyconv-bench PROPERTIES INSTALL_RPATH "$ORIGIN/${polyconv_bin_to_lib}")
  install(TARGETS polyconv-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(DIRECTORY bench/suites bench/expect DESTINATION ${CMAKE_INSTALL_DATADIR}/polyconv COMPONENT tools)
  if(TARGET polyconv_bench_pages)
    set(pages "${PROJECT_BINARY_DIR}/share/pages")
    install(DIRECTORY "${pages}/man1" DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
    install(DIRECTORY "${pages}/bash-completion" "${pages}/zsh" "${pages}/fish" DESTINATION ${CMAKE_INSTALL_DATADIR}
      COMPONENT tools)
  endif()
endif()
