# BUILD_SHARED_LIBS=OFF: the library and the chosen backends in one archive, libpolyconv.a, for programs that load nothing.
# Backends are written as if each were alone: openmp and tbb have the same functions (make_parallel) and the same
# kernels. So the objects of each are linked into one, in which every symbol but the entry becomes local.

# CMake prefers lld where clang compiles, which cannot dissolve groups: GNU's linker is asked by its name.
set(polyconv_linker "${CMAKE_LINKER}")
if(CMAKE_LINKER MATCHES "lld")
  find_program(POLYCONV_GNU_LINKER NAMES ld.bfd ld)
  set(polyconv_linker "${POLYCONV_GNU_LINKER}")
endif()

# polyconv_backend_object(<target> <archives> <object>): the rule that makes `object` of a backend target's objects and of
# what they use of these archives. It defines polyconv_query_<file name without .o>.
function(polyconv_backend_object target archives object)
  get_filename_component(name "${object}" NAME_WE)
  get_filename_component(folder "${object}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  set(files)
  foreach(archive IN LISTS archives)
    list(APPEND files "$<TARGET_FILE:${archive}>")
  endforeach()
  list(JOIN files "|" files)
  set(script "${PROJECT_SOURCE_DIR}/cmake/static_backend.cmake")
  add_custom_command(OUTPUT "${object}"
    COMMAND "${CMAKE_COMMAND}" "-DLINKER=${polyconv_linker}" "-DOBJCOPY=${CMAKE_OBJCOPY}" "-DNM=${CMAKE_NM}" -DNAME=${name}
      "-DOBJECT=${object}" "-DFILES=$<JOIN:$<TARGET_OBJECTS:${target}>,|>" "-DARCHIVES=${files}" -P "${script}"
    DEPENDS ${target} $<TARGET_OBJECTS:${target}> ${archives} "${script}"
    COMMENT "Linking the backend ${name} into one object" VERBATIM)
endfunction()

# polyconv_built_in(<source> <backend names>...): writes the list of backends that are linked in.
function(polyconv_built_in source)
  set(BUILT_IN_DECLARATIONS "")
  set(BUILT_IN_ROWS "")
  foreach(name IN LISTS ARGN)
    string(REPLACE "-" "_" file ${name})
    string(APPEND BUILT_IN_DECLARATIONS
      "extern \"C\" polyconv_status polyconv_query_${file}(const polyconv_host *, const polyconv_backend **);\n")
    string(APPEND BUILT_IN_ROWS "    {\"${name}\", polyconv_query_${file}},\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/lib/registry/built_in.cpp.in" "${source}" @ONLY)
endfunction()

if(NOT POLYCONV_STATIC)
  return()
endif()
if(POLYCONV_CUDA)
  message(FATAL_ERROR "polyconv: BUILD_SHARED_LIBS is OFF with POLYCONV_CUDA: CUDA backends are plug-ins, leave one of the two")
endif()
if(NOT UNIX OR APPLE OR NOT CMAKE_OBJCOPY)
  message(FATAL_ERROR "polyconv: BUILD_SHARED_LIBS is OFF, which needs ELF and GNU objcopy to keep backends apart")
endif()
if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
  message(FATAL_ERROR "polyconv: BUILD_SHARED_LIBS is OFF with CMAKE_INTERPROCEDURAL_OPTIMIZATION: backends are linked apart")
endif()

# Called by polyconv_add_backend instead of making a plug-in.
function(polyconv_own_static_backend target name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${target} OBJECT ${ARG_SOURCES})
  polyconv_target_defaults(${target})
  target_link_libraries(${target} PRIVATE polyconv::sdk ${ARG_LINK})
  polyconv_kernel_versions(${target} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  set(archives)
  foreach(item IN LISTS ARG_LINK)
    get_target_property(type ${item} TYPE)
    get_target_property(imported ${item} IMPORTED)
    if(type STREQUAL STATIC_LIBRARY AND NOT imported)
      list(APPEND archives ${item})
    else()
      target_link_libraries(polyconv PRIVATE ${item})
    endif()
  endforeach()
  string(REGEX REPLACE "^polyconv_" "" file ${target})
  set(object "${PROJECT_BINARY_DIR}/static/${file}.o")
  polyconv_backend_object(${target} "${archives}" "${object}")
  add_custom_target(${target}_object DEPENDS "${object}")
  add_dependencies(polyconv ${target}_object)
  set_source_files_properties("${object}" TARGET_DIRECTORY polyconv PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(polyconv PRIVATE "${object}")
  set_property(GLOBAL APPEND PROPERTY POLYCONV_BACKENDS ${name})
endfunction()
