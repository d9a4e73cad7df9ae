// plan.cpp - which chains the kernels of mobile.hpp take, and the tiles that take the least time.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/machine.hpp"
#include "common/pieces.hpp"
#include "layers.hpp"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::mobile {
namespace {

using namespace halves;

// ---------------------------------------------------------------- what they take

// Channels side by side, and offsets inside of an image that fit.
bool takes_tensor(const polyconv_tensor &t, const char *what, int index, sdk::Offer &offer) {
  if (t.size[1] > 1 && t.stride[1] != 1)
    return offer.reject("layer %d: takes channels last, the %s's lie %" PRId64 " apart", index, what, t.stride[1]);
  double reach = 0;
  for (const int axis : {1, 3, 4}) reach += real(t.size[axis]) * std::fabs(real(t.stride[axis]));
  for (const int axis : {0, 3, 4})
    if (t.stride[axis] < 0) return offer.reject("layer %d: the %s's stride is negative", index, what);
  if (!(reach < (1 << 26))) return offer.reject("layer %d: takes images of less than 2^26 elements", index);
  return true;
}

bool takes_pointwise(const polyconv_layer &l, int index, sdk::Offer &offer) {
  if (!takes_form(l, index, offer) || !takes_no_pooling(l, index, offer) || !takes_taps(l, 1, 1, 1, index, offer))
    return false;
  for (int axis = 1; axis < 3; ++axis)
    if (l.pad_begin[axis] != 0 || l.pad_end[axis] != 0) return offer.reject("layer %d: is to have no padding", index);
  return true;
}

bool takes_depthwise(const polyconv_layer &l, int index, sdk::Offer &offer) {
  if (!takes_form(l, index, offer) || !takes_no_pooling(l, index, offer) || !takes_no_residual(l, index, offer))
    return false;
  if (l.weights.size[3] != 3 || l.weights.size[4] != 3)
    return offer.reject("layer %d: is to be 3x3, not %" PRId64 "x%" PRId64, index, l.weights.size[3],
                        l.weights.size[4]);
  if (l.groups != l.input.size[1] || l.output.size[1] != l.groups)
    return offer.reject("layer %d: is to be depthwise, %" PRId64 " groups, not %" PRId64, index, l.input.size[1],
                        l.groups);
  if (l.stride[1] != l.stride[2] || l.stride[1] > 2)
    return offer.reject("layer %d: takes strides of 1 and 2, not %" PRId64 "x%" PRId64, index, l.stride[1],
                        l.stride[2]);
  return true;
}

// ---------------------------------------------------------------- geometry

Pixels pixels_of(const polyconv_tensor &t) {
  return {t.stride[0], small(t.stride[3]), small(t.stride[4])};
}

Ending ending_of(const polyconv_layer &l) {
  return {nullptr, low_of(l), high_of(l)};
}

// Whether `bytes` of neighbouring channels can be moved at once, were the pointer aligned to them.
bool has_pieces(const polyconv_tensor &t, int64_t bytes) {
  return in_pieces(t, bytes / sdk::type_bytes(t.type), t.size[1]);
}

// Pairs of 8 result channels that warps of so many rows can sum, ascending; as pair_by_shape has them.
struct PairsOf {
  int count, pairs[3];
};
PairsOf pairs_of(int rows, int step) {
  if (rows == 4 && step == 1) return {2, {1, 2}};
  if (rows == 2 && step == 1) return {2, {4, 6}};
  if (rows == 2) return {3, {2, 4, 6}};
  if (rows == 1) return {1, {10}};
  return {0, {}};
}

// The fewest slices, and the fewest pairs of these; false where there are no such rows.
bool choose_pairs(Mobile &m) {
  const PairsOf have = pairs_of(m.rows, m.step);
  if (have.count == 0) return false;
  const int64_t wanted = ceil_div(m.results, 16);
  m.slices = small(ceil_div(wanted, have.pairs[have.count - 1]));
  for (int i = have.count - 1; i >= 0; --i)
    if (int64_t{have.pairs[i]} * m.slices >= wanted) m.pairs = have.pairs[i];
  return true;
}

void set_tile(Mobile &m, int down, int across, int images) {
  const int count[2] = {down, across}, outputs[2] = {down * m.rows, across * kUnitWidth};
  for (int i = 0; i < 2; ++i) {
    m.units[i] = count[i];
    m.patch[i] = (outputs[i] - 1) * m.step + 3;
    m.tiles[i] = small(ceil_div(m.out[i], outputs[i]));
  }
  m.images = images;
  m.groups_of_images = small(ceil_div(m.batch, images));
}

int64_t shared_bytes(const Mobile &m, bool expands, int64_t blocks) {
  const int64_t alarms = m.all_tiles() / blocks / 32 + 2, biases = m.hidden_biases() + m.result_biases();
  const int64_t tables = kTableBytes + 4 * (3 * int64_t{m.positions()} + alarms + biases);
  const int64_t chunks = m.chunks();
  if (expands)
    return m.hidden_bytes() + int64_t{m.positions()} * m.input_pitch() +
           (m.resident ? chunks : 2) * m.inverted_bytes() + tables + 4 * m.hidden_biases();
  const int64_t stage = m.hidden_bytes() + (m.resident ? 0 : m.pair_bytes());
  return m.stages * stage + (m.resident ? chunks * m.pair_bytes() : 0) + tables;
}

// Sums that warps hand over must fit where a chunk was.
bool shares_fit(const Mobile &m) {
  const int64_t sums = int64_t{m.warps() / m.shares} * (m.shares - 1) * m.rows * 2 * m.pairs * kFragmentBytes;
  return sums <= m.hidden_bytes();
}

// ---------------------------------------------------------------- time

// Instructions of a tile's warps, all together.
double instructions(const Mobile &m, bool expands) {
  const double threads = m.warps() * 32, chunks = m.chunks(), groups = m.hidden_groups();
  const double rows = (m.rows - 1) * m.step + 3;
  const double filter = 90 + rows * 6 + m.rows * (28 + 2.2 * m.pairs) + 3 * m.pairs; // of a warp, for 16 channels
  const double input = expands ? m.channel_groups() * 2.0 : chunks * m.chunk() / 8;  // pieces of a position
  const double fetch = m.positions() * input / threads * 9 + (expands ? 0 : chunks * 60);
  const double weights = m.resident ? 0 : chunks * (100 + (expands ? m.inverted_bytes() : m.pair_bytes()) / threads);
  const double store = 250 + m.rows * m.pairs * 60.0 / m.shares + m.positions() / threads * 20;
  double all = m.warps() * (groups / m.shares * filter + fetch + weights + store + chunks * 60);
  if (expands) all += real(ceil_div(m.positions(), 32)) * groups / 2 * (90 + m.channel_groups() * 26.0);
  return all;
}

// Clocks of a multiprocessor for a tile: instructions, of which a warp has one in five clocks or more; products;
// memory. Fitted to MobileNetV2 at batch 128 on an H200.
double tile_clocks(const Mobile &m, bool expands, int together) {
  const double warps = together * m.warps();
  const double groups = m.hidden_groups();
  double products = m.warps() / m.shares * m.rows * groups * (10 + 2 * m.pairs);
  if (expands) products += real(ceil_div(m.positions(), 16)) * groups * 2 * m.channel_groups();
  const double most = !expands ? 1.9 : together == 1 ? 1 : 1.4; // a block alone waits where its warps meet
  const double issue = instructions(m, expands) / std::min(most, warps / (expands ? 6.5 : 5)),
               multiply = products * 6.5 / 4 / 0.85;
  const double pixels = 1.0 * m.images * m.units[0] * m.rows * m.units[1] * kUnitWidth;
  const double inside = std::min<double>(m.positions(), pixels * m.step * m.step) * m.channels;
  const double memory = (inside + pixels * m.results / m.slices) * 2 / 9;
  const double cache = (1.0 * m.positions() * m.channels + m.hidden * (16.0 + m.pairs * 16)) * 2 / 36;
  return std::max({issue, multiply, memory, cache}) + 0.05 * (issue + memory); // the rest never hides entirely
}

double plan_us(const Mobile &m, bool expands, int together) {
  const double rounds = real(ceil_div(m.all_tiles(), int64_t{kHopperMultiprocessors} * together));
  return 3 + rounds * together * tile_clocks(m, expands, together) / kHopperClocks;
}

// How many of a plan's blocks a multiprocessor takes.
int together_of(const Mobile &m, int64_t shared) {
  const int64_t by_threads = most_threads(m.rows, m.pairs) / 32 / m.warps();
  return static_cast<int>(std::min<int64_t>({by_threads, (228 << 10) / (shared + 1024), 8}));
}

// Keeps a tile that fits if it is the best; and the least shared memory that any needs.
void try_tile(const Mobile &m, bool expands, int64_t most_shared, int64_t &least, MobilePlan &plan) {
  const int64_t shared = shared_bytes(m, expands, kHopperMultiprocessors);
  if (!shares_fit(m)) return;
  least = std::min(least, shared);
  const int together = together_of(m, shared);
  if (shared > most_shared || together < 1) return;
  const double us = plan_us(m, expands, together);
  if (plan.us > 0 && us >= plan.us) return;
  plan.shape = m, plan.shared_bytes = shared, plan.together = together, plan.us = us;
  plan.blocks = std::clamp<int64_t>(m.all_tiles(), 1, int64_t{kHopperMultiprocessors} * together);
}

} // namespace

