// texture.cpp - forward 2D for images, few channels and depthwise, with the input read through the texture unit: it
// turns coordinates into addresses, knows the border, widens f16, and caches in two dimensions. A thread marches down
// the image: it fetches each row of its columns once, and keeps the sums of all rows of outputs that it is under.
//
// What is taught where (configs):
//   plane_*   a 2D object over each channel of each image, in place (cudaResourceTypePitch2D). The border is free: zero
//             is address mode border, replicate clamp, symmetric mirror, circular wrap (normalised coordinates).
//   linear_*  a 1D object over the whole tensor (cudaResourceTypeLinear) and an index map in shared memory: any
//             padding, pitch, stride and batch. plane_* runs on it too where the input is not at 512 bytes.
// The numbers are rows x columns of a thread's outputs, and the threads side by side in a block.
//
// Floor: max(2 N K P Q C R S / FMA rate, compulsory bytes / copy rate, fetches / texel rate). With q columns and t rows
// a thread fetches (q + S - 1)(t + R - 1) / (q t) texels an output: 1.9 for 7 x 7 by 8 columns and 64 rows. 2D fetches
// reach 850 Gtexel/s where lanes are neighbours, 250 to 400 where they are 8 or 4 columns apart, 1D ones 900 to 1200.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/host.hpp"
#include "launch.hpp"
#include "texture_cost.hpp"

namespace polyconv::cuda {
namespace {

using namespace texture;

struct Config {
  const char *name;
  Path path;
  Patch patch;
  int32_t width, threads; // of a block
};
constexpr Config kConfigs[] = {
    {"plane_8x4_w32", kPlane, {8, 4}, 32, 128},     {"plane_32x4_w25", kPlane, {32, 4}, 25, 100},
    {"plane_32x4_w32", kPlane, {32, 4}, 32, 128},   {"plane_8x8_w8", kPlane, {8, 8}, 8, 128},
    {"plane_32x8_w8", kPlane, {32, 8}, 8, 128},     {"plane_32x8_w32", kPlane, {32, 8}, 32, 128},
    {"plane_64x8_w32", kPlane, {64, 8}, 32, 128},   {"linear_1x1_w32", kLinear, {1, 1}, 32, 128},
    {"linear_8x4_w32", kLinear, {8, 4}, 32, 128},   {"linear_32x4_w25", kLinear, {32, 4}, 25, 100},
    {"linear_32x4_w32", kLinear, {32, 4}, 32, 128}, {"linear_8x8_w8", kLinear, {8, 8}, 8, 128},
    {"linear_32x8_w8", kLinear, {32, 8}, 8, 128},   {"linear_32x8_w32", kLinear, {32, 8}, 32, 128},
    {"linear_64x8_w32", kLinear, {64, 8}, 32, 128},
};
constexpr int kConfigCount = sizeof kConfigs / sizeof kConfigs[0];

constexpr int64_t kMostSize = 31; // of a filter, either way

// The size of filters that are unrolled, 0 for a loop over taps.
int unrolled_size(const polyconv_layer &l) {
  const int64_t n = l.weights.size[3];
  const bool simple = l.stride[1] == 1 && l.stride[2] == 1 && l.dilation[1] == 1 && l.dilation[2] == 1;
  return simple && n == l.weights.size[4] && (n == 3 || n == 5 || n == 7) ? static_cast<int>(n) : 0;
}

bool integer_texels(const polyconv_layer &l) {
  return l.input.type != POLYCONV_F32 && l.input.type != POLYCONV_F16;
}

Store store_of(const polyconv_layer &l) {
  if (!bias_and_relu_at_most(l)) return kStoreAny;
  const polyconv_epilogue &e = l.epilogue;
  switch (l.result.type) {
    case POLYCONV_F32: return kStoreF32;
    case POLYCONV_F16: return kStoreF16;
    case POLYCONV_U8: return e.out_scale == 1.0f && e.out_zero_point == 0 ? kStoreU8 : kStoreAny;
    default: return kStoreAny;
  }
}

LaunchFunction instance_for(const polyconv_layer &l, Path path, const Patch &patch) {
  const Wanted wanted = {path, patch, store_of(l), integer_texels(l), l.weights.size[1] == 1};
  switch (unrolled_size(l)) {
    case 3: return find_instance<3>(wanted);
    case 5: return find_instance<5>(wanted);
    case 7: return find_instance<7>(wanted);
    default: return find_instance<0>(wanted);
  }
}

bool tile_of(const polyconv_layer &l, const Config &config, Tiling &t) {
  return fit_tiling(l, config.patch, config.width, config.threads, config.path == kPlane, t);
}

// ---------------------------------------------------------------- plan, bind and run

class Texture final : public CudaInstance {
 public:
  Texture(const polyconv_request &request, const Config &config)
      : CudaInstance(request),
        path_(config.path),
        on_plane_(instance_for(layer_, kPlane, config.patch)),
        on_linear_(instance_for(layer_, kLinear, config.patch)) {
    if (!tile_of(layer_, config, launch_.tile) || !on_linear_)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-texture/texture: no tiling for a problem that was accepted");
    launch_.images_an_object = static_cast<int32_t>(images_of_linear(layer_.input, launch_.tile.images));
    launch_.store = store_of(layer_);
    launch_.bf16 = layer_.input.type == POLYCONV_BF16 ? 1 : 0;
    for (int i = 0; i < 2; ++i)
      launch_.scale[i] = normalised(layer_) ? 1.0f / static_cast<float>(layer_.input.size[4 - i]) : 1.0f;
    launch_.shared = static_cast<int32_t>(4 * shared_floats(layer_, launch_.tile));
  }

