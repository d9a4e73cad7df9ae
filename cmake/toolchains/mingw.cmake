# mingw.cmake - 64-bit Windows by Debian's mingw-w64, its programs run by wine (packages g++-mingw-w64-x86-64-posix and wine64).
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)
# The compiler's own libraries go into each file, so that nothing has to lie beside a DLL.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -static)
endforeach()
# FindOpenMP would link the DLL of gcc's runtime, which is on no Windows.
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE polyconv_gomp
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(OpenMP_gomp_LIBRARY "${polyconv_gomp}" CACHE FILEPATH "gcc's OpenMP runtime")
set(POLYCONV_ROOTS /usr/x86_64-w64-mingw32)
include("${CMAKE_CURRENT_LIST_DIR}/headers.cmake")