Mobile mobile_shape(const MobileLayers &layers) {
  const polyconv_layer &filter = *layers.filter, &project = *layers.project;
  const polyconv_layer &first = layers.expand != nullptr ? *layers.expand : filter;
  const int64_t item = sdk::type_bytes(first.input.type);
  Mobile m;
  m.in_at = pixels_of(first.input), m.out_at = pixels_of(project.result);
  m.vectors_in = has_pieces(first.input, 16), m.vectors_out = has_pieces(project.result, 4 * item);
  if (project.epilogue.residual_from != POLYCONV_RESIDUAL_NONE) {
    m.residual_at = pixels_of(project.residual);
    m.residual_scale = project.epilogue.residual_scale;
    m.vectors_out = m.vectors_out && has_pieces(project.residual, 4 * item);
    m.vectors_residual = m.vectors_out && has_pieces(project.residual, 16);
  }
  for (int i = 0; i < 2; ++i) {
    m.in[i] = small(filter.input.size[3 + i]), m.out[i] = small(filter.output.size[3 + i]);
    m.pad[i] = small(filter.pad_begin[1 + i]);
  }
  m.batch = small(first.input.size[0]);
  m.channels = small(first.input.size[1]), m.hidden = small(filter.input.size[1]);
  m.results = small(project.output.size[1]);
  m.step = small(filter.stride[1]);
  if (layers.expand != nullptr) m.expanded = ending_of(*layers.expand);
  m.filtered = ending_of(filter), m.projected = ending_of(project);
  return m;
}

