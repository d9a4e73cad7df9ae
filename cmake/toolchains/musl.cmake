# musl.cmake - x86-64 Linux with musl in place of glibc, by zig, which brings clang, libc++ and the sources of musl
# (`pip install ziglang`; its zig or python-zig on PATH). What it makes runs where musl's loader is (Debian: musl).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
find_program(POLYCONV_ZIG NAMES zig python-zig REQUIRED)
set(CMAKE_C_COMPILER "${POLYCONV_ZIG}" cc -target x86_64-linux-musl)
set(CMAKE_CXX_COMPILER "${POLYCONV_ZIG}" c++ -target x86_64-linux-musl)
# Plug-ins are opened by a program that musl's loader started: zig links statically unless it is told.
set(CMAKE_EXE_LINKER_FLAGS_INIT -dynamic)
# Without optimisation zig adds UBSan and a runtime of its own that asks for a newer musl than Debian's.
set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
set(POLYCONV_ROOTS) # zig's own
include("${CMAKE_CURRENT_LIST_DIR}/headers.cmake")
