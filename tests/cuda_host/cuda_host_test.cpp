// cuda_host_test.cpp - the host side of the CUDA plug-ins on an H100 that is none (fake_runtime.hpp): every kernel is
// planned, bound and launched with nothing that an H100 would refuse, and answers ask the device nothing.
// POLYCONV_LAUNCHES, the name of a file, gets every launch: two versions of the plug-ins launch alike where it is the
// same. ctest-timeout: 300
// SPDX-License-Identifier: Apache-2.0
#include "cuda_host/fake_runtime.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "cuda/every_kernel.hpp"
#include "cuda_host/run_once.hpp"

namespace {

using cuda_test::chain_of, cuda_test::kProblems;

// Of the kernels that are no layer's: steps of a plan, and what takes over from nobody.
const std::set<std::string> kSteps = {"cuda-direct/pool", "cuda-direct/gradient", "cuda-direct/convert"};

// What kProblems leaves out: plug-ins without matrix units, each kernel's own sort.
constexpr const char *kMoreProblems[] = {
    "fwd:n2,c1,k4,i30x33,f5x5,p2",
    "fwd:n2,c16,k16,g16,i20x20,f3x3,p1",
    "fwd:n2,c16,k16,g16,i20x20,f3x3,p1:nhwc",
    "bwd_d:n2,c16,k16,g16,i20x20,f3x3,p1",
    "bwd_d:n2,c64,k64,i16x16,f1x1:f16",
    "bwd_d:n2,c16,k16,g16,i20x20,f3x3,p1:nhwc",
    "bwd_w:n2,c16,k16,g16,i20x20,f3x3,p1",
    "bwd_w:n2,c16,k16,g16,i20x20,f3x3,p1:nhwc",
    "fwd:n3,c3,k56,i65x63,f3x3,s2,p1:bias+relu", // few input channels, all filters in turn
    "fwd:n2,c1,k16,i12x14x15,f3x3x3,s2,p1:silu",
    "fwd:n2,c40,k2,i1000,f7,p3",
    "bwd_d:n2,c4,k16,i20x20,f3x3,p1",
    "bwd_d:n2,c4,k16,i20x20,f5x5,s2,p1",
    "bwd_w:n2,c16,k16,g16,i14x14,f2x2,s2",
    "bwd_w:n2,c4,k16,i20x20,f3x3,p1",
    "bwd_w:n2,c64,k64,i20x20,f3x3,p1",
    "bwd_w:n4,c16,k24,i63x64,f1x1:nhwc:bf16",
    "bwd_w:n4,c24,k136,i48x40,f1x1:nhwc:f16",
    "bwd_w:n8,c16,k72,i62x64,f1x1,s2:nhwc:f16",
    "fwd:n2,c3,k64,i32x32,f4x4,s4",
    "bwd_d:n2,c3,k64,i32x32,f4x4,s4",
    "bwd_w:n2,c3,k64,i32x32,f4x4,s4",
    "bwd_d:n32,c64,k128,i56x56,f2x2,s2:f16", // as it lies where channels are last, after a conversion
    "fwd:n2,c512,k512,i1x1,f1x1",
    "bwd_d:n2,c512,k512,i1x1,f1x1",
    "bwd_w:n2,c512,k512,i1x1,f1x1",
    "fwd:n2,c8,k16,i17x19,f3x3,p1:f64",
    // Gradients of weights of small groups: each shape of a warp's sums, units of several groups, slices of a window.
    "bwd_w:n3,c672,k672,g84,i14x14,f5x5,s2,p2:nhwc:f16",
    "bwd_w:n5,c104,k104,g13,i15x13,f3x3,p1:nhwc:bf16",
    "bwd_w:n4,c128,k128,g8,i14x14,f3x3,p1:nhwc:f16",
    "bwd_w:n2,c96,k96,g6,i9x11,f5x5,s2,p2:nhwc:bf16",
    "bwd_w:n2,c96,k96,g4,i14x14,f3x3,p1:nhwc:f16",
    "bwd_w:n2,c128,k128,g4,i16x16,f3x3,s2,p1:nhwc:f16",
    "bwd_w:n2,c128,k128,g2,i14x14,f7x7,p3:nhwc:f16",
    "bwd_w:n7,c128,k256,g128,i14x14,f3x3,s2,p1:nhwc:f16:bias",
    "bwd_w:n3,c36,k24,g3,i12x12,f3x3,p2,d2:nhwc:bf16",
    // Depthwise, channels last: strided gradients of the input, far and odd windows, odd channels.
    "bwd_d:n2,c64,k64,g64,i14x14,f3x3,s2,p1:nhwc:f16",
    "bwd_d:n2,c66,k66,g66,i15x13,f5x5,s2,p2:nhwc:bf16",
    "bwd_d:n2,c33,k33,g33,i14x15,f7x7,s2,p3:nhwc:f16",
    "bwd_d:n2,c32,k32,g32,i14x14,f2x2,s2:nhwc",
    "bwd_d:n2,c32,k32,g32,i17x16,f4x4,s2,p1:nhwc",
    "fwd:n2,c512,k512,g512,i32x32,f3x3,p24,d24:nhwc:f16",
    "bwd_d:n2,c512,k512,g512,i32x32,f3x3,p24,d24:nhwc:f16",
    "fwd:n2,c156,k156,g156,i14x14,f5x1,p2x0:nhwc:f16:bias+relu",
    "fwd:n2,c81,k81,g81,i7x9,f3x3,p1:nhwc:bf16:bias+relu",
    "fwd:n2,c16,k16,g16,i5x7x6,f3x3x3,p1:nhwc",
};

polyconv::Options freest(const std::string &kernel) {
  polyconv::Options options;
  options.kernel = kernel.c_str();
  options.math = POLYCONV_MATH_FAST;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.bind = 1;
  return options;
}

bool planned(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain,
             const polyconv::Options &options) {
  polyconv_plan *plan = nullptr;
  const auto count = static_cast<int32_t>(chain.size());
  if (polyconv_plan_create(device.get(), chain.data(), count, &options, &plan) != POLYCONV_SUCCESS) return false;
  polyconv_plan_destroy(plan);
  return true;
}

std::string backend_name(int32_t index) {
  polyconv_backend_info info{};
  info.struct_size = sizeof info;
  REQUIRE(polyconv_backend_get(index, &info) == POLYCONV_SUCCESS);
  return info.name;
}

std::vector<std::string> plug_ins() {
  std::vector<std::string> names;
  for (int32_t b = 0; b < polyconv_backend_count(); ++b)
    if (const std::string name = backend_name(b); name.rfind("cuda-", 0) == 0) names.push_back(name);
  return names;
}

std::vector<std::string> problems() {
  std::vector<std::string> all(std::begin(kProblems), std::end(kProblems));
  all.insert(all.end(), std::begin(kMoreProblems), std::end(kMoreProblems));
  return all;
}

// Its launches.
std::vector<fake_cuda::Launch> run(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain,
                                   const polyconv::Options &options) {
  fake_cuda::take_launches();
  CHECK_NOTHROW(fake_cuda::run_once(device, chain, polyconv::Plan(chain, options, device)));
  const std::vector<fake_cuda::Launch> launches = fake_cuda::take_launches();
  CHECK(!launches.empty());
  for (const fake_cuda::Launch &launch : launches) CHECK(fake_cuda::refusal(launch) == "");
  return launches;
}

// A number that each launch of a kernel on a layer has.
template <class Number>
std::vector<Number> of_each_launch(const polyconv::Device &device, const std::string &kernel, const char *token,
                                   Number fake_cuda::Launch::*number) {
  std::vector<Number> numbers;
  for (const fake_cuda::Launch &l : run(device, chain_of(token), freest(kernel))) numbers.push_back(l.*number);
  return numbers;
}

void write(std::ofstream &out, const std::string &kernel, const std::string &tokens,
           const std::vector<fake_cuda::Launch> &launches) {
  if (!out.is_open()) return;
  out << kernel << " on " << tokens << "\n";
  for (const fake_cuda::Launch &l : launches) out << fake_cuda::text_of(l) << "\n";
}

} // namespace

