// convert.cu - copies a tensor into other strides: the step between kernels of different layouts.
//
// Floor: one read and one write. Where both sides run along one axis, neighbouring threads copy neighbours; where they
// do not (channels first to last and back), tiles go through shared memory, so that both sides use whole sectors:
// square ones, or where channels are few, long ones of as many elements.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/host.hpp"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTileBits = 12;                             // 4096 elements
constexpr int kFewestBits = 2, kMostBits = kTileBits - 2; // of the elements that lie in one line of what a tile reads

// Bits go across unchanged, so that NaN payloads stay what they are.
template <class Bits>
__global__ void __launch_bounds__(kThreads) copy(const View<int64_t> from, const View<int64_t> to, const Bits *source,
                                                 Bits *target, int64_t count, bool channels_inner) {
  ptx::await_previous();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const Place<int64_t> p = channels_inner ? to.along_c(i) : to.along_w(i);
    target[to.at(p)] = source[from.at(p)];
  }
}

// The transposition of C with the pixels of an image (D H W as one axis, dense on both sides). Blocks: tiles of pixels,
// tiles of channels, images.
struct Matrix {
  int64_t images, channels, pixels;
  int64_t read_image, read_channel, read_pixel, read_offset;
  int64_t write_image, write_channel, write_pixel, write_offset;
  bool reads_along_pixels; // else along channels, and writes along the other
};

// Tiles of lines that are 2^kAcross elements long. All of a thread's reads are under way before the first is written:
// that, more than anything, is what memory wants.
template <class Bits, int kAcross>
__global__ void __launch_bounds__(kThreads)
    transpose(const Matrix m, const Bits *source, Bits *target, uint32_t pixel_tiles, uint32_t channel_tiles) {
  ptx::await_previous();
  constexpr int kDown = kTileBits - kAcross, kEach = (1 << kTileBits) / kThreads;
  constexpr int kLine = 1 << kAcross, kLines = 1 << kDown;
  constexpr int kApart = kLine + (kLines < 32 ? 32 / kLines : 1); // so that columns lie in different banks
  __shared__ Bits tile[kLines][kApart];
  const int x = threadIdx.x % kLine, y = threadIdx.x / kLine;          // where it reads, and
  const int column = threadIdx.x % kLines, row = threadIdx.x / kLines; // where it writes the first of its elements
  const int pixel_bits = m.reads_along_pixels ? kAcross : kDown;
  const int channel_bits = kTileBits - pixel_bits;
  const uint32_t rest = blockIdx.x / pixel_tiles, image = rest / channel_tiles;
  const int64_t pixel = int64_t{blockIdx.x - rest * pixel_tiles} << pixel_bits,
                channel = int64_t{rest - image * channel_tiles} << channel_bits;
  const auto channels = static_cast<int32_t>(min(m.channels - channel, int64_t{1} << channel_bits));
  const auto pixels = static_cast<int32_t>(min(m.pixels - pixel, int64_t{1} << pixel_bits));
  const int32_t across = m.reads_along_pixels ? pixels : channels, down = m.reads_along_pixels ? channels : pixels;
  const Bits *read = source + m.read_offset + image * m.read_image + channel * m.read_channel + pixel * m.read_pixel;
  Bits *write = target + m.write_offset + image * m.write_image + channel * m.write_channel + pixel * m.write_pixel;
  const int64_t read_across = m.reads_along_pixels ? m.read_pixel : m.read_channel;
  const int64_t read_down = m.reads_along_pixels ? m.read_channel : m.read_pixel;
  const int64_t write_across = m.reads_along_pixels ? m.write_channel : m.write_pixel;
  const int64_t write_down = m.reads_along_pixels ? m.write_pixel : m.write_channel;
  read += x * read_across + y * read_down;
  write += column * write_across + row * write_down;
  Bits moved[kEach] = {};
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int right = j * kThreads % kLine, below = j * kThreads / kLine;
    if (x + right < across && y + below < down) moved[j] = read[right * read_across + below * read_down];
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) tile[y + j * kThreads / kLine][x + j * kThreads % kLine] = moved[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int right = j * kThreads % kLines, below = j * kThreads / kLines;
    if (column + right < down && row + below < across)
      write[right * write_across + below * write_down] = tile[column + right][row + below];
  }
}

// ---------------------------------------------------------------- plan and run

// Whether D, H and W of a tensor are one axis with one stride.
bool pixels_are_one_axis(const polyconv_tensor &t) {
  bool first = true;
  int64_t stride = 0;
  for (int axis = 4; axis >= 2; --axis) {
    if (t.size[axis] == 1) continue;
    if (!first && t.stride[axis] != stride) return false;
    first = false;
    stride = t.stride[axis] * t.size[axis];
  }
  return true;
}