void set_pointers(const polyconv_layer *layers, int count, const polyconv_arguments &a, Mobile &m) {
  const polyconv_layer &last = layers[count - 1];
  const int64_t item = sdk::type_bytes(last.result.type);
  const auto bias = [&](int layer) {
    return layers[layer].epilogue.has_bias ? static_cast<const float *>(a.bias[layer]) : nullptr;
  };
  m.input = begin_of(layers[0].input, a.input);
  m.result = begin_of(last.result, a.output);
  if (last.epilogue.residual_from != POLYCONV_RESIDUAL_NONE) {
    const bool inner = last.epilogue.residual_from == POLYCONV_RESIDUAL_INPUT;
    m.residual = begin_of(last.residual, inner ? a.input : a.residual[count - 1]);
  }
  if (count == 3) m.expand = a.weights[0], m.expanded.bias = bias(0);
  m.filters = a.weights[count - 2], m.filtered.bias = bias(count - 2);
  m.project = a.weights[count - 1], m.projected.bias = bias(count - 1);
  m.vectors_in = m.vectors_in && aligned(m.input, 16);
  m.vectors_out = m.vectors_out && aligned(m.result, 4 * item) && aligned(m.residual, 4 * item);
  m.vectors_residual = m.vectors_residual && m.vectors_out && aligned(m.residual, 16);
  m.in_place = m.residual == m.result;
}