TEST_CASE("every kernel is planned, packed, bound and run, and an H100 would take its launches") {
  const polyconv::Device device("cuda:0");
  std::ofstream out;
  if (const char *file = std::getenv("POLYCONV_LAUNCHES")) out.open(file);
  REQUIRE(plug_ins().size() >= 8);
  for (const std::string &plug_in : plug_ins()) {
    const std::vector<std::string> kernels = cuda_test::kernels_of(plug_in);
    std::set<std::string> taken, repeated; // by a problem of this test; by one of kProblems
    for (const std::string &tokens : problems()) {
      const bool in_repeat = std::count(std::begin(kProblems), std::end(kProblems), tokens) != 0;
      const std::vector<polyconv::Problem> chain = chain_of(tokens);
      if ((chain.size() > 1) != (plug_in == "cuda-chain")) continue;
      for (const std::string &kernel : kernels) {
        polyconv::Options options = freest(kernel);
        if (chain.size() > 1) options.grouping = "8"; // all layers in one
        if (!planned(device, chain, options)) continue;
        INFO(kernel, " on ", tokens);
        write(out, kernel, tokens, run(device, chain, options));
        const std::string name = kernel.substr(0, kernel.find('@'));
        taken.insert(name);
        if (in_repeat) repeated.insert(name);
      }
    }
    for (const std::string &kernel : kernels) {
      const std::string name = kernel.substr(0, kernel.find('@'));
      INFO(name, ": no problem of this test is one that it takes");
      CHECK((taken.count(name) == 1 || kSteps.count(name) == 1));
      if (plug_in != "cuda-tensor" && plug_in != "cuda-chain") continue;
      INFO("nor is one of kProblems, so that cuda_repeat would run it never");
      CHECK(repeated.count(name) == 1);
    }
  }
}

