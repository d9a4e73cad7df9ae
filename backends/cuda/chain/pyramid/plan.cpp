// plan.cpp - from the layers of a chain to tiles, their places in shared memory, and what all that costs.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/pooling.hpp>

#include <cinttypes>

#include "plan.hpp"
#include "pyramid/pyramid.hpp"

namespace polyconv::cuda::chain {
namespace {

// Rows or columns of a tensor that tile t needs: [begin + t * step, begin + t * step + extent).
struct Span {
  int64_t begin = 0, step = 0, extent = 0; // extent 0: nobody has asked yet
};

// What both need; false where the two drift apart from tile to tile.
bool merge(Span &have, const Span &more) {
  if (have.extent == 0) have = more;
  if (have.step != more.step) return false;
  const int64_t end = std::max(have.begin + have.extent, more.begin + more.extent);
  have.begin = std::min(have.begin, more.begin);
  have.extent = end - have.begin;
  return true;
}

// The map that a layer adds, or -1: 0 is the chain's input, i + 1 what layer i gives.
int residual_map(const polyconv_layer &l) {
  const int32_t from = l.epilogue.residual_from;
  if (from == POLYCONV_RESIDUAL_INPUT) return 0;
  return from >= POLYCONV_RESIDUAL_LAYER ? from - POLYCONV_RESIDUAL_LAYER + 1 : -1;
}

// The tiles of one axis, backwards from the last result.
struct Spans {
  Span map[POLYCONV_MAX_CHAIN + 1], output[POLYCONV_MAX_CHAIN];
};
bool make_spans(const polyconv_request &request, int axis, int64_t tile, Spans &s) {
  s.map[request.count] = {0, tile, tile};
  for (int i = request.count - 1; i >= 0; --i) {
    const polyconv_layer &l = *request.layers[i];
    const sdk::PoolWindow pool = sdk::pool_window(l, axis);
    const Span &result = s.map[i + 1];
    Span &output = s.output[i];
    output = {result.begin * pool.stride - pool.pad, result.step * pool.stride,
              (result.extent - 1) * pool.stride + pool.size};
    const int64_t stride = l.stride[axis], reach = (l.weights.size[2 + axis] - 1) * l.dilation[axis];
    if (!merge(s.map[i], {output.begin * stride - l.pad_begin[axis], output.step * stride,
                          (output.extent - 1) * stride + reach + 1}))
      return false;
    const int from = residual_map(l);
    if (from >= 0 && !merge(s.map[from], output)) return false;
  }
  return true;
}

// Places in an image's shared memory: each piece at the lowest place that is free as long as it is needed.
class Arena {
 public:
  int64_t place(int64_t floats, int first, int last) {
    int64_t at = 0;
    for (int i = 0; i < count_;) {
      const Piece &other = pieces_[i];
      const bool clash = first <= other.last && other.first <= last && at < other.end && other.begin < at + floats;
      at = clash ? other.end : at;
      i = clash ? 0 : i + 1;
    }
    pieces_[count_++] = {at, at + floats, first, last};
    end_ = std::max(end_, at + floats);
    return at;
  }
  int64_t end() const { return end_; }

