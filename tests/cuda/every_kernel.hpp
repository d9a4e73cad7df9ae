// every_kernel.hpp - problems of which each kernel of cuda-tensor and cuda-chain takes one at least, and the names of
// the kernels: what tests share that look at every kernel in every config.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.hpp>

#include <cstdlib>
#include <string>
#include <vector>

namespace cuda_test {

// Layers, then chains: tiles to spare for every multiprocessor, ragged last tiles, tails of channels. Each kernel takes
// one at least.
inline constexpr const char *kProblems[] = {
    // f32: TF32 or emulated. Taps near by, at stride 2, of few channels; channels last; few channels in and out.
    "fwd:n16,c64,k128,i28x28,f3x3,p1",
    "fwd:n3,c128,k192,i27x27,f3x3,s2,p1:bias+relu",
    "fwd:n9,c3,k72,i61x59,f7x7,s2,p3",
    "fwd:n9,c3,k16,i61x59,f3x3,p1:nhwc:bias",
    "fwd:n6,c64,k96,i30x29,f3x3,p1:nhwc",
    "fwd:n3,c64,k3,i41x40,f3x3,p1:nhwc",
    "fwd:n6,c64,k64,g4,i30x29,f3x3,p1:nhwc",
    "fwd:n6,c44,k44,g11,i30x29,f3x3,p1:nhwc:bias",
    "fwd:n60,c1,k4,i86x86,f7x7",
    "fwd:n2,c1,k2,i301x260,f5x5,p2",
    // Half precision: two taps' phases of stride 2, tails, one tap deep and wide, groups, pixels of no whole 16 bytes.
    "fwd:n64,c64,k128,i28x28,f3x3,p1:nhwc:f16",
    "fwd:n3,c128,k192,i27x27,f3x3,s2,p1:nhwc:bf16:bias+relu",
    "fwd:n5,c40,k72,i19x23,f3x3,p1:nhwc:f16",
    "fwd:n24,c128,k256,i28x32,f3x3,p1:nhwc:f16:bias",
    "fwd:n20,c64,k64,i28x28,f3x3,p1:nhwc:f16",
    "fwd:n2,c1280,k640,i8x8,f1x1:nhwc:f16:bias",
    "fwd:n6,c24,k144,i55x56,f1x1:nhwc:f16:bias+clip6",
    "fwd:n6,c144,k24,i55x56,f1x1:nhwc:bf16:bias+residual",
    "fwd:n3,c33,k50,i21x22,f3x3,p1:nhwc:f16",
    "fwd:n3,c33,k50,i21x22,f3x3,p1:nhwc:f16:pad=reflect",
    "fwd:n8,c64,k64,g8,i14x14,f3x3,p1:nhwc:f16",
    "fwd:n8,c88,k88,g22,i29x28,f3x3,s2,p1:nhwc:f16", // groups in pairs, and less than a slice of them
    "fwd:n4,c3,k64,i61x59,f7x7,s2,p3:nhwc:f16",
    "fwd:n4,c64,k3,i41x40,f3x3,p1:nhwc:f16",
    "fwd:n60,c1,k4,i86x86,f7x7:f16:bias+relu",
    "fwd:n60,c4,k16,i40x40,f7x7:f16",
    "fwd:n60,c12,k24,i33x33,f7x7:bf16",
    "fwd:n60,c1,k50,i28x28,f5x5:f16",
    "fwd:n1500,c1,k8,i14x14,f3x3:f16",
    "fwd:n4200,c1,k32,i18x18,f3x3:f16",       // banded: blocks come back for each of so many images
    "fwd:n300,c1,k85,i32x32,f3x3:f16",        // banded: shares without filters, the same warp's in every image
    "fwd:n70,c2040,k1000,i1x1,f1x1:f16:bias", // one pixel
    "fwd:n9,c637,k330,i1x1,f1x1:bf16:bias",
    // Gradients.
    "bwd_d:n70,c1000,k2040,i1x1,f1x1:f16",
    "bwd_w:n70,c1000,k2040,i1x1,f1x1:f16",
    "bwd_w:n70,c637,k330,i1x1,f1x1:bf16",
    "bwd_d:n12,c128,k64,i28x28,f3x3,p1:nhwc:f16",
    "bwd_d:n6,c128,k64,i29x28,f3x3,s2,p1:nhwc:f16",
    "bwd_d:n2,c64,k1024,i7x7,f3x3,p1:nhwc:f16",
    "bwd_d:n10,c64,k64,i28x28,f3x3,p1:nhwc:bf16",
    "bwd_d:n4,c3,k64,i61x59,f7x7,s2,p3:nhwc:f16",
    "bwd_d:n3,c33,k50,i21x22,f3x3,p1:nhwc:f16",
    "bwd_d:n8,c64,k64,g8,i14x14,f3x3,p1:nhwc:f16",
    "bwd_d:n8,c64,k64,g8,i15x14,f3x3,s2,p1:nhwc:f16",
    "bwd_d:n6,c64,k96,i30x29,f3x3,p1:nhwc",
    "bwd_w:n12,c128,k64,i28x28,f3x3,p1:nhwc:f16",
    "bwd_w:n4,c3,k64,i61x59,f7x7,s2,p3:nhwc:bf16",
    "bwd_w:n6,c64,k96,i30x29,f3x3,p1:nhwc",
    "bwd_w:n8,c64,k64,g8,i14x14,f3x3,p1:nhwc:f16",
    "bwd_w:n3,c70,k90,i8x20,f1x1:f16",             // channels first, rows that end within a block of pixels
    "bwd_w:n6,c72,k72,i24x23,f1x1:nhwc:krsc:f16",  // blocks that add together, alone and in pairs
    "bwd_w:n8,c256,k128,i8x8,f1x1:nhwc:krsc:f16",  // clusters, also of tiles of which parts do not exist
    "bwd_w:n3,c576,k1088,i5x5,f1x1:nhwc:krsc:f16", // whole tiles, more than multiprocessors
    "bwd_d:n6,c24,k144,i55x56,f1x1:nhwc:f16",
    "bwd_d:n8,c64,k128,i1x240,f1x1:f16",
    "bwd_d:n4,c64,k3,i41x40,f3x3,p1:nhwc:f16", // few channels, and few filters
    "bwd_d:n4,c3,k64,i41x40,f3x3,p1:nhwc:f16",
    "bwd_d:n9,c16,k3,i61x59,f3x3,p1:nhwc",
    "bwd_d:n3,c3,k64,i41x40,f3x3,p1:nhwc",
    // Windows that do not overlap, in three directions.
    "fwd:n5,c16,k72,i36x40,f4x4,s4:nhwc:f16:bias",
    "bwd_d:n5,c16,k72,i36x40,f4x4,s4:nhwc:f16",
    "bwd_w:n5,c16,k72,i36x40,f4x4,s4:nhwc:f16",
    // Images, and LeNets.
    "fwd:i500x516,f5x5,p2 > fwd:i500x516,f3x3,p1 > fwd:i500x516,f3x3,p1",
    "fwd:i500x516,f5x5,p2:u8-f32-u8:pad=replicate > fwd:i500x516,f3x3,p1:u8-f32-u8:pad=replicate",
    "fwd:n301,c1,k6,i28x28,f5x5,p2:bias+relu > fwd:n301,c6,k16,i28x28,f4x4,s2:bias+relu > "
    "fwd:n301,c16,k8,i13x13,f3x3,p1:bias+relu > fwd:n301,c8,k4,i13x13,f3x3:bias+relu",
    "fwd:n1500,c1,k6,i28x28,f5x5,p2:f16:bias+relu > fwd:n1500,c6,k16,i28x28,f4x4,s2:f16:bias+relu > "
    "fwd:n1500,c16,k8,i13x13,f3x3,p1:f16:bias+relu > fwd:n1500,c8,k4,i13x13,f3x3:f16:bias+relu",
    "fwd:n301,c1,k6,i28x28,f5x5,p2:bias+relu+maxpool2 > fwd:n301,c6,k16,i14x14,f5x5:bias+relu+maxpool2",
    "fwd:n1500,c1,k6,i28x28,f5x5,p2:f16:bias+relu+maxpool2 > fwd:n1500,c6,k16,i14x14,f5x5:f16:bias+relu+maxpool2",
    "fwd:n50,c1,k4,i86x86,f7x7:f16:bias+relu+maxpool2 > fwd:n50,c4,k16,i40x40,f7x7:f16:bias+relu+maxpool4",
    "fwd:n4,c3,k16,i40x33,f3x3,p1:nhwc:f16:bias+relu > fwd:n4,c16,k16,i40x33,f3x3,p1:nhwc:f16:bias+relu",
    // Depthwise and pointwise, alone and with what widens before them.
    "fwd:n20,c144,k144,g144,i29x28,f3x3,p1:nhwc:f16:bias+clip6 > fwd:n20,c144,k32,i29x28,f1x1:nhwc:f16:bias",
    "fwd:n20,c104,k104,g104,i29x28,f3x3,s2,p1:nhwc:bf16:bias+clip6 > fwd:n20,c104,k64,i15x14,f1x1:nhwc:bf16:bias",
    "fwd:n20,c960,k960,g960,i7x7,f3x3,p1:nhwc:f16:bias+clip6 > fwd:n20,c960,k320,i7x7,f1x1:nhwc:f16:bias+residual",
    "fwd:n12,c144,k144,g144,i29x28,f3x3,p1:nhwc:bias+clip6 > fwd:n12,c144,k32,i29x28,f1x1:nhwc:bias",
    "fwd:n12,c104,k104,g104,i29x28,f3x3,s2,p1:nhwc:bias+clip6 > fwd:n12,c104,k64,i15x14,f1x1:nhwc:bias",
    "fwd:n6,c24,k144,i29x28,f1x1:nhwc:f16:bias+clip6 > fwd:n6,c144,k144,g144,i29x28,f3x3,p1:nhwc:f16:bias+clip6 > "
    "fwd:n6,c144,k24,i29x28,f1x1:nhwc:f16:bias+residual=input",
    "fwd:n6,c24,k144,i29x28,f1x1:nhwc:bf16:bias+clip6 > fwd:n6,c144,k144,g144,i29x28,f3x3,s2,p1:nhwc:bf16:bias+clip6 > "
    "fwd:n6,c144,k32,i15x14,f1x1:nhwc:bf16:bias",
    "fwd:n4,c24,k72,i14x14,f1x1:nhwc:bias+clip6 > fwd:n4,c72,k72,g72,i14x14,f3x3,p1:nhwc:bias+clip6 > "
    "fwd:n4,c72,k24,i14x14,f1x1:nhwc:bias+residual=input",
};

// The layers of "fwd:... > fwd:...".
inline std::vector<polyconv::Problem> chain_of(const std::string &tokens) {
  std::vector<polyconv::Problem> chain;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 3) {
    end = tokens.find(" > ", begin);
    chain.emplace_back(tokens.substr(begin, end - begin));
  }
  return chain;
}

// Full names of all configs; of those whose names have `part` in them, where there is one.
inline std::vector<std::string> kernels_of(const std::string &backend, const char *part = nullptr) {
  std::vector<std::string> names;
  for (int32_t b = 0; b < polyconv_backend_count(); ++b)
    for (int32_t k = 0; const char *kernel = polyconv_backend_kernel(b, k); ++k)
      for (int32_t c = 0; const char *config = polyconv_backend_config(b, k, c); ++c) {
        const std::string name = std::string(kernel) + "@" + config;
        if (name.rfind(backend + "/", 0) == 0 && (part == nullptr || name.find(part) != std::string::npos))
          names.push_back(name);
      }
  return names;
}

} // namespace cuda_test
