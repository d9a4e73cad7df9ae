# What a Python wheel carries of the library: `library` is its file, `plugins` are those of the backends in a wheel, and `built` are
# the targets that make them, none where a built tree is taken. The target `polyconv` is there either way.

# A built tree whose library a package takes instead of building it: a folder with lib/libpolyconv.so.0.
set(POLYCONV_PYTHON_TREE "" CACHE PATH "Build folder of polyconv whose library a Python package carries; empty: build it")
set(carried threads reference)

if(POLYCONV_PYTHON_TREE)
  set(library "${POLYCONV_PYTHON_TREE}/lib/libpolyconv.so.0")
  list(TRANSFORM carried REPLACE "(.+)" "${POLYCONV_PYTHON_TREE}/lib/polyconv/libpolyconv_\\1.so" OUTPUT_VARIABLE plugins)
  foreach(file IN LISTS library plugins)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "POLYCONV_PYTHON_TREE is ${POLYCONV_PYTHON_TREE}, which has no ${file}")
    endif()
  endforeach()
  file(REAL_PATH "${library}" library)
  add_library(polyconv SHARED IMPORTED)
  set_target_properties(polyconv PROPERTIES IMPORTED_LOCATION "${library}" IMPORTED_SONAME libpolyconv.so.0)
  target_include_directories(polyconv INTERFACE "${PROJECT_SOURCE_DIR}/include")
  set(built)
else()
  set(library $<TARGET_FILE:polyconv>)
  list(TRANSFORM carried REPLACE "(.+)" "$<TARGET_FILE:polyconv_\\1>" OUTPUT_VARIABLE plugins)
  list(TRANSFORM carried PREPEND polyconv_ OUTPUT_VARIABLE built)
  list(APPEND built polyconv)
endif()
