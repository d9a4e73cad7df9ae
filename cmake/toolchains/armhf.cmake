# armhf.cmake - Arm of 32 bits.
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(POLYCONV_TRIPLET arm-linux-gnueabihf)
set(POLYCONV_EMULATOR qemu-arm)
include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
