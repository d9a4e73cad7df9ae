# aarch64.cmake - 64-bit Arm.
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(POLYCONV_TRIPLET aarch64-linux-gnu)
set(POLYCONV_EMULATOR qemu-aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