 private:
  struct Piece {
    int64_t begin, end;
    int first, last; // when it is needed
  };
  Piece pieces_[2 * POLYCONV_MAX_CHAIN + 1];
  int count_ = 0;
  int64_t end_ = 0;
};

// A thread reads behind its last column, and uses nothing of it.
int64_t overshoot(const polyconv_layer &l) {
  return l.stride[2] * kUnrolledColumns + 8;
}

// Fills all but the offset; the floats it takes. With `reader`, the layer that reads it by columns a few apart, rows
// begin in different banks, at pairs where that reads pairs.
int64_t shape_map(const polyconv_tensor &t, const Span (&rows_columns)[2], const polyconv_layer *reader, Map &m) {
  for (int axis = 0; axis < 2; ++axis) {
    const Span &span = rows_columns[axis];
    m.begin[axis] = small(span.begin), m.step[axis] = small(span.step);
    m.extent[axis] = small(span.extent), m.size[axis] = small(t.size[3 + axis]);
  }
  m.channels = small(t.size[1]);
  m.type = t.type;
  int64_t pitch = rows_columns[1].extent;
  if (reader != nullptr) pitch = reader->stride[2] == 2 ? (pitch + 1) / 4 * 4 + 2 : pitch / 2 * 2 + 1;
  m.pitch = small(pitch), m.plane = small(rows_columns[0].extent * pitch);
  const int64_t floats = t.size[1] * m.plane + (reader != nullptr ? overshoot(*reader) : 0);
  return ceil_div(floats, 4) * 4;
}

// When layer i sums, and when it makes its second pass.
int time_of(int layer) {
  return 2 * layer;
}
int second_time(int layer) {
  return 2 * layer + 1;
}

// When map i is read for the last time.
int last_read(const polyconv_request &request, int map) {
  int last = time_of(map);
  for (int i = map; i < request.count; ++i)
    if (residual_map(*request.layers[i]) == map) last = second_time(i);
  return last;
}

// Whether shared memory holds the sums before they are finished: more than bias and relu, or the last layer, so that
// its result goes out in rows.
bool two_passes(const polyconv_request &request, int i) {
  const polyconv_layer &l = *request.layers[i];
  return i + 1 == request.count || sdk::has_pooling(l) || !bias_and_relu_at_most(l) || l.result.type != POLYCONV_F32;
}

void place_maps(const polyconv_request &request, const Spans (&spans)[2], Pyramid &p) {
  Arena arena;
  for (int i = 0; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    const int made = i == 0 ? 0 : two_passes(request, i - 1) ? second_time(i - 1) : time_of(i - 1);
    const int64_t floats = shape_map(l.input, {spans[0].map[i], spans[1].map[i]}, &l, p.map[i]);
    p.map[i].offset = small(arena.place(floats, made, last_read(request, i)));
    p.map[i].padding = padding_of(l);
    p.map[i].pad_mode = l.pad_mode;
    const int64_t sums = shape_map(l.output, {spans[0].output[i], spans[1].output[i]}, nullptr, p.stage[i].output);
    if (two_passes(request, i)) p.stage[i].output.offset = small(arena.place(sums, time_of(i), second_time(i)));
  }
  p.image_floats = small(arena.end());
}

void make_stage(const polyconv_layer &l, int channels, Stage &s) {
  const polyconv_epilogue &e = l.epilogue;
  const Shape shape = shape_of(l, channels);
  s.shape = shape.id();
  s.group_in = small(l.weights.size[1]), s.group_out = small(l.weights.size[0] / l.groups);
  s.channel_blocks = small(ceil_div(s.group_out, shape.channels));
  s.all_blocks = small(l.groups) * s.channel_blocks;
  for (int axis = 0; axis < 2; ++axis) {
    const sdk::PoolWindow pool = sdk::pool_window(l, 1 + axis);
    s.taps[axis] = small(l.weights.size[3 + axis]), s.stride[axis] = small(l.stride[1 + axis]);
    s.dilation[axis] = small(l.dilation[1 + axis]), s.pad[axis] = small(l.pad_begin[1 + axis]);
    s.pool_window[axis] = small(pool.size), s.pool_stride[axis] = small(pool.stride);
    s.pool_pad[axis] = small(pool.pad);
  }
  s.pool_kind = e.pool.kind, s.count_include_pad = e.pool.count_include_pad;
  s.residual_map = residual_map(l), s.residual_type = l.residual.type;
  s.residual_offset = small(l.residual.offset);
  const int axes[4] = {0, 1, 3, 4};
  for (int i = 0; i < 4; ++i) s.residual_stride[i] = small(l.residual.stride[axes[i]]);
  s.activation = e.activation, s.out_zero_point = e.out_zero_point;
  s.alpha = e.activation_alpha, s.residual_scale = e.residual_scale, s.out_scale = e.out_scale;
}

void make_ends(const polyconv_request &request, Pyramid &p) {
  const polyconv_tensor &input = request.layers[0]->input, &result = request.layers[request.count - 1]->result;
  const int axes[4] = {0, 1, 3, 4};
  for (int i = 0; i < 4; ++i) {
    p.input_stride[i] = small(input.stride[axes[i]]), p.result_stride[i] = small(result.stride[axes[i]]);
  }
  p.input_offset = small(input.offset), p.result_offset = small(result.offset);
  p.result_type = result.type;
  p.batch = small(input.size[0]);
}

// Warp instructions of a thread's sums, with what stands around them.
double sums_slots(const polyconv_layer &l, const Shape &shape) {
  const double channels = shape.channels, columns = shape.columns(), row = shape.row() / 4.0;
  const double in = real(l.weights.size[1]), taps = real(sdk::taps(l)), tall = real(l.weights.size[3]);
  const double leave = 90 + channels * (4 + 4 * columns);
  if (shape.size == 0) return leave + in * taps * (channels * columns + columns + std::max(row, 1.0) + 6);
  const double wide = (columns - 1) * shape.stride + shape.size, reads = shape.stride == 2 ? wide / 2 : wide;
  return leave + in * (taps * (channels * columns + std::max(row, 1.0)) + tall * (reads + 2) + 4);
}

double warps_of(int64_t threads) {
  return real(ceil_div(threads, 32));
}

// A layer's warp instructions for a tile, all in all and those of the busiest warp.
void add_cost(const polyconv_request &request, int i, int channels, const Pyramid &p, PyramidCost &cost) {
  const polyconv_layer &l = *request.layers[i];
  const Stage &s = p.stage[i];
  const Shape shape = shape_of(l, channels);
  const int64_t rows = std::min<int64_t>(s.output.extent[0], l.output.size[3]);
  const int64_t columns = std::min<int64_t>(s.output.extent[1], l.output.size[4]);
  const int64_t threads = int64_t{p.images} * s.all_blocks * rows * ceil_div(columns, shape.columns());
  const double each = sums_slots(l, shape) * (shape.channels == 1 ? 2.2 : 1),
               rounds = real(ceil_div(threads, p.threads));
  const bool last = i + 1 == request.count;
  const double lines = real(p.images * l.output.size[1] * (last ? p.result_tile[0] : p.map[i + 1].extent[0])) *
                       warps_of(last ? p.result_tile[1] : p.map[i + 1].extent[1]); // of the second pass, a warp each
  const double window = real(int64_t{s.pool_window[0]} * s.pool_window[1]), second = s.two_passes != 0 ? lines : 0;
  const double staging = i == 0 ? real(int64_t{p.images} * p.map[0].channels * p.map[0].extent[0]) *
                                      (12 + 14 * warps_of(p.map[0].extent[1]))
                                : 0;
  cost.slots += warps_of(threads) * each + second * (36 + 4 * window) + staging;
  cost.path += rounds * each + (second * (100 + 5 * window) + staging) * 32 / p.threads + 100;
  const double outputs = real(int64_t{p.units} * p.images * s.output.extent[0] * s.output.extent[1]);
  cost.recomputed +=
      std::max(outputs - real(l.output.size[0] * l.output.size[3] * l.output.size[4]), 0.0) * real(l.output.size[1]);
}

// Tiles, and images for a group, and groups for a block: as many as config asks for and shared memory holds.
bool share_out(const polyconv_request &request, const PyramidConfig &config, int64_t shared, Pyramid &p,
               PyramidCost &cost, sdk::Offer &offer) {
  const int64_t batch = request.layers[0]->input.size[0], fit = (shared / 4 - p.arena) / p.image_floats;
  if (fit < 1) {
    cost.least_bytes = (int64_t{p.arena} + p.image_floats) * 4;
    return false;
  }
  p.images = small(std::max<int64_t>(std::min({int64_t{config.images}, fit, batch}), 1));
  p.groups = small(std::min<int64_t>(config.groups, fit / p.images));
  p.threads = config.threads;
  const int64_t units = ceil_div(batch, p.images) * p.tiles[0] * p.tiles[1];
  if (units >= INT32_MAX) return offer.reject("counts up to 2^31 tiles, not %" PRId64, units);
  p.units = small(units);
  cost.shared_bytes = (p.arena + int64_t{p.groups} * p.images * p.image_floats) * 4;
  return true;
}

// The tiles of both axes; false where they do not go together.
bool make_tiles(const polyconv_request &request, const PyramidConfig &config, Spans (&spans)[2], Pyramid &p,
                sdk::Offer &offer) {
  const polyconv_tensor &result = request.layers[request.count - 1]->result;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t size = std::max<int64_t>(result.size[3 + axis], 1);
    const int64_t tile = std::min<int64_t>(axis == 0 ? config.rows : config.columns, size);
    if (!make_spans(request, 1 + axis, tile, spans[axis]))
      return offer.reject("a residual's layer and the layer that adds it differ in stride");
    p.tiles[axis] = small(ceil_div(size, tile));
    p.result_size[axis] = small(size), p.result_tile[axis] = small(tile);
  }
  return true;
}

// Whether every coordinate outside a tensor between two layers that a tile's results need repeats one that the tile
// holds.
bool folds_inside(const polyconv_layer &l, int axis, const Span &map, const Span &output, int64_t tiles) {
  const int64_t size = l.input.size[2 + axis], outputs = l.output.size[2 + axis];
  const int64_t reach = (l.weights.size[2 + axis] - 1) * l.dilation[axis];
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t begin = map.begin + t * map.step, end = begin + map.extent;
    if (begin >= 0 && end <= size) continue;
    const int64_t first = std::max<int64_t>(output.begin + t * output.step, 0);
    const int64_t last = std::min(output.begin + t * output.step + output.extent, outputs) - 1;
    const int64_t lowest = first * l.stride[axis] - l.pad_begin[axis];
    const int64_t highest = last * l.stride[axis] - l.pad_begin[axis] + reach;
    for (int64_t c = lowest; c <= highest; ++c) {
      if (c == 0) c = std::min(size, highest + 1); // what is inside
      if (c > highest) break;
      const int64_t folded = sdk::padded_index(c, size, l.pad_mode);
      if (folded < begin || folded >= end) return false;
    }
  }
  return true;
}

