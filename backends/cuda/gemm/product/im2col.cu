// im2col.cu - forward, every float type: the textbook's two kernels. One unfolds the input into a matrix of k x pixels
// in the workspace, padding included, the other multiplies it with the weights: product.cuh, which then only copies
// rows. Pixels are taken in chunks, as many as the cap of the workspace holds.
//
// Floor: that of implicit, and besides the matrix, R S times the input, is written and read: 8 C R S bytes a pixel.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "common/ptx/grid.cuh"
#include "common/rows.hpp"
#include "product/product.hpp"

namespace polyconv::cuda {
namespace {

using namespace gemm;

constexpr int kThreads = 256, kUnfoldingBlocks = 2048;
constexpr int64_t kLeastPixels = 64;      // of a chunk
constexpr int64_t kMostBytes = 512 << 20; // more do not make it faster
constexpr int kTiles[] = {k128x64x16, k64x64x16};
constexpr const char *kNames[] = {"128x64x16", "64x64x16"};

// A row of the matrix: group, tap, channel. The next is found without divisions, of which ten for each element took
// two thirds of the time.
struct MatrixRow {
  int64_t group, d, h, w, c;

  __device__ MatrixRow(const Conv<int64_t> &p, int64_t row) {
    const View<int64_t> &weights = p.weights;
    c = row % weights.size[1], row /= weights.size[1];
    w = row % weights.size[4], row /= weights.size[4];
    h = row % weights.size[3], row /= weights.size[3];
    d = row % weights.size[2], group = row / weights.size[2];
  }
  __device__ void next(const Conv<int64_t> &p) {
    if (++c < p.weights.size[1]) return;
    c = 0;
    if (++w < p.weights.size[4]) return;
    w = 0;
    if (++h < p.weights.size[3]) return;
    h = 0;
    if (++d < p.weights.size[2]) return;
    d = 0, ++group;
  }
};

// A thread has a column, which is a pixel of the chunk, and the rows that blockIdx.y shares out; columns beyond the
// last pixel are zeros.
template <class From, class T>
__global__ void __launch_bounds__(kThreads) unfold(const Conv<int64_t> p, const From *input, T *matrix, int64_t first,
                                                   int64_t pixels, int64_t columns, int64_t rows) {
  ptx::await_previous();
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, pixel = first + column;
  if (column >= columns) return;
  const bool there = pixel < pixels;
  const Place<int64_t> o = p.output.pixel_of(there ? pixel : 0);
  const int64_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
  T *to = matrix + begin * columns + column;
  MatrixRow at(p, begin);
  for (int64_t row = begin; row < end; ++row, to += columns, at.next(p)) {
    T v = 0;
    if (there) {
      const int64_t d = p.source(0, o.d, at.d), h = p.source(1, o.h, at.h), w = p.source(2, o.w, at.w);
      const bool inside = d >= 0 && h >= 0 && w >= 0;
      v = inside ? static_cast<T>(value(input[p.input.at(o.n, at.group * p.weights.size[1] + at.c, d, h, w)]))
                 : p.template padding<T>();
    }
    *to = v;
  }
}

// Blocks across the columns, and so many shares of the rows that every multiprocessor has work.
dim3 unfolding_grid(int64_t columns, int64_t rows) {
  const int64_t across = (columns + kThreads - 1) / kThreads;
  const int64_t shares = std::clamp<int64_t>(std::min(kUnfoldingBlocks / across, rows), 1, 65535);
  return {static_cast<unsigned>(across), static_cast<unsigned>(shares)};
}

// ---------------------------------------------------------------- workspace

// Bytes of a pixel's column, and the pixels of a chunk: whole tiles where there is more than one chunk.
int64_t column_bytes(const polyconv_layer &l) {
  return l.groups * l.weights.size[1] * sdk::taps(l) * sum_bytes(l.sum_type);
}

int64_t pixels_of(const polyconv_layer &l) {
  return l.output.size[0] * sdk::spatial(l.output);
}

int64_t chunk_of(const polyconv_layer &l, int64_t limit) {
  const int64_t vector = 16 / sum_bytes(l.sum_type), all = (pixels_of(l) + vector - 1) / vector * vector;
  const int64_t hold = std::min(limit, std::max(kMostBytes, kLeastPixels * column_bytes(l))) / column_bytes(l);
  return hold >= all ? all : hold / kLeastPixels * kLeastPixels;
}

// ---------------------------------------------------------------- plan and run

class Im2col final : public CudaInstance {
 public:
  Im2col(const polyconv_request &request, int tile)
      : CudaInstance(request),
        chunk_(chunk_of(layer_, request.policy->workspace_limit)),
        product_(find_product(layer_.sum_type, tile, Source::kMatrix, device_)) {
    const DeviceScope scope(device_);
    product_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    pack_weights(layer_, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Product product = make_product(layer_, a);
    product.input = a.workspace;
    product.matrix_row = chunk_;
    const int64_t pixels = pixels_of(layer_), rows = product.groups * int64_t(product.depth);
    for (int64_t first = 0; first < pixels; first += chunk_) {
      dispatch_float(layer_.input.type, layer_.weights.type, [&](auto row) {
        using From = typename decltype(row)::A;
        using T = typename decltype(row)::Sum;
        launch_waiting(unfold<From, T>, unfolding_grid(chunk_, rows), kThreads, 0, stream, product.conv,
                       static_cast<const From *>(a.input), static_cast<T *>(a.workspace), first, pixels, chunk_, rows);
      });
      product.first_pixel = first;
      product.pixels = std::min(pixels, first + chunk_);
      product_.launch(product, stream);
    }
  }

  const int64_t chunk_;
  const Launcher product_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int64_t chunk = pixels_of(l) == 0 ? 0 : chunk_of(l, request.policy->workspace_limit);
  if (chunk <= 0 && pixels_of(l) > 0)
    return offer.reject("unfolds at least %lld pixels at a time: needs a workspace of %lld bytes",
                        static_cast<long long>(kLeastPixels), static_cast<long long>(kLeastPixels * column_bytes(l)));
  const auto us = [&](int c) { return product_us(l, kShapes[kTiles[c]], Source::kMatrix); };
  if (config < 0) config = us(0) <= us(1) ? 0 : 1;
  offer.config = config;
  offer.workspace_bytes = chunk * column_bytes(l);
  offer.set_weights(0, packed_format(l), packed_bytes(l));
  // The matrix is written and read, far apart where channels are neighbours; small chunks wait for launches.
  const double elements = static_cast<double>(pixels_of(l)) * static_cast<double>(column_bytes(l));
  offer.estimate_us = us(config) + elements / (l.input.stride[1] == 1 ? 0.3e6 : 1.2e6) +
                      (chunk > 0 ? 6 * static_cast<double>(pixels_of(l)) / static_cast<double>(chunk) : 0);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(im2col, kNames, supports, instance_of<Im2col, kTiles>, 0, sdk::kActivationTraits);

} // namespace polyconv::cuda
