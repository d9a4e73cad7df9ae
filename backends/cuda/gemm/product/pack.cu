// pack.cu - weights as the matrix product reads them, and what the host plans: rows of k (taps, then channels) by
// output channels, rows of whole 16 bytes, one matrix a group, in the type of the sums.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <polyconv/sdk/bytes.hpp>

#include "common/accepts.hpp"
#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "common/pieces.hpp"
#include "common/rows.hpp"
#include "common/types.hpp"
#include "product/product.hpp"

namespace polyconv::cuda::gemm {
namespace {

constexpr int kThreads = 256;

int64_t row_elements(const polyconv_layer &l) {
  const int64_t vector = 16 / sum_bytes(l.weights.type), channels = l.output.size[1] / l.groups;
  return (channels + vector - 1) / vector * vector;
}

int64_t depth_of(const polyconv_layer &l) {
  return l.weights.size[1] * sdk::taps(l);
}

template <class From, class T>
__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> weights, const From *raw, T *packed, int64_t count, int64_t row, int64_t group_out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t column = i % row;
    int64_t rest = i / row;
    const int64_t c = rest % weights.size[1];
    rest /= weights.size[1];
    const int64_t w = rest % weights.size[4];
    rest /= weights.size[4];
    const int64_t h = rest % weights.size[3];
    rest /= weights.size[3];
    const int64_t d = rest % weights.size[2], group = rest / weights.size[2];
    packed[i] =
        column < group_out ? static_cast<T>(value(raw[weights.at(group * group_out + column, c, d, h, w)])) : T(0);
  }
}

} // namespace

int64_t packed_bytes(const polyconv_layer &l) {
  return l.groups * depth_of(l) * row_elements(l) * sum_bytes(l.weights.type);
}

const char *packed_format(const polyconv_layer &l) {
  return l.weights.type == POLYCONV_F64 ? "cuda_gemm_f64:1" : "cuda_gemm_f32:1";
}

void pack_weights(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = packed_bytes(l) / sum_bytes(l.weights.type);
  if (count == 0) return;
  dispatch_float(l.weights.type, l.weights.type, [&](auto row) {
    using From = typename decltype(row)::B;
    using T = typename decltype(row)::Sum;
    pack<From, T><<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int64_t>(l.weights), static_cast<const From *>(raw), static_cast<T *>(packed), count, row_elements(l),
        l.output.size[1] / l.groups);
  });
  check_launch("cuda-gemm's packing");
}

bool has_vectors(const polyconv_tensor &t, int64_t channels) {
  return in_pieces(t, 16 / sdk::type_bytes(t.type), channels);
}

bool has_pixel_vectors(const polyconv_tensor &t) {
  const int64_t vector = 16 / sdk::type_bytes(t.type);
  int64_t run = 1; // of pixels one after the other
  int axis = 4;
  for (; axis >= 2; --axis) {
    if (t.size[axis] > 1 && t.stride[axis] != run) break;
    run *= t.size[axis];
  }
  const auto whole = [&](int axis) { return t.size[axis] == 1 || t.stride[axis] % vector == 0; };
  for (; axis >= 2; --axis)
    if (!whole(axis)) return false;
  return run % vector == 0 && whole(0) && whole(1) && t.offset % vector == 0;
}

bool reads_rows(const polyconv_layer &l) {
  if (l.input.type != POLYCONV_F32 || sdk::taps(l) != 1 || !has_pixel_vectors(l.input)) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (l.input.size[2 + axis] != l.output.size[2 + axis] || l.pad_begin[axis] != 0 || l.stride[axis] != 1)
      return false;
  return true;
}

namespace {

bool lies_alike(const polyconv_tensor &a, const polyconv_tensor &b) {
  for (int axis = 0; axis < 5; ++axis)
    if (a.size[axis] > 1 && a.stride[axis] != b.stride[axis]) return false;
  return true;
}

// Whether results leave as store_vectors (sums.cuh) has them: with a relu, clipped or not, and a residual at most.
bool leaves_in_vectors(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  const int64_t channels = l.output.size[1] / l.groups;
  const auto suits = [&](const polyconv_tensor &t) { return t.type == l.sum_type && has_vectors(t, channels); };
  return suits(l.result) && e.activation <= POLYCONV_ACT_CLIPPED_RELU && l.save == POLYCONV_SAVE_NONE &&
         (e.residual_from == POLYCONV_RESIDUAL_NONE || (suits(l.residual) && lies_alike(l.result, l.residual)));
}

// Whether results leave as leave_rows (sums.cuh) has them: with a relu, clipped or not, at most.
bool leaves_in_rows(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  return l.result.type == l.sum_type && has_pixel_vectors(l.result) && e.activation <= POLYCONV_ACT_CLIPPED_RELU &&
         l.save == POLYCONV_SAVE_NONE && e.residual_from == POLYCONV_RESIDUAL_NONE;
}

} // namespace

