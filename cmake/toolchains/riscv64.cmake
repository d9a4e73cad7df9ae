# riscv64.cmake - RISC-V of 64 bits.
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(POLYCONV_TRIPLET riscv64-linux-gnu)
set(POLYCONV_EMULATOR qemu-riscv64)
include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
