// few_in_plan.cu - which layers cuda-tensor/few_in takes and how it cuts them up, how weights are packed, and the run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/conv.cuh"
#include "common/host.hpp"
#include "few/few_in.cuh"

namespace polyconv::cuda::few_in {
namespace {

int element_bytes(const polyconv_layer &l) {
  return few::element_bytes(l.input);
}

// ---------------------------------------------------------------- choice

// An instance with the geometry that it gives a layer, and what that costs.
struct Choice {
  const Variant *variant = nullptr; // NULL: none serves
  Ends ends = kTogether;
  Geometry geometry = {};
  int64_t blocks = 0, shared = 0; // bytes
  double us = 0;
};

// Whether every offset by whole images, rows and pixels or filters is a multiple of so many elements.
bool in_vectors(const polyconv_tensor &t, int axis, int vector) {
  const auto whole = [&](int a) { return t.size[a] == 1 || t.stride[a] % vector == 0; };
  return t.offset % vector == 0 && whole(0) && whole(2) && whole(3) && whole(axis);
}
// Whether units of so many channels can be loaded as one.
bool has_whole_units(const polyconv_layer &l, int channels) {
  const polyconv_tensor &t = l.input;
  return (t.stride[1] == 1 || channels == 1) && t.size[1] % channels == 0 && in_vectors(t, 3, channels) &&
         in_vectors(t, 4, channels);
}

// Lets taps side by side share units of so many elements, where that makes units fewer.
void fold_taps(int32_t unit, Geometry &g) {
  struct Axis {
    int32_t &taps, &dilation;
    int32_t apart;
  } axes[] = {{g.depth.taps, g.depth.dilation, g.depth.x},
              {g.taps_h, g.dilation_h, g.x_row},
              {g.taps_w, g.dilation_w, g.x_column}};
  Fold &fold = g.fold;
  fold.taps = 1;
  for (int32_t axis = 2; axis >= 0; --axis)
    for (int32_t taps = unit / g.channels; taps > fold.taps; --taps)
      if (axes[axis].taps % taps == 0) fold.taps = taps, fold.axis = axis;
  if (fold.taps == 1) return;
  const Axis &a = axes[fold.axis];
  fold.last = g.last[fold.axis], g.last[fold.axis] = UINT32_MAX;
  fold.elements = fold.taps * g.channels;
  for (int32_t i = 0; i < fold.elements; ++i) {
    const int64_t shift = int64_t{i / g.channels} * a.dilation;
    fold.shift[i] = static_cast<int32_t>(shift);
    fold.offset[i] = static_cast<int32_t>(shift * a.apart + int64_t{i % g.channels} * g.x_plane);
  }
  a.taps /= fold.taps;
  a.dilation = a.taps == 1 ? 1 : a.dilation * fold.taps;
}

// Leaves out rows or columns of the input that no window reads: those of a patch are `grid` apart.
void thin(int32_t taps, int32_t &step, int32_t &dilation, int32_t &grid) {
  grid = 1;
  if (taps > 1 && dilation % step != 0) return;
  grid = step;
  dilation = taps == 1 ? 1 : dilation / step;
  step = 1;
}

Ends ends_of(const polyconv_layer &l, int tiles) {
  if (l.result.stride[1] != 1 && l.result.size[1] > 1) return kPlanes;
  const int vector = vector_of(tiles, element_bytes(l));
  return l.result.size[1] % vector == 0 && in_vectors(l.result, 4, vector) ? kTogether : kSingly;
}

// The pitch of a patch's rows, with a few columns more where they part the banks: of windows one tap wide, the four
// units of a step lie in four rows, and those of four positions side by side. Sixteen of them are all banks.
int64_t parted(int64_t pitch, const Geometry &g) {
  if (g.taps_w > 1 || g.units > 1 || g.depth.taps * g.taps_h == 1) return pitch;
  const int64_t more = (20 - pitch % 8) % 8; // to 4 or 12 beyond a multiple of 16
  return more * 8 <= pitch ? pitch + more : pitch;
}

// Fills in what a patch of so many rows and columns makes of a layer. False: there is no place for it.
bool place(const polyconv_layer &l, int64_t rows, int64_t columns, Choice &c) {
  const Form &f = c.variant->form;
  Geometry &g = c.geometry;
  const int64_t pitch = parted((columns - 1) * g.step_w + g.reach_w(), g), lines = (rows - 1) * g.step_h + g.reach_h();
  if (!(real(pitch) * real(lines) * g.depth.taps * g.units * 8 < kLentShared)) return false; // below, nothing overflows
  const int64_t pixels = g.depth.taps * lines * pitch, plane = pixels * g.units * 8;
  const int64_t input = ceil_div(plane * f.parts + 8, 16) * 16, units = int64_t{f.steps} * 16;
  const int64_t waiting = ceil_div(rows * columns, 64) * 64 + 8; // so that filters fall into different banks
  c.shared = input + units + (c.ends == kPlanes ? waiting * 16 * f.tiles * element_bytes(l) : 0);
  if (c.shared > kLentShared) return false;
  g.rows = small(rows), g.columns = small(columns), g.outputs = small(rows * columns);
  g.down = small(ceil_div(g.output_h, rows)), g.across = small(ceil_div(g.output_w, columns));
  g.skip = rows > 1 && columns < g.output_w ? small(g.y_row - columns * g.y_column) : 0;
  g.pitch = small(pitch), g.lines = small(lines), g.pixels = small(pixels), g.plane = small(plane);
  g.by_columns = Divider::make(g.columns), g.by_pitch = Divider::make(g.pitch), g.by_lines = Divider::make(g.lines);
  g.input = small(input), g.waiting = small(waiting);
  return true;
}

// Microseconds. A block loads, then multiplies or waits for its share of memory; others of the multiprocessor do so
// meanwhile, and each of them takes a little longer for it. Fitted to 204 times of 31 layers' configs and of the
// census's on an H200: 10 % rms of those that are near the best.
double estimate(const polyconv_layer &l, const Choice &c) {
  const Form &f = c.variant->form;
  const Geometry &g = c.geometry;
  const double fitting = std::min<double>(c.variant->resident, std::floor(kHopperShared / real(c.shared + 1024)));
  const double resident = std::min(fitting, std::ceil(real(c.blocks) / kHopperMultiprocessors));
  const double rounds = real(c.blocks) / (kHopperMultiprocessors * resident), others = resident - 1;
  const double products = f.steps * f.tiles * (f.parts > 1 ? 6 : 1);
  // Of a unit whose channels ask for places of their own, or are twice the bytes; further units come one by one.
  const double first = g.fold.taps > 1 || element_bytes(l) == 4 ? 1.0 : 0.75;
  const double loading =
      0.69 + real(ceil_div(g.pixels, kAtOnce * kThreads)) * (first + 0.5 * (g.units - 1)) * (1 + 0.24 * others);
  const double bytes = real(g.outputs) * std::min(16 * f.tiles, g.filters) * element_bytes(l);
  const double shares = kHopperMultiprocessors * resident;
  const double storing = bytes * (c.ends == kPlanes ? std::max(shares / 1.62e6, 1 / 6.1e3) : shares / 4.1e6);
  const double multiplying =
      real(ceil_div(g.outputs, kPositions)) *
      (0.0167 + 0.0016 * f.steps * f.parts + 0.0019 * products + 0.0011 * f.tiles + 0.0020 * g.units) *
      (1 + 0.46 * others);
  // Planes of a group leave before the next one's weights are fetched.
  const double turn = g.together > 1 && c.ends == kPlanes ? 1.5 : 0;
  // More units than those layers had: only where there is much to win.
  const double untimed = g.units > 4 ? 1.35 : 1;
  return untimed *
         (1.58 + (rounds < 1 ? 1 : rounds + 0.26) * (loading + g.together * std::max({multiplying, storing, turn}))) *
         (c.ends == kSingly ? 3 : 1);
}

// One way to cut a layer up, of whose groups of filters a block has one or all.
void consider(const polyconv_layer &l, Choice c, int64_t rows, int64_t columns, Choice &best) {
  if (!place(l, ceil_div(c.geometry.output_h, ceil_div(c.geometry.output_h, rows)), columns, c)) return;
  Geometry &g = c.geometry;
  for (const int32_t together : {1, g.groups}) {
    g.together = together;
    c.blocks = l.output.size[0] * g.depth.output * g.down * g.across * ceil_div(g.groups, together);
    c.us = estimate(l, c);
    if (c.blocks <= INT32_MAX && (best.variant == nullptr || c.us < best.us)) best = c;
    if (g.groups == 1 || !c.variant->form.takes_turns()) return;
  }
}

// Patches of up to so many outputs, the most for which there is a place.
void cut(const polyconv_layer &l, int outputs, const Choice &c, Choice &best) {
  const Geometry &g = c.geometry;
  const bool dense = g.output_h == 1 || g.y_row == int64_t{g.output_w} * g.y_column;
  const auto part = [&](int64_t most) { return ceil_div(g.output_w, ceil_div(g.output_w, most)); };
  Choice found;
  for (int64_t most = outputs; most >= 8 && found.variant == nullptr; most /= 2) {
    if (dense && most >= g.output_w)
      consider(l, c, most / g.output_w, g.output_w, found);
    else
      consider(l, c, 1, part(most), found);
    for (int64_t rows = 2; c.ends != kPlanes && rows <= std::min<int64_t>(most / kPositions, g.output_h); rows *= 2)
      if (const int64_t columns = ceil_div(part(most / rows), kPositions) * kPositions; columns < g.output_w)
        consider(l, c, rows, columns, found);
  }
  if (found.variant != nullptr && (best.variant == nullptr || found.us < best.us)) best = found;
}

Choice choose(const polyconv_layer &l, Products products, int outputs) {
  Choice best;
  const int parts = products == Products::kEmulated ? 3 : 1;
  for (const Variant &v : variants()) {
    if (v.type != l.input.type || v.form.parts != parts) continue;
    Choice c;
    c.variant = &v, c.ends = ends_of(l, v.form.tiles);
    Geometry &g = c.geometry;
    static_cast<few::Shape &>(g) = few::shape_of(l), g.depth = few::depth_of(l);
    const int32_t unit = channels_of_unit(parts, element_bytes(l));
    g.units = small(ceil_div(g.channels, unit));
    for (int axis = 0; axis < 3; ++axis) g.last[axis] = static_cast<uint32_t>(l.input.size[2 + axis] - 1);
    // What sums up exactly knows the layer's own taps.
    fold_taps(parts > 1 ? 1 : unit, g);
    thin(g.taps_h, g.step_h, g.dilation_h, g.grid_h), thin(g.taps_w, g.step_w, g.dilation_w, g.grid_w);
    g.whole = g.fold.taps == 1 && has_whole_units(l, unit);
    g.groups = small(ceil_div(g.filters, 16 * v.form.tiles));
    const int64_t steps = ceil_div(int64_t{g.depth.taps} * g.taps_h * g.taps_w * g.units, 4);
    // The order of a sum depends on the layer alone.
    if (steps > v.form.steps || chains_of(small(steps), parts) != chains_of(v.form.steps, parts)) continue;
    if (v.kernels[c.ends] != nullptr) cut(l, outputs, c, best);
  }
  if (Geometry &g = best.geometry; best.variant != nullptr)
    g.in_pairs = g.y_column == 1 &&
                 (element_bytes(l) == 4 || (g.outputs % 2 == 0 && g.output_w % 2 == 0 && in_vectors(l.result, 1, 2)));
  return best;
}

// ---------------------------------------------------------------- pack

// What the packed weights depend on besides the weights.
struct Packing {
  Form form;
  int32_t bytes, units, groups; // of an element
  int32_t folded, axis;         // taps that share a unit
  int64_t exact;                // elements that follow, unpacked