Product make_product(const polyconv_layer &l, const polyconv_arguments &a) {
  Product p = {make_implicit(l, a), EveryActivation(l, a)}; // kMatrix: `input` will be the workspace instead
  p.weights_row = static_cast<int32_t>(row_elements(l));
  p.rows = leaves_in_rows(l) && aligned(a.output, 16);
  p.vectors = leaves_in_vectors(l) && aligned(a.output, 16) && aligned(p.conv.epilogue.residual, 16);
  return p;
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!sdk::is_float(l.input.type) || l.input.type != l.weights.type)
    return offer.reject("takes f64, f32, f16 and bf16, the same for input and weights");
  if (!takes_no_pooling(l, offer, kPoolsNoTiles)) return false;
  return fits_implicit(l, offer);
}

// Fitted to layers of ResNet-50 at batches 1 and 32 on an H200 in every tile and split: 11 % rms beside the measured
// times. Bytes and the last round of blocks were fitted anew to every config of ResNet-50 at batch 32 and of the 1 x 1
// layers of MobileNetV2 at batches 1 and 128: the config that is chosen takes 1.4 and 0.5 % longer than the fastest on
// average, 8 % at most. Efficiencies of two tiles and what waits, once more to 4,800 times of the census: the kernel
// that is chosen takes 2.5 % longer than the fastest of all, before 2.6, and gradients of data 2.2 instead of 2.7.
double product_us(const polyconv_layer &l, const Shape &shape, Source source, int splits) {
  const double rate =
      kHopperFmaRate * (l.sum_type == POLYCONV_F64 ? 0.5 : 1) / kHopperMultiprocessors; // operations a microsecond
  const auto parts = [](int64_t count, int64_t of) { return real(ceil_div(count, of)); };
  const int64_t channels = l.weights.size[1], taps = sdk::taps(l);
  const double tiles = parts(l.output.size[0] * sdk::spatial(l.output), shape.pixels) *
                       parts(l.output.size[1] / l.groups, shape.channels) * static_cast<double>(l.groups);
  const bool plain = source == Source::kScattered || source == Source::kMatrix || source == Source::kRows;
  const double blocks =
      plain ? parts(channels * taps, shape.depth) : static_cast<double>(taps) * parts(channels, shape.depth);
  const double depth = std::ceil(blocks / splits) * shape.depth;
  const double epilogue = splits == 1 && leaves_in_rows(l) ? 20 : shape.channels == 32 ? 34 : 44; // as products
  const double flops = 2.0 * shape.pixels * shape.channels * (depth + epilogue);
  const double busiest = std::ceil(tiles * splits / kHopperMultiprocessors);
  const double full = shape.blocks * shape.threads / 32.0; // warps of a multiprocessor
  const double warps = std::min(busiest, static_cast<double>(shape.blocks)) * shape.threads / 32;
  // Few warps wait for memory and one another: those of the last round, which are not all that fit.
  const auto hidden = [&](double together) {
    const double few = together * shape.threads / 32;
    return few / (few + 3.5) * ((full + 3.5) / full);
  };
  const double rest = std::fmod(busiest, shape.blocks), turns = busiest - rest + (rest > 0 ? rest / hidden(rest) : 0);
  // Rows take fewer instructions, which narrow tiles notice most: 152 times of 30 layers.
  const double gathering = source == Source::kScattered ? (shape.pixels == 32 ? 0.47 : 0.65)
                           : source != Source::kRows    ? 1
                           : shape.channels == 32       ? 1.3
                                                        : 1.1;
  const polyconv_epilogue &e = l.epilogue;
  const bool adds = e.residual_from != POLYCONV_RESIDUAL_NONE;
  const double elements = real(sdk::elements(l.input)) + real(sdk::elements(l.output)) * (adds ? 2 : 1);
  // 1 x 1: blocks of many pixels, where fewer are than fit, wait longest for what a kernel ahead has just written, the
  // widest half as long again as alone; 64 x 64 in one piece is faster than in parts, whose rate its efficiency is, but
  // where most multiprocessors have one block.
  const bool one = taps == 1 && splits == 1;
  const double waiting = one && shape.pixels == 128
                             ? 1 + 0.7 * std::min(1.0, shape.channels / 256.0) * (1 - warps / full)
                         : one && shape.pixels == 64 && busiest > 1 ? 0.87
                         : taps > 1                                 ? shape.windows
                                                                    : 1;
  const double multiplying = turns * flops / (rate * shape.efficiency * gathering) * waiting;
  // Few warps ask for few bytes at a time; half of either is hidden by the other.
  const double moving = elements * real(sum_bytes(l.sum_type)) / (4.2e6 * warps / (warps + 4));
  // What is more than a bias, a residual that lies as the result does and a relu is finished one by one.
  const bool simple =
      !adds && l.save == POLYCONV_SAVE_NONE && e.activation <= POLYCONV_ACT_CLIPPED_RELU && l.result.type == l.sum_type;
  const double finishing = simple || leaves_in_vectors(l) ? 0 : real(sdk::elements(l.output)) / 250e3;
  return 4.2 + std::max(multiplying, moving) + 0.45 * std::min(multiplying, moving) + finishing;
}

Launcher find_product(int32_t type, int tile, Source source, int device) {
  const auto of = [&](int t) {
    if (type == POLYCONV_F64) return product_of<f64>(t, source);
    return of_type(type, [&](auto from) { return product_of<decltype(from)>(t, source); });
  };
  const Launcher found = of(tile);
  return found.shared_bytes <= block_shared_bytes(device) ? found : of(k64x64x16);
}

} // namespace polyconv::cuda::gemm
