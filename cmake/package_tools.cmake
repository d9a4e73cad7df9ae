# What Debian packages are made with beyond CMake. dpkg-shlibdeps reads what a library depends on off its binaries, and
# cpack leaves the dependencies out without a word where it is missing; without `file` it ends with a message that names
# something else. So they are asked for first: when preset release is configured, and when cpack begins.
#   polyconv_missing_package_tools(<out>): a sentence that says what to install, or ""
function(polyconv_missing_package_tools out)
  set(tools "")
  set(packages "")
  foreach(pair dpkg-shlibdeps:dpkg-dev file:file)
    string(REGEX REPLACE ":.*" "" tool ${pair})
    string(REGEX REPLACE ".*:" "" package ${pair})
    find_program(found ${tool} PATHS ENV PATH NO_DEFAULT_PATH NO_CACHE)
    if(NOT found)
      list(APPEND tools ${tool})
      list(APPEND packages ${package})
    endif()
    unset(found)
  endforeach()
  set(sentence "")
  if(tools)
    list(JOIN tools " and " tools)
    list(JOIN packages " " packages)
    set(sentence "Debian packages need ${tools}: apt-get install ${packages}")
  endif()
  set(${out} "${sentence}" PARENT_SCOPE)
endfunction()

# cpack reads this file as its CPACK_PROJECT_CONFIG_FILE, once for each generator.
if(CPACK_GENERATOR STREQUAL "DEB")
  if(CPACK_DEBIAN_PACKAGE_ARCHITECTURE) # another processor's
    set(SHLIBDEPS_EXECUTABLE "${CMAKE_CURRENT_LIST_DIR}/cross_shlibdeps.sh" ${CPACK_DEBIAN_PACKAGE_ARCHITECTURE})
  endif()
  polyconv_missing_package_tools(sentence)
  if(sentence)
    message(FATAL_ERROR "${sentence}")
  endif()
endif()
