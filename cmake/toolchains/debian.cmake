# debian.cmake - a cross compiler of Debian's and the emulator that runs what it makes, for the files beside this one, which
# set CMAKE_SYSTEM_PROCESSOR, POLYCONV_TRIPLET (the compiler's) and POLYCONV_EMULATOR (of qemu-user). Both are packages:
# g++-<triplet, with - for _> and qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${POLYCONV_TRIPLET}-gcc)
set(CMAKE_CXX_COMPILER ${POLYCONV_TRIPLET}-g++)
if(POLYCONV_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${POLYCONV_EMULATOR};-L;/usr/${POLYCONV_TRIPLET}")
endif()
set(CMAKE_FIND_ROOT_PATH /usr/${POLYCONV_TRIPLET})
# Programs are this machine's. So are packages: those of headers alone serve every processor, and one that brings a library
# is not found, because its library is looked for in the other processor's folders.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