bool mobile_takes(const MobileLayers &layers, sdk::Offer &offer) {
  const polyconv_layer &first = layers.expand != nullptr ? *layers.expand : *layers.filter;
  if (!is_half(first.input.type)) return offer.reject("layer 0: multiplies f16 and bf16");
  return mobile_takes_form(layers, offer);
}

bool mobile_takes_form(const MobileLayers &layers, sdk::Offer &offer) {
  int index = 0;
  const polyconv_layer &first = layers.expand != nullptr ? *layers.expand : *layers.filter;
  if (layers.expand != nullptr) {
    if (!takes_pointwise(*layers.expand, index, offer) || !takes_no_residual(*layers.expand, index, offer))
      return false;
    const int64_t hidden = layers.expand->output.size[1];
    if (hidden % kGroup != 0)
      return offer.reject("layer 0: gives %" PRId64 " channels, no multiple of %d", hidden, kGroup);
    ++index;
  }
  if (!takes_depthwise(*layers.filter, index, offer)) return false;
  ++index;
  const polyconv_layer &project = *layers.project;
  if (!takes_pointwise(project, index, offer)) return false;
  const int32_t from = project.epilogue.residual_from;
  if (from >= POLYCONV_RESIDUAL_LAYER)
    return offer.reject("layer %d: adds the chain's input or a buffer, not layer %d", index,
                        from - POLYCONV_RESIDUAL_LAYER);
  if (from != POLYCONV_RESIDUAL_NONE && !takes_tensor(project.residual, "residual", index, offer)) return false;
  if (first.input.size[0] > 1 << 24 || project.output.size[1] > 4096 || layers.filter->input.size[1] > 4096)
    return offer.reject("takes at most 4096 channels and 2^24 images");
  return takes_tensor(first.input, "input", 0, offer) && takes_tensor(project.result, "result", index, offer);
}

bool plan_mobile(const MobileLayers &layers, const MobileConfig &config, int64_t most_shared, MobilePlan &plan,
                 sdk::Offer &offer) {
  const bool expands = layers.expand != nullptr;
  Mobile m = mobile_shape(layers);
  m.rows = config.rows, m.shares = config.shares;
  if (!choose_pairs(m)) return offer.reject("has no units of %d rows for stride %d", m.rows, m.step);
  plan = {};
  int64_t least = INT64_MAX;
  const int most_units = most_threads(m.rows, m.pairs) / 32 / m.shares * 2;
  const int all_down = std::max(small(ceil_div(m.out[0], m.rows)), 1),
            all_across = std::max(small(ceil_div(m.out[1], kUnitWidth)), 1);
  for (int across = 1; across <= std::min(all_across, most_units); ++across)
    for (int down = 1; down <= std::min(all_down, most_units / across); ++down) {
      const bool whole = across == all_across && down == all_down;
      for (int images = 1; images <= (whole ? std::min(most_units / across / down, std::max(m.batch, 1)) : 1);
           ++images) {
        set_tile(m, down, across, images);
        if (real(m.groups_of_images) * m.tiles[0] * m.tiles[1] * m.slices > 1 << 30 || m.images > 127 ||
            m.in_at.image * m.images > INT32_MAX)
          continue;
        for (const int way : {0, 1, 2, 3}) {
          m.stages = way < 2 ? 3 : 2, m.resident = way % 2;
          if ((m.resident && m.slices > 1) || (expands && m.stages == 3)) continue;
          try_tile(m, expands, most_shared, least, plan);
        }
      }
    }
  if (plan.us > 0) return true;
  if (least == INT64_MAX) return offer.reject("has no tile for %d channels of the result", m.results);
  return offer.reject("needs at least %" PRId64 " bytes of shared memory a block, %" PRId64 " may be used", least,
                      most_shared);
}

} // namespace polyconv::cuda::mobile