TEST_CASE("weights that are new in every run are read raw where channels are last, and packed by one launch else") {
  const polyconv::Device device("cuda:0");
  struct Way {
    const char *kernel, *token, *format;
    size_t launches;
  };
  for (const Way &way : {
           Way{"cuda-tensor/wgmma@128x256x64", "fwd:n8,c64,k256,i28x28,f3x3,p1:nhwc:krsc:f16", "raw", 1},
           Way{"cuda-tensor/wgmma_tf32@128x256x32", "fwd:n8,c64,k256,i28x28,f1x1:nhwc:krsc", "raw", 1},
           Way{"cuda-tensor/wgmma_halo@64x232", "fwd:n8,c64,k64,i28x28,f3x3,p1:nhwc:krsc:bf16", "raw", 1},
           Way{"cuda-tensor/wgmma_data@128x256x64", "bwd_d:n8,c256,k64,i28x28,f3x3,p1:nhwc:krsc:f16", "raw", 1},
           Way{"cuda-tensor/wgmma_data@256x128x64c", "bwd_d:n8,c128,k72,i28x28,f1x1:nhwc:krsc:bf16", "raw", 1},
           Way{"cuda-tensor/wgmma_data@64x64x64s4", "bwd_d:n2,c512,k512,i7x7,f3x3,p1:nhwc:krsc:f16", "raw", 1},
           Way{"cuda-tensor/wgmma_data@128x160x64", "bwd_d:n8,c160,k64,i28x28,f1x1:nhwc:krsc:f16",
               "adjoint_cuda_krsc_f16_unfenced:2", 2},
           Way{"cuda-tensor/wgmma_halo_data@64x232", "bwd_d:n8,c64,k32,i28x28,f3x3,p1:nhwc:krsc:f16", "raw", 1},
           Way{"cuda-tensor/wgmma_strided_data@128x128x64t2", "bwd_d:n8,c128,k128,i28x28,f3x3,s2,p1:nhwc:krsc:f16",
               "raw", 1},
           Way{"cuda-tensor/wgmma@128x256x64", "fwd:n8,c64,k256,i28x28,f3x3,p1:nhwc:f16", "cuda_krsc_f16_unfenced:2",
               2},
           // Of depthwise layers, whose filters lie in a row either way, also those that are seen from behind; but not
           // so many that staging takes longer than a packing for all blocks.
           Way{"cuda-shared/depthwise_last@2x4", "fwd:n8,c96,k96,g96,i56x56,f7x7,p3:nhwc:krsc:f16:bias", "raw", 1},
           Way{"cuda-shared/depthwise_last@2x4", "fwd:n8,c96,k96,g96,i56x56,f7x7,p3:nhwc:flip:f16", "raw", 1},
           Way{"cuda-shared/depthwise_last_data@4x2", "bwd_d:n8,c64,k64,g64,i28x28,f3x3,p1:nhwc:f16", "raw", 1},
           Way{"cuda-shared/depthwise_patches@32", "fwd:n8,c32,k32,g32,i12x12x12,f3x3x3,p1:nhwc:krsc:bf16", "raw", 1},
           Way{"cuda-shared/depthwise_patches_data@64", "bwd_d:n8,c64,k64,g64,i12x12x12,f3x3x3,p1:nhwc:f16", "raw", 1},
           Way{"cuda-shared/depthwise_taps@8", "fwd:n2,c512,k512,g512,i32x32,f3x3,p24,d24:nhwc:krsc:f16", "raw", 1},
           Way{"cuda-shared/depthwise_taps@8", "fwd:n2,c512,k512,g512,i32x32,f1x1:nhwc:krsc:f16", "raw", 1},
           Way{"cuda-shared/depthwise_taps@4", "fwd:n32,c2816,k2816,g2816,i7x7,f9x9,p4:nhwc:krsc:f16",
               "cuda_taps_channels_16:1", 2},
           Way{"cuda-shared/depthwise_taps_data@2", "bwd_d:n2,c50,k50,g50,i14x14,f3x3,s2,p1:nhwc", "raw", 1},
           Way{"cuda-shared/strided_last_data@2", "bwd_d:n8,c64,k64,g64,i28x28,f5x5,s2,p2:nhwc:krsc:f16", "raw", 1},
       }) {
    const std::string kernel = way.kernel; // which options point into
    INFO(kernel, " on ", std::string(way.token));
    const std::vector<polyconv::Problem> chain = chain_of(way.token);
    polyconv::Options options = freest(kernel);
    options.dynamic_weights = POLYCONV_WEIGHTS_NEW;
    REQUIRE(planned(device, chain, options));
    CHECK(polyconv::Plan(chain, options, device).weights_format(0) == std::string(way.format));
    CHECK(run(device, chain, options).size() == way.launches);
  }
}