  void *bind(const polyconv_arguments &a) override {
    const DeviceScope scope(device_);
    auto bound = std::make_unique<Bound>();
    if (path_ == kPlane && ObjectSet::planes_aligned(layer_, a.input)) {
      bound->launch = on_plane_;
      bound->set.add_planes(layer_, a.input);
    } else if (launch_.images_an_object > 0) {
      bound->launch = on_linear_;
      bound->set.add_linear(layer_, a.input, launch_.images_an_object);
    } else {
      throw sdk::Error(POLYCONV_INVALID_ARGUMENT,
                       "cuda-texture/texture: input does not begin at a multiple of 512 bytes, which a plane of more "
                       "than 2^27 elements must");
    }
    return bound.release();
  }

  void unbind(void *bound) override {
    const DeviceScope scope(device_);
    delete static_cast<Bound *>(bound);
  }

 private:
  struct Bound {
    LaunchFunction launch;
    ObjectSet set;
  };

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const auto &bound = *static_cast<const Bound *>(a.bound);
    bound.launch(Conv<int32_t>(layer_, a), launch_, bound.set.objects(), a.weights[0], layer_.weights.type, a.output,
                 stream);
  }

  const Path path_;
  const LaunchFunction on_plane_, on_linear_;
  Launch launch_ = {};
};

// ---------------------------------------------------------------- supports

bool takes_types(const polyconv_layer &l) {
  const int32_t x = l.input.type;
  return l.sum_type == POLYCONV_F32 && (is_single_or_half(x) || x == POLYCONV_U8 || x == POLYCONV_U16);
}

// The coordinates that outputs read stay within a period of the image: beyond, rounding might meet the next texel.
bool exact_normalised(const polyconv_layer &l) {
  for (int axis = 1; axis < 3; ++axis) {
    const int64_t size = l.input.size[2 + axis];
    const int64_t last = (l.output.size[2 + axis] - 1) * l.stride[axis] +
                         (l.weights.size[2 + axis] - 1) * l.dilation[axis] - l.pad_begin[axis];
    if (size > kMostNormalised || l.pad_begin[axis] > size || last >= 2 * size) return false;
  }
  return true;
}

bool takes_planes(const polyconv_layer &l, sdk::Offer &offer) {
  const polyconv_tensor &t = l.input;
  const int64_t bytes = element_bytes(t.type), pitch = t.stride[3] * bytes, planes = t.size[0] * t.size[1];
  if (address_mode(l) < 0) return offer.reject("no address mode is reflect or a constant: linear_* map indices");
  if (normalised(l) && !exact_normalised(l))
    return offer.reject("mirrors and wraps images of up to %" PRId64 " and over one period only", kMostNormalised);
  if (planes > kMostObjects) return offer.reject("binds up to %d planes, not %" PRId64, kMostObjects, planes);
  if (t.size[4] > kMostPitch2D[0] || t.size[3] > kMostPitch2D[1])
    return offer.reject("binds planes of up to 131072 x 65000");
  if (t.size[4] > 1 && t.stride[4] != 1)
    return offer.reject("binds rows of neighbours, not of stride %" PRId64, t.stride[4]);
  if (t.size[3] > 1 && (pitch % kPitchAlignment != 0 || t.stride[3] < t.size[4]))
    return offer.reject("binds rows at multiples of 32 bytes, not of %" PRId64, pitch);
  for (int axis = 0; axis < 2; ++axis)
    if (t.size[axis] > 1 && t.stride[axis] * bytes % kBaseAlignment != 0)
      return offer.reject("binds planes at multiples of 512 bytes, not of %" PRId64, t.stride[axis] * bytes);
  return true;
}

bool takes_linear(const polyconv_layer &l, const Tiling &tile, sdk::Offer &offer) {
  const int64_t images = images_of_linear(l.input, tile.images);
  if (images == 0) return offer.reject("binds images of up to 2^27 elements");
  const int64_t objects = (l.input.size[0] + images - 1) / images;
  if (objects > kMostObjects) return offer.reject("binds up to %d objects, not %" PRId64, kMostObjects, objects);
  return true;
}

bool fill(const polyconv_layer &l, int32_t index, sdk::Offer &offer) {
  const Config &config = kConfigs[index];
  if (config.path == kPlane && !takes_planes(l, offer)) return false;
  Tiling tile;
  if (!tile_of(l, config, tile))
    return offer.reject("the weights of a filter (%" PRId64 ") or its index maps are too large",
                        l.weights.size[1] * sdk::taps(l));
  if (config.path == kLinear && !takes_linear(l, tile, offer)) return false;
  if (tile.blocks > INT32_MAX) return offer.reject("launches up to 2^31 blocks, not %" PRId64, tile.blocks);
  offer.estimate_us = estimate_us(l, config.path, config.patch, tile, unrolled_size(l));
  return true;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_images(takes_types(l), offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (std::max(l.weights.size[3], l.weights.size[4]) > kMostSize)
    return offer.reject("takes filters of up to %" PRId64 " taps an axis, not %" PRId64 " x %" PRId64, kMostSize,
                        l.weights.size[3], l.weights.size[4]);
  if (!takes_int32(l, offer)) return false;
  if (!takes_no_pooling(l, offer)) return false;
  return offer_filled(kConfigCount, config, offer, [&](int32_t i, sdk::Offer &o) { return fill(l, i, o); });
}

constexpr auto config_names() {
  struct Names {
    const char *of[kConfigCount];
  } names = {};
  for (int i = 0; i < kConfigCount; ++i) names.of[i] = kConfigs[i].name;
  return names;
}
constexpr auto kNames = config_names();

} // namespace

POLYCONV_DEFINE_KERNEL(texture, kNames.of, supports, instance_of<Texture, kConfigs>, POLYCONV_KERNEL_NEEDS_BIND);

} // namespace polyconv::cuda