  Packing(const polyconv_layer &l, const Choice &c)
      : form(c.variant->form),
        bytes(element_bytes(l)),
        units(c.geometry.units),
        groups(c.geometry.groups),
        folded(c.geometry.fold.taps),
        axis(c.geometry.fold.axis),
        exact(form.parts > 1 ? sdk::elements(l.weights) : 0) {}
  __host__ __device__ int64_t operands() const { return int64_t{groups} * form.operands(); } // of 16 bytes
  __host__ __device__ int32_t factor_bytes() const { return form.parts > 1 ? 2 : bytes; }
};

// Element i of the operands: of [group][part][step][tile][lane] the words of two filters of a tile, first of the one
// half of the lane's unit, then of the other.
__device__ float operand_weight(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int64_t i,
                                int32_t *part) {
  const int32_t in_word = 4 / b.factor_bytes();
  auto rest = static_cast<int32_t>(i / in_word);
  const int32_t word = rest % 4, lane = (rest /= 4) % 32, tile = (rest /= 32) % b.form.tiles;
  const int32_t step = (rest /= b.form.tiles) % b.form.steps, group = (rest /= b.form.steps) / b.form.parts;
  *part = rest % b.form.parts;
  const int32_t unit = step * 4 + lane % 4, tap = unit / b.units;
  const int64_t k =
      group * 16 * b.form.tiles + filter_of(tile * 2 + word % 2, lane / 4, vector_of(b.form.tiles, b.bytes));
  const int64_t c = (unit - tap * b.units) * 2 * in_word + word / 2 * in_word + i % in_word;
  int64_t taps[] = {raw.size[2], raw.size[3], raw.size[4]};
  taps[b.axis] /= b.folded;
  if (k >= raw.size[0] || c >= raw.size[1] * b.folded || tap >= taps[0] * taps[1] * taps[2]) return 0.0f;
  const int64_t line = tap / taps[2];
  int64_t at[] = {line / taps[1], line % taps[1], tap % taps[2]};
  at[b.axis] = at[b.axis] * b.folded + c / raw.size[1];
  return load<float>(from, type, raw.at(k, c % raw.size[1], at[0], at[1], at[2]));
}

__global__ void pack_weights(const __grid_constant__ View<int64_t> raw, const __grid_constant__ Packing b,
                             const void *from, int32_t type, void *to) {
  const int64_t operands = b.operands() * 16 / b.factor_bytes();
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < operands + b.exact;
       i += int64_t{gridDim.x} * blockDim.x) {
    if (i >= operands) {
      static_cast<float *>(to)[b.operands() * 4 + i - operands] =
          load<float>(from, type, raw.at(raw.along_w(i - operands)));
      continue;
    }
    int32_t part;
    const float v = operand_weight(b, raw, from, type, i, &part);
    if (b.form.parts > 1)
      static_cast<__nv_bfloat16 *>(to)[i] = tensor::part_of(v, part);
    else if (type == POLYCONV_F32)
      static_cast<uint32_t *>(to)[i] = tensor::rounded_to_tf32(__float_as_uint(v));
    else
      store(to, type, i, v);
  }
}

// ---------------------------------------------------------------- plan and run

class FewIn final : public CudaInstance {
 public:
  FewIn(const polyconv_request &request, Products products, int outputs)
      : CudaInstance(request), choice_(choose(layer_, products, outputs)) {
    if (choice_.variant == nullptr)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-tensor/few_in: no way through this layer");
    const DeviceScope scope(device_);
    for (const auto kernel : choice_.variant->kernels)
      if (kernel != nullptr) allow_shared(kernel, kLentShared);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    const Packing packing(layer_, choice_);
    pack_weights<<<blocks_for(packing.operands() * 8 + packing.exact, 256), 256, 0, stream>>>(
        View<int64_t>(layer_.weights), packing, raw, layer_.weights.type, packed);
    check_launch("the packing of cuda-tensor/few_in");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Pointers p = {};
    p.x = begin_of(layer_.input, a.input);
    p.weights = static_cast<const uint4 *>(a.weights[0]);
    p.exact = reinterpret_cast<const float *>(p.weights + Packing(layer_, choice_).operands());
    p.bias = layer_.epilogue.has_bias ? static_cast<const float *>(a.bias[0]) : nullptr;
    p.y = begin_of(layer_.result, a.output);
    Geometry g = choice_.geometry;
    Ends ends = choice_.ends;
    if (ends == kTogether && !aligned(p.y, 16)) ends = kSingly;
    if (!aligned(p.y, 4)) g.in_pairs = 0;
    if (!aligned(p.x, 16)) g.whole = 0;
    launch_waiting(choice_.variant->kernels[ends], static_cast<unsigned>(choice_.blocks), kThreads,
                   static_cast<size_t>(choice_.shared), stream, g, p);
  }

