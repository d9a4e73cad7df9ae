// cuda_launch_test.cpp - what a run costs the host beside a bare launch of the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include "bare_launch.hpp"

#include <algorithm>
#include <chrono>

#include "cuda.hpp"

namespace {

constexpr int kInARow = 16; // the device's queue is never full

template <class Submit>
double host_us(cudaStream_t stream, const Submit &submit) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kInARow; ++i) submit();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  cudaStreamSynchronize(stream);
  return taken.count() / kInARow;
}

} // namespace

TEST_CASE("a run adds at most 2 us to a bare launch") {
  if (cuda_test::no_device()) return;
  const polyconv::Device device("cuda:0");
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  // Kernels that are one launch. cuda-constant takes its weights along as parameters, so its yardstick does too.
  for (const char *kernel : {"cuda-direct/direct", "cuda-shared/tiles", "cuda-constant/constant",
                             "cuda-shuffle/shuffle", "cuda-texture/texture", "cuda-gemm/implicit"}) {
    CAPTURE(std::string(kernel));
    const bool large = std::string(kernel) == "cuda-constant/constant";
    const cuda_test::Layer layer(device, "fwd:n1,c1,k4,i16x16,f3x3", kernel, 1);
    double bare = 1e9, run = 1e9;
    for (int round = 0; round < 100; ++round) { // the least of many: others may use the machine
      bare = std::min(bare, host_us(stream, [&] { launch_bare(large, stream); }));
      run = std::min(run, host_us(stream, [&] { layer.run(stream); }));
    }
    MESSAGE(std::string(kernel) << ": a run takes the host " << run << " us, a bare launch " << bare << " us");
#ifdef NDEBUG
    CHECK(run - bare <= 2);
#endif
  }
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}
