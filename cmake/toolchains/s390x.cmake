# s390x.cmake - IBM Z: 64 bits, big-endian.
set(CMAKE_SYSTEM_PROCESSOR s390x)
set(POLYCONV_TRIPLET s390x-linux-gnu)
set(POLYCONV_EMULATOR qemu-s390x)
include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
