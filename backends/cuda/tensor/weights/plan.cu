// plan.cu - what surrounds the gradient of weights on Hopper: its geometry, and the sum over pieces.
// SPDX-License-Identifier: Apache-2.0
#include "pixel_matrix.hpp"
#include "weights/weights.hpp"

namespace polyconv::cuda::wgmma {

namespace {

constexpr int64_t kLeastBlocks = 4; // of a block of threads: below, a piece takes longer than the products

// Clusters of so many blocks that an H100 or H200 runs at once, and how few of them may do. Its multiprocessors come in
// pairs and in groups, which a cluster cannot leave: of clusters of four an H200 ran 30 at once, of eight 15; another
// chip's groups may be others.
struct Workers {
  int64_t most, least;
};
Workers workers_of(int32_t sharing) {
  if (sharing == 1) return {kWorkers, 126};
  return sharing == 2 ? Workers{kWorkers / 2, 60} : Workers{112 / sharing, 104 / sharing};
}

// Whether pixels are equally far apart.
bool has_boxes(const polyconv_tensor &t) {
  return pixels_lie_apart(t, row_of(t));
}

bool reads_plainly(const polyconv_layer &l) {
  if (sdk::taps(l) != 1) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (l.stride[axis] != 1 || l.pad_begin[axis] != 0 || l.input.size[2 + axis] != l.output.size[2 + axis])
      return false;
  return has_boxes(l.input);
}

// Tiles in as many groups as can be, all cut alike: their workers fetch the same pixels at the same time, so that these
// come from memory once. A few workers may stay without; and more where there is little depth, for every piece costs.
// `cluster`: blocks of a worker, of which `sharing` share its depth.
Shares share_out(int64_t tiles, int64_t blocks, int32_t cluster, int32_t sharing) {
  const Workers workers = workers_of(cluster);
  for (auto groups = std::min(tiles, workers.most); groups > 0; --groups)
    if (const int64_t each = workers.most / groups;
        tiles % groups == 0 && (groups * each >= workers.least || groups == 1))
      return make_shares(tiles, blocks,
                         groups * std::min(each, ceil_div(tiles / groups * blocks, kLeastBlocks * sharing)), groups);
  return {}; // without tiles
}

// Quads that a lane adds at once, where there are more than threads; lanes that share one, where there are fewer. With
// more than three a thread, and with several taps, a launch of its own adds them as fast or faster: it has more
// threads. (H200: 619 ways of 1x1 layers below that took 0.86 to 0.94 of their time, those above 1.1.)
constexpr int64_t kMostQuads = 3;
void set_adding(WeightsProduct &p, const WeightsShape &shape) {
  const Shares &s = p.shares;
  const int64_t quads = int64_t{s.tiles} * (p.pairs == kNoPairs ? 1 : 2) * shape.rows * shape.chunks * 16;
  const int64_t threads = int64_t{s.workers} * cluster_of(p) * 128 * shape.row_groups * shape.chunk_groups;
  if (shape.in_rows || p.group_rows != 0 || p.chunks != p.tap_chunks || quads > kMostQuads * threads) return;
  for (p.each = 1; quads > threads * p.each;) p.each *= 2;
  while (p.ways < 4 && 2 * p.ways * quads <= threads && s.workers_of_group > 8 * p.ways * s.group) p.ways *= 2;
}

// The forward layer that reads the input with the same windows: what it takes, the maps can hold.
polyconv_layer forward_of(const polyconv_layer &l) {
  polyconv_layer f = l;
  f.direction = POLYCONV_FORWARD;
  f.result = l.output;
  f.epilogue = {};
  return f;
}

// A layer that reads the output's gradient as it is: windows of one pixel.
polyconv_layer reading_of(const polyconv_layer &l) {
  polyconv_layer r = forward_of(l);
  r.input = l.output;
  r.weights.size[1] = l.output.size[1];
  for (int axis = 0; axis < 3; ++axis) {
    r.weights.size[2 + axis] = r.stride[axis] = r.dilation[axis] = 1;
    r.pad_begin[axis] = r.pad_end[axis] = 0;
  }
  return r;
}

bool takes_forward(const polyconv_request &request, const polyconv_layer &layer, sdk::Offer &offer) {
  const polyconv_layer *const pointer = &layer;
  polyconv_request forward = request;
  forward.layers = &pointer;
  return takes(forward, offer);
}

} // namespace

bool maps_hold_weights(const polyconv_request &request, const polyconv_layer &l, sdk::Offer &offer) {
  return takes_forward(request, forward_of(l), offer) && takes_forward(request, reading_of(l), offer);
}

bool suits_groups(const polyconv_layer &l, const WeightsShape &shape) {
  const int64_t filters = l.weights.size[0] / l.groups;
  return l.groups == 1 || filters % shape.rows == 0 || shape.rows % filters == 0;
}

WeightsProduct make_weights_product(const polyconv_layer &l, const WeightsShape &shape, int32_t sharing,
                                    WeightsPairs pairs) {
  const auto parts = [](int32_t count, int32_t of) { return (count + of - 1) / of; };
  WeightsProduct p = {{}, {}, View<int64_t>(l.weights)};
  p.result_type = l.result.type;
  p.rows = small(l.weights.size[0]);
  const int64_t filters = l.weights.size[0] / l.groups, channels = l.weights.size[1];
  if (l.groups > 1) {
    p.group_rows = small(filters), p.group_channels = small(channels);
    p.by_group_rows = Divider::make(p.group_rows);
  }
  p.tap_chunks = parts(small(l.groups == 1 ? channels : channels * std::max<int64_t>(1, shape.rows / filters)), 64);
  p.chunks = p.tap_chunks * small(sdk::taps(l));
  p.row_tiles = parts(p.rows, shape.rows), p.by_row_tiles = Divider::make(p.row_tiles);
  const int64_t tiles = int64_t{p.row_tiles} * parts(p.chunks, shape.chunks);
  p.sharing = sharing, p.pairs = pairs;
  const int32_t images = small(l.output.size[0]), pixels = small(sdk::spatial(l.output));
  if (shape.in_rows) p.image_blocks = parts(pixels, shape.depth);
  p.shares =
      share_out(pairs == kNoPairs ? tiles : tiles / 2,
                shape.in_rows ? int64_t{images} * p.image_blocks : parts(small(int64_t{images} * pixels), shape.depth),
                cluster_of(p), sharing);
  if (shape.in_rows)
    p.boxes = kBoxes | kBoxOfGradients | kBoxOfActivations;
  else if (l.groups == 1 && has_boxes(l.output) && reads_plainly(l)) // of one factor alone they are slower
    p.boxes = kBoxes | (shape.rows > 64 && l.output.size[1] % 64 == 0 ? kBoxOfGradients : 0) |
              (shape.chunks > 1 && l.input.size[1] % 64 == 0 ? kBoxOfActivations : 0);
  if (pairs != kNoPairs) p.boxes &= ~(pairs == kPairsOfRows ? kBoxOfActivations : kBoxOfGradients);
  for (int axis = 0; axis < 3; ++axis) {
    p.taps[axis] = small(l.weights.size[2 + axis]);
    p.out[axis] = small(l.output.size[2 + axis]);
    p.stride[axis] = small(l.stride[axis]);
    p.dilation[axis] = small(l.dilation[axis]);
    p.pad[axis] = small(l.pad_begin[axis]);
  }
  p.flat = is_flat(l) ? 1 : 0;
  set_adding(p, shape);
  return p;
}

bool adds_together(const WeightsProduct &p) {
  return p.each > 0 && !leaves_whole(p) && p.weights.stride[1] == 1;
}

bool suits_pairs(const WeightsProduct &p, const WeightsShape &shape, WeightsPairs pairs) {
  const int32_t tiles = pairs == kPairsOfRows ? p.row_tiles : (p.chunks + shape.chunks - 1) / shape.chunks;
  return (shape.ways & kInPairs) != 0 && p.boxes != kNoBoxes && tiles % 2 == 0;
}

Shares share_out_whole(const Shares &s, int32_t cluster) {
  if (s.tiles == 0) return s;
  return make_shares(s.tiles, s.blocks, workers_of(cluster).most, 1, s.blocks);
}

bool leaves_whole(const WeightsProduct &p) {
  return p.whole && p.shares.all_whole();
}

int64_t pieces_bytes(const WeightsProduct &p, const WeightsShape &shape) {
  if (leaves_whole(p)) return 0;
  return int64_t{p.shares.workers} * p.shares.most * (p.pairs != kNoPairs ? 2 : 1) * shape.rows * shape.chunks * 64 *
         (p.narrow ? 2 : 4);
}

double block_clocks(const WeightsShape &shape, int parts, int products) {
  const double columns = shape.chunks * 64.0;
  return std::max(shape.rows * columns * shape.depth * products / 2048,
                  (shape.rows + columns) * shape.depth * 2 * parts / 32);
}

int32_t blocks_of_longest(const WeightsProduct &p) {
  return (p.shares.longest() + p.sharing - 1) / p.sharing;
}

double pieces_of(const WeightsProduct &p) {
  if (leaves_whole(p)) return 0;
  const Shares &s = p.shares;
  double split = s.tiles; // tiles that are not one worker's
  if (p.whole) split = std::min<double>(s.tiles, 1.0 * s.tiles / s.group * (s.workers_of_group - 1));
  return std::min(split + s.workers, 1.0 * s.most * s.workers) * (p.pairs != kNoPairs ? 2 : 1);
}

namespace {

// How many channels the stores of a product take as one.
int32_t vector_of(const WeightsProduct &p) {
  const View<int64_t> &w = p.weights;
  const int64_t size = sdk::type_bytes(p.result_type);
  const auto serves = [&](int64_t vector) {
    bool whole = w.stride[1] == 1 && w.size[1] % vector == 0 &&
                 aligned(static_cast<const char *>(p.result) + w.offset * size, std::min<int64_t>(16, vector * size));
    for (const int axis : {0, 2, 3, 4}) whole = whole && (w.size[axis] == 1 || w.stride[axis] % vector == 0);
    return whole;
  };
  return serves(8) ? 8 : serves(4) ? 4 : 1;
}

// Whether a row's weights lie side by side, a channel's taps first, so that 16 bytes never belong to two rows.
bool has_dense_rows(const WeightsProduct &p) {
  const View<int64_t> &w = p.weights;
  int64_t taps = 1;
  for (const int axis : {4, 3, 2}) {
    if (w.size[axis] > 1 && w.stride[axis] != taps) return false;
    taps *= w.size[axis];
  }
  const int64_t size = sdk::type_bytes(p.result_type), vector = 16 / size;
  return w.stride[1] == taps && taps * w.size[1] % vector == 0 && (w.size[0] == 1 || w.stride[0] % vector == 0) &&
         aligned(static_cast<const char *>(p.result) + w.offset * size, 16);
}

} // namespace

void set_result(WeightsProduct &p, void *result) {
  p.result = result;
  p.vector = vector_of(p);
  p.dense_rows = has_dense_rows(p) ? 1 : 0;
}

} // namespace polyconv::cuda::wgmma
