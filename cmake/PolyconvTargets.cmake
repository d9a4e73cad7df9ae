# What every target of this project shares: flags, the tree that both build and install have, and how a part that lacks
# a dependency says so.

include(PolyconvBackend)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Whether the compiler takes gcc's flags: gcc and clang do, but for clang-cl, which takes Microsoft's.
set(POLYCONV_GNU_FLAGS OFF)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang" AND NOT CMAKE_CXX_COMPILER_FRONTEND_VARIANT STREQUAL "MSVC")
  set(POLYCONV_GNU_FLAGS ON)
endif()

# Inside another project that chose neither a build type nor a level of its own, our targets are optimised all the same:
# without -O a kernel takes fifty times as long.
set(polyconv_common_flags)
get_property(polyconv_many_types GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT polyconv_many_types AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )[-/]O")
  if(POLYCONV_GNU_FLAGS)
    set(polyconv_common_flags -O3 -DNDEBUG) # as type Release
  else()
    set(polyconv_common_flags /O2 /DNDEBUG)
  endif()
endif()

# One tree shape for build and install: bin/, lib/libpolyconv.so, lib/polyconv/libpolyconv_<backend>.so.
set(POLYCONV_OUTPUT_LIB "${PROJECT_BINARY_DIR}/lib")
set(POLYCONV_OUTPUT_BIN "${PROJECT_BINARY_DIR}/bin")

find_package(Threads REQUIRED)

# Some processors have no instructions for a byte's atomic operations, and gcc before 14 calls a library for those of RISC-V.
set(polyconv_atomics)
if(POLYCONV_GNU_FLAGS)
  include(CheckCXXSourceCompiles)
  check_cxx_source_compiles("#include <atomic>
    std::atomic<bool> flag; std::atomic<long long> count;
    int main() { return flag.exchange(true) ? 1 : static_cast<int>(++count) - 1; }" POLYCONV_HAS_ATOMICS)
  if(NOT POLYCONV_HAS_ATOMICS)
    set(polyconv_atomics atomic)
  endif()
endif()

if(POLYCONV_PACKAGES AND POLYCONV_GNU_FLAGS) # only there: compiler caches would take a folder's name for another compilation
  set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
  list(APPEND polyconv_common_flags "-ffile-prefix-map=${PROJECT_BINARY_DIR}=." "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
endif()

# polyconv_without(<part> <dependency> <Debian package>): the one line for a part that is left out.
function(polyconv_without part dependency package)
  message(STATUS "polyconv: without ${part}: ${dependency} not found (Debian: ${package})")
endfunction()

if(POLYCONV_GNU_FLAGS)
  set(polyconv_warnings -Wall -Wextra -Wshadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND polyconv_warnings -Wreserved-identifier) # instead of a check of clang-tidy's
  endif()
  set(polyconv_warnings_are_errors -Werror)
else()
  set(polyconv_warnings /W4 /permissive- /utf-8)
  set(polyconv_warnings_are_errors /WX)
endif()
# x86 of 32 bits computes in registers of 80 bits unless it is told to use SSE2's, and rounds whenever those run out: the
# same sum would have other bits from tile to tile.
if(POLYCONV_GNU_FLAGS AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(i[3-6]86|x86)$")
  list(APPEND polyconv_common_flags -msse2 -mfpmath=sse)
endif()

# gcc keeps vectors of AVX on a stack that Windows aligns to 16 bytes as if it were aligned to theirs (its bug 54412): the
# assembler makes those moves into such as take any address.
if(MINGW AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND polyconv_common_flags -Wa,-muse-unaligned-vector-move)
endif()

# polyconv_without_contraction(<target>): a multiplication and an addition stay two where they are written as two, so that
# compilers agree on the bits.
function(polyconv_without_contraction target)
  if(POLYCONV_GNU_FLAGS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>)
  else()
    target_compile_options(${target} PRIVATE /fp:precise)
  endif()
endfunction()

# Flags of every target that is ours.
function(polyconv_target_defaults target)
  target_compile_features(${target} PRIVATE cxx_std_17 c_std_99)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF C_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON
    LIBRARY_OUTPUT_DIRECTORY "${POLYCONV_OUTPUT_LIB}"
    RUNTIME_OUTPUT_DIRECTORY "${POLYCONV_OUTPUT_BIN}")
  target_compile_options(${target} PRIVATE ${polyconv_common_flags}
    "$<$<COMPILE_LANGUAGE:C,CXX>:${polyconv_warnings}>"
    $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<BOOL:${POLYCONV_WARNINGS_AS_ERRORS}>>:${polyconv_warnings_are_errors}>)
  target_link_libraries(${target} PRIVATE ${polyconv_atomics})
  if(POLYCONV_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${POLYCONV_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=${POLYCONV_SANITIZE})
  endif()
  if(POLYCONV_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link) # libFuzzer sees which branches an input takes
  endif()
  if(POLYCONV_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage)
    target_link_options(${target} PRIVATE --coverage)
  endif()
endfunction()

# For what computes little itself: gcc compiles with -Og in two thirds of the time of -O1, which to clang is the same.
function(polyconv_computes_little target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
  elseif(POLYCONV_GNU_FLAGS)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# Called by polyconv_add_backend for a backend of this project.
function(polyconv_own_backend target name)
  polyconv_target_defaults(${target})
  if(WIN32) # libpolyconv.dll lies in bin, and looks beside itself
    set(built "${POLYCONV_OUTPUT_BIN}")
    set(installed ${CMAKE_INSTALL_BINDIR})
  else()
    set(built "${POLYCONV_OUTPUT_LIB}")
    set(installed ${CMAKE_INSTALL_LIBDIR})
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${built}/polyconv")
  if(POLYCONV_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${installed}/polyconv COMPONENT ${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY POLYCONV_BACKENDS ${name})
  set_property(GLOBAL APPEND PROPERTY POLYCONV_BACKEND_TARGETS ${target})
endfunction()