TEST_CASE("new depthwise weights that lie tap by tap are read where they are, but for parts of a strided gradient") {
  const polyconv::Device device("cuda:0");
  const auto by_taps = [&](const std::string &kernel, const char *token, int32_t weights) {
    std::vector<polyconv::Problem> chain = chain_of(token);
    const int64_t strides[] = {1, 1, 3 * 64, 64};
    chain[0].has_weights_strides = 1;
    std::copy(std::begin(strides), std::end(strides), chain[0].weights_strides);
    polyconv::Options options = freest(kernel);
    options.dynamic_weights = weights;
    run(device, chain, options);
    return polyconv::Plan(chain, options, device).weights_format(0);
  };
  const char *const forward = "fwd:n2,c64,k64,g64,i14x14,f3x3,p1:nhwc:f16";
  for (const char *const kernel : {"cuda-shared/depthwise_last@4x2", "cuda-shared/depthwise_taps@8"}) {
    CHECK(by_taps(kernel, forward, POLYCONV_WEIGHTS_NEW) == "raw");
    CHECK(by_taps(kernel, forward, POLYCONV_WEIGHTS_CONSTANT) == "cuda_taps_channels_16:1");
  }
  CHECK(by_taps("cuda-shared/depthwise_last_data@4x2", "bwd_d:n2,c64,k64,g64,i14x14,f3x3,p1:nhwc:f16",
                POLYCONV_WEIGHTS_NEW) == "adjoint_cuda_taps_channels_16:1");
  CHECK(by_taps("cuda-shared/depthwise_patches_data@64", "bwd_d:n2,c64,k64,g64,i14x14,f3x3,s2,p1:nhwc:f16",
                POLYCONV_WEIGHTS_NEW) == "adjoint_cuda_taps_channels_as_f32:1");
}

// Where a device does not run all blocks at once, another launch adds what they leave.
TEST_CASE("blocks of a gradient of weights add what they left, where windows are one pixel and all run at once") {
  const polyconv::Device device("cuda:0");
  const auto together_of = [&](const std::string &kernel, const char *token) {
    return of_each_launch(device, kernel, token, &fake_cuda::Launch::together);
  };
  const std::string tiles = "cuda-tensor/wgmma_weights@128x128";
  const char *const one_pixel = "bwd_w:n32,c256,k512,i28x28,f1x1:nhwc:krsc:f16";
  CHECK(together_of(tiles, one_pixel) == std::vector<bool>{true});
  CHECK(together_of(tiles, "bwd_w:n32,c128,k128,i28x28,f3x3,p1:nhwc:krsc:f16") == std::vector<bool>{false, false});
  fake_cuda::lend(100);
  CHECK(together_of(tiles, one_pixel) == std::vector<bool>{false, false});
  fake_cuda::lend(132);
}

// A second launch takes as long as the products of so few pixels.
TEST_CASE("gradients of weights over few pixels are one launch: of clusters, or of a block for each channel") {
  const polyconv::Device device("cuda:0");
  const auto clusters_of = [&](const std::string &kernel, const char *token) {
    return of_each_launch(device, kernel, token, &fake_cuda::Launch::cluster);
  };
  const std::string tiles = "cuda-gemm/implicit_weights@32x32", rows = "cuda-shared/depthwise_weights@4";
  CHECK(clusters_of(tiles, "bwd_w:n32,c48,k64,i10x10,f2x2,s2") == std::vector<uint32_t>{8});
  CHECK(clusters_of(tiles, "bwd_w:n32,c32,k32,i56x56,f1x1") == std::vector<uint32_t>{1, 1});
  CHECK(clusters_of(rows, "bwd_w:n32,c240,k240,g240,i7x7,f3x3,p1") == std::vector<uint32_t>{1});
  CHECK(clusters_of(rows, "bwd_w:n32,c24,k24,g24,i56x56,f3x3,p1") == std::vector<uint32_t>{1, 1});
}