int64_t pixel_stride(const polyconv_tensor &t) {
  for (int axis = 4; axis >= 2; --axis)
    if (t.size[axis] != 1) return t.stride[axis];
  return 1;
}

// Whether the two tensors are best moved by `transpose`: channels are neighbours on one side, pixels on the other.
bool transposes(const polyconv_tensor &from, const polyconv_tensor &to) {
  if (from.size[1] < 2 || sdk::spatial(from) < 4) return false; // nothing to transpose, or little
  if (!pixels_are_one_axis(from) || !pixels_are_one_axis(to)) return false;
  const bool read_c = from.stride[1] == 1, write_c = to.stride[1] == 1;
  return read_c != write_c && (read_c ? pixel_stride(to) : pixel_stride(from)) == 1;
}

// How a tensor is cut into tiles.
struct Tiling {
  int channel_bits; // of a tile
  int64_t channel_tiles, pixel_tiles;
  int64_t count() const { return channel_tiles * pixel_tiles; } // of an image
};

// The one of fewest tiles, the squarest of several.
Tiling tiling_of(const Matrix &m) {
  Tiling best = {};
  for (const int bits : {6, 5, 4, 3, 2}) {
    const Tiling tiling = {bits, ceil_div(m.channels, int64_t{1} << bits),
                           ceil_div(m.pixels, int64_t{1} << (kTileBits - bits))};
    if (best.channel_bits == 0 || tiling.count() < best.count()) best = tiling;
  }
  return best;
}

Matrix matrix(const polyconv_tensor &from, const polyconv_tensor &to) {
  return {from.size[0], from.size[1], sdk::spatial(from), from.stride[0],   from.stride[1], pixel_stride(from),
          from.offset,  to.stride[0], to.stride[1],       pixel_stride(to), to.offset,      from.stride[1] != 1};
}

class Convert final : public CudaInstance {
 public:
  using CudaInstance::CudaInstance;

 private:
  template <class Bits, int kAcross>
  static void launch_tiles(int across, const Matrix &m, const Tiling &tiling, const Bits *source, Bits *target,
                           cudaStream_t stream) {
    if constexpr (kAcross > kFewestBits) {
      if (across != kAcross) return launch_tiles<Bits, kAcross - 1>(across, m, tiling, source, target, stream);
    }
    const int64_t tiles = m.images * tiling.count();
    launch_waiting(transpose<Bits, kAcross>, blocks_for(tiles, 1), kThreads, 0, stream, m, source, target,
                   static_cast<uint32_t>(tiling.pixel_tiles), static_cast<uint32_t>(tiling.channel_tiles));
  }

  template <class Bits>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    const polyconv_tensor &from = layer_.input, &to = layer_.result;
    const auto *source = static_cast<const Bits *>(a.input);
    auto *target = static_cast<Bits *>(a.output);
    const int64_t count = sdk::elements(from);
    if (count == 0) return;
    const Matrix m = matrix(from, to);
    const Tiling tiling = tiling_of(m);
    if (transposes(from, to) && m.images * tiling.count() <= INT32_MAX) { // tiles have numbers of 32 bits
      const int across = m.reads_along_pixels ? kTileBits - tiling.channel_bits : tiling.channel_bits;
      launch_tiles<Bits, kMostBits>(across, m, tiling, source, target, stream);
    } else {
      const bool channels_inner = to.stride[1] == 1 && to.stride[4] != 1;
      launch_waiting(copy<Bits>, blocks_for(count, kThreads), kThreads, 0, stream, View<int64_t>(from),
                     View<int64_t>(to), source, target, count, channels_inner);
    }
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    switch (bytes_of(layer_.input.type)) {
      case 1: return launch_as<uint8_t>(a, stream);
      case 2: return launch_as<uint16_t>(a, stream);
      case 4: return launch_as<uint32_t>(a, stream);
      default: return launch_as<uint64_t>(a, stream);
    }
  }

  static int bytes_of(int32_t type) {
    switch (type) {
      case POLYCONV_S8:
      case POLYCONV_U8: return 1;
      case POLYCONV_F16:
      case POLYCONV_BF16:
      case POLYCONV_U16: return 2;
      case POLYCONV_F32:
      case POLYCONV_S32: return 4;
      default: return 8;
    }
  }
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVERT) return offer.reject("only copies a tensor into other strides");
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != l.result.type) return offer.reject("keeps the type of a tensor");
  // Ten layers of f16 on an H200, a conversion on either side; it begins while what is ahead of it ends.
  offer.estimate_us = 1.8 + static_cast<double>(sdk::elements(l.input) * 2 * sdk::type_bytes(l.input.type)) / 3e6;
  return true;
}

const char *const configs[] = {"tile4096"};

} // namespace

POLYCONV_DEFINE_KERNEL(convert, configs, supports, instance_of<Convert>, 0, POLYCONV_TRAIT_OVERLAP);

} // namespace polyconv::cuda