bool all_fold_inside(const polyconv_request &request, const Spans (&spans)[2], const Pyramid &p, sdk::Offer &offer) {
  for (int i = 1; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    if (l.pad_mode == POLYCONV_PAD_ZERO || l.pad_mode == POLYCONV_PAD_CONSTANT) continue;
    for (int axis = 0; axis < 2; ++axis)
      if (!folds_inside(l, 1 + axis, spans[axis].map[i], spans[axis].output[i], p.tiles[axis]))
        return offer.reject("layer %d: its padding repeats what other tiles hold", i);
  }
  return true;
}

// Bytes of the largest layer's tile: what is far too large is told before it is counted in 32 bits.
int64_t largest_tile(const polyconv_request &request, const Spans (&spans)[2]) {
  int64_t floats = 0;
  for (int i = 0; i < request.count; ++i)
    floats = std::max({floats, spans[0].map[i].extent * spans[1].map[i].extent * request.layers[i]->input.size[1],
                       spans[0].output[i].extent * spans[1].output[i].extent * request.layers[i]->output.size[1]});
  return floats * 4;
}

} // namespace

bool make_pyramid(const polyconv_request &request, const PyramidConfig &config, int64_t shared, Pyramid &p,
                  PyramidCost &cost, sdk::Offer &offer) {
  p = {};
  cost = {};
  Spans spans[2];
  if (!make_tiles(request, config, spans, p, offer) || !all_fold_inside(request, spans, p, offer)) return false;
  int64_t weights = 0;
  for (int i = 0; i < request.count; ++i) weights += packed_bytes(*request.layers[i], config.channels);
  cost.least_bytes = weights + largest_tile(request, spans);
  if (cost.least_bytes > shared) return false;
  p.layers = request.count;
  place_maps(request, spans, p);
  make_ends(request, p);
  for (int i = 0; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    Stage &s = p.stage[i];
    make_stage(l, config.channels, s);
    s.two_passes = two_passes(request, i) ? 1 : 0;
    s.simple = bias_and_relu_at_most(l) && l.epilogue.pool.kind != POLYCONV_POOL_AVERAGE ? 1 : 0;
    s.relu = l.epilogue.activation == POLYCONV_ACT_RELU && s.two_passes == 0 ? 1 : 0;
    s.weights = p.arena, s.weight_count = small(packed_bytes(l, config.channels) / 4);
    p.arena += s.weight_count;
  }
  if (!share_out(request, config, shared, p, cost, offer)) return false;
  for (int i = 0; i < request.count; ++i) add_cost(request, i, config.channels, p, cost);
  return true;
}

} // namespace polyconv::cuda::chain
