// depthwise_planes.cu - depthwise layers of any window, stride, dilation and number of dimensions, some filters a
// channel, channels first, tap by tap from the caches (planes.cuh): what has no patch in shared memory or in registers.
// Configs are the rows of a thread.
//
// Floor: one read and one write of every element; then what lanes issue for each tap that is not padding.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "taps/planes.hpp"

namespace polyconv::cuda::shared {
namespace {

constexpr int kRows[] = {4, 2, 1};
constexpr int kConfigCount = sizeof kPlaneNames / sizeof *kPlaneNames;
static_assert(sizeof kRows / sizeof *kRows == kConfigCount, "every config has a name");

DepthwisePlanes make_planes(const polyconv_layer &l, int rows) {
  const polyconv_tensor &source = source_of(l);
  DepthwisePlanes s = {};
  for (int axis = 0; axis < 3; ++axis) s.axis[axis] = axis_of(l, axis);
  s.offset = small(source.offset), s.image = small(source.stride[0]), s.channel = small(source.stride[1]);
  s.phases = s.axis[1].by, s.whole = l.result.size[4] >= 32;
  const int64_t(&size)[5] = l.result.size;
  const int64_t sets = ceil_div(size[3], int64_t{rows} * s.phases) * s.phases;
  s.threads = small(std::min<int64_t>(size[0] * size[1] * size[2] * sets * size[4], INT32_MAX));
  s.columns = Divider::make(small(size[4])), s.sets = Divider::make(small(sets));
  s.planes = Divider::make(small(size[2])), s.channels = Divider::make(small(size[1]));
  s.residues = Divider::make(s.phases), s.multiplier = Divider::make(small(size[1] / source.size[1]));
  s.bounds = make_bounds(l);
  return s;
}

// ---------------------------------------------------------------- supports

// Rows of taps, of which a thread meets all its rows, or some: shares of them all.
struct Meetings {
  double all, some;
};

Meetings meetings(const DepthwisePlanes &s, int rows, double down) {
  const TapAxis &axis = s.axis[1];
  const int64_t sets = s.sets.by / s.phases;
  if (s.phases > 1) return {down / axis.taps, down / axis.taps / real(sets)};
  const int64_t step = std::max<int64_t>(1, sets * axis.taps / 4096); // of large images some
  Meetings m = {0, 0};
  int64_t pairs = 0;
  for (int64_t set = 0; set < sets; set += step)
    for (int64_t tap = 0; tap < axis.taps; ++tap, ++pairs) {
      int there = 0;
      for (int i = 0; i < rows; ++i) {
        const int64_t at = (set * rows + i) * axis.scale + axis.shift + tap * axis.apart;
        there += at >= 0 && at < axis.size ? 1 : 0;
      }
      (there == rows ? m.all : m.some) += there > 0 ? 1 : 0;
    }
  return {m.all / real(pairs), m.some / real(pairs)};
}

// Rows of taps that a warp goes through: those that one of its lanes meets, which are of several sets where rows are
// short; twice where some of them meet all rows and others do not.
double rows_of_warp(const DepthwisePlanes &s, int rows, double down) {
  const Meetings m = meetings(s, rows, down);
  const double taps = s.axis[1].taps, sets = std::min(real(s.sets.by / s.phases), 1 + 32.0 / s.columns.by);
  if (s.whole == 0) return 1.3 * taps * std::min(1.0, (m.all + m.some) * sets);
  return taps * (m.all + 1.2 * m.some);
}

// Microseconds: the bytes, or what the first cache serves, or what lanes issue, or taps one after the other, of which
// each waits for its loads: so many clocks that 32 warps of a multiprocessor hide them. 60 layers on an H200.
double planes_us(const polyconv_layer &l, int rows) {
  const DepthwisePlanes s = make_planes(l, rows);
  const double depth = taps_met(s.axis[0], l.result.size[2], 1), down = taps_met(s.axis[1], l.result.size[3], rows);
  const double across = taps_met(s.axis[2], l.result.size[4], 1), bytes = source_of(l).type == POLYCONV_F32 ? 4 : 2;
  const double seen = real(s.axis[2].taps) / s.axis[2].tap_step; // of a row, also beside the image
  const double passed = rows_of_warp(s, rows, down);
  const double ending = only_bounds(l) ? 20 + rows * 8.0 : rows * 200.0, converting = bytes == 4 ? 0 : rows;
  const double thread =
      120 + (s.phases > 1 ? 90 : 0) + depth * (14 + passed * (30 + seen * (8 + 3.5 * rows + converting))) + ending;
  const double warps = real(s.threads) / 32, multiprocessor = kHopperMultiprocessors * kHopperClocks;
  const double summing = warps * thread / (4 * multiprocessor * 0.65);
  const double lines = std::max(1.0, bytes * 32 * s.axis[2].scale / 128); // that a load of a warp touches
  const double cached = warps * depth * down * across * (1 + rows * lines) / multiprocessor;
  const double met = part_met(s.axis[0]) * part_met(s.axis[1]) * part_met(s.axis[2]);
  const double results = real(sdk::elements(l.result));
  const double moving =
      (bytes * met * real(sdk::elements(source_of(l))) + (l.result.type == POLYCONV_F32 ? 4 : 2) * results) / 4.1e6;
  const double waves = std::ceil(warps / (32.0 * kHopperMultiprocessors));
  const double waiting = waves * depth * down * (200 + seen * 120) / kHopperClocks;
  const double working = std::max(summing, cached) + 0.5 * std::min(summing, cached);
  return 1.5 + std::max({working + 0.3 * moving, moving + 0.3 * working, waiting});
}

bool takes(int32_t direction, const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, direction, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_no_pooling(l, offer)) return false;
  if (!takes_floats(l, source_of(l).type, offer)) return false;
  if (l.weights.size[1] != 1) return offer.reject("takes filters of one input channel");
  if (direction != POLYCONV_FORWARD && !takes_one_filter(l, offer)) return false;
  if (!takes_no_empty({&source_of(l), &l.result}, offer)) return false;
  if (direction == POLYCONV_FORWARD && !takes_zeros(pads_zeros(l), offer)) return false;
  if (direction != POLYCONV_FORWARD && l.pad_mode > POLYCONV_PAD_CONSTANT)
    return offer.reject("folds no gradient of the padding back");
  if (!takes_channels_first(has_neighbouring_columns(source_of(l)) && has_neighbouring_columns(l.result), offer,
                            "loads neighbouring columns: wants channels first"))
    return false;
  if (!takes_int32(l, offer)) return false;
  if (sdk::taps(l) > 1 << 16) return offer.reject("takes windows of up to 2^16 taps");
  return make_planes(l, 1).threads <= INT32_MAX - kPlaneThreads || offer.reject("launches less than 2^31 threads");
}

// ---------------------------------------------------------------- plan and run

class Planes final : public CudaInstance {
 public:
  Planes(const polyconv_request &request, int config) : CudaInstance(request) {
    const auto find = of_type(source_of(layer_).type, [](auto t) { return find_planes<decltype(t)>; });
    launch_ = find(kRows[config], only_bounds(layer_)), planes_ = make_planes(layer_, kRows[config]);
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const bool forward = layer_.direction == POLYCONV_FORWARD;
    launch_(Conv<int32_t>(layer_, a), planes_, forward ? a.input : a.output, a.weights[0], forward ? a.output : a.input,
            stream);
  }

  PlanesLaunch launch_ = nullptr;
  DepthwisePlanes planes_ = {};
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return supports_planes(POLYCONV_FORWARD, request, config, offer);
}

} // namespace

bool supports_planes(int32_t direction, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(direction, request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  offer_cheapest(kConfigCount, config, offer, [&](int32_t i) { return planes_us(l, kRows[i]); });
  return true;
}

std::unique_ptr<sdk::Instance> create_planes(const polyconv_request &request, int32_t config) {
  return std::make_unique<Planes>(request, config);
}

} // namespace polyconv::cuda::shared

namespace polyconv::cuda {

POLYCONV_DEFINE_KERNEL(depthwise_planes, shared::kPlaneNames, shared::supports, shared::create_planes);

} // namespace polyconv::cuda