// A tile of one block of depth cannot be parted; as if it could, a second launch looked at each of 103 million weights.
TEST_CASE("tiles that no two workers share need no workspace") {
  const polyconv::Device device("cuda:0");
  for (const char *name : {"128x256", "128x192", "64x64"}) {
    const std::string kernel = std::string("cuda-tensor/wgmma_weights@") + name;
    const polyconv::Plan plan(chain_of("bwd_w:n8,c512,k4096,i7x7,f7x7:nhwc:krsc:f16"), freest(kernel), device);
    CHECK_MESSAGE(plan.info().workspace_bytes == 0, kernel);
  }
}

// Which products are the vectors': of few rows. Of thousands they took twice the time of tiles, and were chosen. Nor
// are channels unfolded whose last block of a tap is short: a sixth of zeros costs less than a matrix in memory.
TEST_CASE("strict f32 products of many pixels are made by tiles, of few by rows") {
  const polyconv::Device device("cuda:0");
  polyconv::Options options;
  options.kernel = "cuda-*/*";
  const auto kernel_of = [&](const char *token) {
    return std::string(polyconv::Plan(chain_of(token), options, device).info().kernel);
  };
  for (const char *token : {"fwd:n128,c960,k160,i7x7,f1x1:nhwc:bias", "fwd:n128,c576,k160,i7x7,f1x1:nhwc:bias",
                            "fwd:n32,c960,k160,i7x7,f1x1:nhwc", "fwd:n32,c83,k166,i56x56,f3x3,p1"})
    CHECK_MESSAGE(kernel_of(token).rfind("cuda-gemm/implicit@", 0) == 0, token, ": ", kernel_of(token));
  for (const char *token : {"fwd:n1,c960,k160,i7x7,f1x1:nhwc", "fwd:n1,c1280,k1000,i1x1,f1x1:nhwc"})
    CHECK_MESSAGE(kernel_of(token).rfind("cuda-gemm/vector@", 0) == 0, token, ": ", kernel_of(token));
}

// Or the command in a log's line, and an entry of the tuning database, would not bring back the plan they are about.
TEST_CASE("a plan takes every candidate by the name that explain gives it") {
  const polyconv::Device device("cuda:0");
  for (const std::string &tokens : problems()) {
    const std::vector<polyconv::Problem> chain = chain_of(tokens);
    polyconv_explanation *made = nullptr;
    const std::string every = "cuda-*/*";
    const polyconv::Options any = freest(every);
    REQUIRE(polyconv_explain(device.get(), chain.data(), static_cast<int32_t>(chain.size()), &any, &made) ==
            POLYCONV_SUCCESS);
    for (int32_t i = 0; i < polyconv_explanation_count(made) && chain.size() == 1; ++i) {
      polyconv_candidate candidate{};
      candidate.struct_size = sizeof candidate;
      REQUIRE(polyconv_explanation_get(made, i, &candidate) == POLYCONV_SUCCESS);
      INFO(std::string(candidate.kernel), " on ", tokens);
      CHECK((candidate.accepted == 0 || planned(device, chain, freest(candidate.kernel))));
    }
    polyconv_explanation_destroy(made);
  }
}

TEST_CASE("a kernel answers without a call of the CUDA runtime") {
  const polyconv::Device device("cuda:0");
  for (const std::string &tokens : problems())
    for (const int32_t math : {POLYCONV_MATH_STRICT, POLYCONV_MATH_TF32, POLYCONV_MATH_FAST}) {
      INFO(tokens);
      const std::vector<polyconv::Problem> chain = chain_of(tokens);
      polyconv::Options options;
      options.math = math;
      const auto ask = [&] {
        polyconv_explanation *made = nullptr;
        const auto count = static_cast<int32_t>(chain.size());
        REQUIRE(polyconv_explain(device.get(), chain.data(), count, &options, &made) == POLYCONV_SUCCESS);
        polyconv_explanation_destroy(made);
      };
      ask(); // what a device is, is remembered
      const int64_t before = fake_cuda::calls();
      ask();
      CHECK(fake_cuda::calls() == before);
    }
}