  const Choice choice_;
};

bool takes(const polyconv_request &request, Products products, sdk::Offer &offer) {
  if (!few::takes(request, offer, true)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.result.type != l.input.type || l.weights.type != l.input.type)
    return offer.reject("takes one type for input, weights and output");
  if (!takes_channels_last(products != Products::kEmulated || l.result.stride[1] == 1 || l.result.size[1] <= 1, offer,
                           "writes channels last"))
    return false;
  if (!takes_int32(l, offer)) return false;
  return true;
}

} // namespace

bool supports(const polyconv_request &request, Products products, int32_t config, sdk::Offer &offer) {
  if (!takes(request, products, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const auto choice_of = [&](int32_t i) { return choose(l, products, kOutputs[i]); };
  if (!offer_cheapest(kConfigCount, config, offer, [&](int32_t i) { return choice_of(i).us; }))
    return offer.reject("has no instance for %" PRId64 " channels and %" PRId64 "x%" PRId64 "x%" PRId64
                        " taps, or no place for a patch of the input in %d KiB",
                        l.weights.size[1], l.weights.size[2], l.weights.size[3], l.weights.size[4], kLentShared / 1024);
  const Choice best = choice_of(offer.config);
  const Packing packing(l, best);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "few_in_%d.%d.%d.%d_%d.%d.%d:1", packing.factor_bytes(),
                best.variant->form.steps, best.variant->form.tiles, best.variant->form.parts, packing.units,
                packing.folded, packing.axis);
  offer.set_weights(0, format, packing.operands() * 16 + packing.exact * 4);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, Products products, int32_t config) {
  return std::make_unique<FewIn>(request, products, kOutputs[config]);
}

} // namespace polyconv::cuda::few_in
