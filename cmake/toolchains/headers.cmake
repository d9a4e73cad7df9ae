# headers.cmake - this machine's packages of headers alone (doctest, CLI11, nlohmann-json) for a target that shares no folder
# with it: copied, as /usr/include has this machine's C library beside them. Libraries are looked for in POLYCONV_ROOTS, the
# target's own folders, alone.
set(POLYCONV_HEADERS "${CMAKE_BINARY_DIR}/headers")
set(CMAKE_FIND_ROOT_PATH ${POLYCONV_ROOTS} "${POLYCONV_HEADERS}")
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
get_property(polyconv_in_try_compile GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT polyconv_in_try_compile)
  foreach(folder include/doctest include/CLI include/nlohmann lib/cmake/doctest share/cmake/CLI11 share/cmake/nlohmann_json)
    if(IS_DIRECTORY "/usr/${folder}") # a missing one leaves out what needs it, as elsewhere
      cmake_path(GET folder PARENT_PATH above)
      file(COPY "/usr/${folder}" DESTINATION "${POLYCONV_HEADERS}/${above}")
    endif()
  endforeach()
  # Debian's doctest says where it lies, instead of asking.
  set(polyconv_doctest "${POLYCONV_HEADERS}/lib/cmake/doctest/doctestTargets.cmake")
  if(EXISTS "${polyconv_doctest}")
    file(READ "${polyconv_doctest}" polyconv_text)
    string(REPLACE "_IMPORT_PREFIX \"/usr\"" "_IMPORT_PREFIX \"${POLYCONV_HEADERS}\"" polyconv_text "${polyconv_text}")
    file(WRITE "${polyconv_doctest}" "${polyconv_text}")
  endif()
endif()
