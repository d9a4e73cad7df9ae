# i686.cmake - x86 of 32 bits. A kernel for x86-64 runs such programs itself, given the dynamic linker that Debian's cross
# compiler brings; qemu-i386 7.2 never comes back from those with threads.
set(CMAKE_SYSTEM_PROCESSOR i686)
set(POLYCONV_TRIPLET i686-linux-gnu)
set(POLYCONV_EMULATOR "")
set(libraries /usr/i686-linux-gnu/lib)
set(CMAKE_EXE_LINKER_FLAGS_INIT
  "-Wl,--dynamic-linker=${libraries}/ld-linux.so.2 -Wl,--disable-new-dtags -Wl,-rpath,${libraries}")
include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
