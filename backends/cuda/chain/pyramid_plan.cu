// pyramid_plan.cu - from the layers of a chain to tiles, their places in shared memory, and what all that costs.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "pyramid.hpp"

namespace polyconv::cuda::chain {
namespace {

int64_t quotient(int64_t count, int64_t of) { // rounded up
  return (count + of - 1) / of;
}

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

// One axis of the pooling; a window of one where there is none.
struct Window {
  int64_t size, stride, pad;
};
Window window_of(const polyconv_layer &l, int axis) {
  const polyconv_pool &pool = l.epilogue.pool;
  if (!sdk::has_pooling(l)) return {1, 1, 0};
  return {pool.window[axis], pool.stride[axis], pool.pad_begin[axis]};
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
    const Window pool = window_of(l, axis);
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

int32_t small(int64_t v) {
  return static_cast<int32_t>(v);
}

// Fills all but the offset; the floats it takes.
int64_t shape_map(const polyconv_tensor &t, const Span &rows, const Span &columns, Map &m) {
  const Span *const spans[2] = {&rows, &columns};
  for (int axis = 0; axis < 2; ++axis) {
    m.begin[axis] = small(spans[axis]->begin), m.step[axis] = small(spans[axis]->step);
    m.extent[axis] = small(spans[axis]->extent), m.size[axis] = small(t.size[3 + axis]);
  }
  m.channels = small(t.size[1]);
  m.pitch = small(columns.extent), m.plane = small(rows.extent * columns.extent);
  m.type = t.type;
  return t.size[1] * rows.extent * columns.extent;
}

float padding_of(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_CONSTANT ? static_cast<float>(l.pad_value) : 0.0f;
}

// When layer i runs, and when it pools.
int time_of(int layer) {
  return 2 * layer;
}
int pool_time(int layer) {
  return 2 * layer + 1;
}

// The last layer to read map i.
int last_reader(const polyconv_request &request, int map) {
  int last = map;
  for (int i = map; i < request.count; ++i)
    if (residual_map(*request.layers[i]) == map) last = i;
  return last;
}

void place_maps(const polyconv_request &request, const Spans (&spans)[2], Pyramid &p) {
  Arena arena;
  for (int i = 0; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    const bool before_pools = i > 0 && sdk::has_pooling(*request.layers[i - 1]);
    const int made = i == 0 ? 0 : before_pools ? pool_time(i - 1) : time_of(i - 1);
    const int64_t floats = shape_map(l.input, spans[0].map[i], spans[1].map[i], p.map[i]);
    p.map[i].offset = small(arena.place(floats, made, time_of(last_reader(request, i))));
    p.map[i].padding = padding_of(l);
    const int64_t before = shape_map(l.output, spans[0].output[i], spans[1].output[i], p.stage[i].output);
    if (sdk::has_pooling(l)) p.stage[i].output.offset = small(arena.place(before, time_of(i), pool_time(i)));
  }
  p.image_floats = small(quotient(arena.end(), 4) * 4);
}

void make_stage(const polyconv_layer &l, Stage &s) {
  const polyconv_epilogue &e = l.epilogue;
  s.group_in = small(l.weights.size[1]), s.group_out = small(l.weights.size[0] / l.groups);
  s.channel_blocks = small(l.groups * quotient(s.group_out, kChannels));
  for (int axis = 0; axis < 2; ++axis) {
    const Window pool = window_of(l, 1 + axis);
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

double real(int64_t v) {
  return static_cast<double>(v);
}

} // namespace

bool make_pyramid(const polyconv_request &request, const PyramidConfig &config, Pyramid &p, PyramidCost &cost,
                  sdk::Offer &offer) {
  p = {};
  cost = {};
  const polyconv_tensor &result = request.layers[request.count - 1]->result;
  Spans spans[2];
  int64_t tiles = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t size = std::max<int64_t>(result.size[3 + axis], 1);
    const int64_t tile = std::min<int64_t>(axis == 0 ? config.rows : config.columns, size);
    if (!make_spans(request, 1 + axis, tile, spans[axis]))
      return offer.reject("a residual's layer and the layer that adds it differ in stride");
    p.tiles[axis] = small(quotient(size, tile));
    p.result_size[axis] = small(size), p.result_tile[axis] = small(tile);
    tiles *= p.tiles[axis];
  }
  p.layers = request.count;
  place_maps(request, spans, p);
  make_ends(request, p);
  int64_t weights = 0, widest = 1;
  for (int i = 0; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    make_stage(l, p.stage[i]);
    p.stage[i].weights = small(weights), p.stage[i].weight_count = small(packed_bytes(l) / 4);
    weights += p.stage[i].weight_count;
    widest = std::max(widest, l.stride[2]);
    const double outputs = real(result.size[0] * tiles * spans[0].output[i].extent * spans[1].output[i].extent);
    const double products = real(l.output.size[1] * l.weights.size[1] * sdk::taps(l));
    cost.products += outputs * products;
    cost.recomputed +=
        std::max(outputs - real(l.output.size[0] * l.output.size[3] * l.output.size[4]), 0.0) * real(l.output.size[1]);
  }
  p.arena = small(weights);
  const int64_t slack =
      quotient(kColumns * widest, 4) * 4; // a thread's last columns, read behind the tile and not used
  const int64_t free = kSharedBytes / 4 - weights - slack;
  if (free < p.image_floats)
    return offer.reject("needs %" PRId64 " bytes of shared memory for a tile of %d x %d, and has %" PRId64,
                        (weights + slack + p.image_floats) * 4, p.result_tile[0], p.result_tile[1], kSharedBytes);
  const int64_t outputs = int64_t{p.result_tile[0]} * p.result_tile[1] * result.size[1];
  const int64_t wanted = quotient(8LL * config.threads, std::max<int64_t>(outputs, 1));
  p.images = small(std::max<int64_t>(std::min({wanted, free / p.image_floats, result.size[0]}), 1));
  cost.blocks = quotient(result.size[0], p.images) * tiles;
  cost.threads = config.threads;
  cost.shared_bytes = (weights + slack + int64_t{p.images} * p.image_floats) * 4;
  return true;
}

} // namespace polyconv::cuda::chain
