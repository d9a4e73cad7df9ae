// lenet_step.cpp - the steps beside the convolutions on the CPU. They are a few per cent of a training step, so that
// plain loops do.
// SPDX-License-Identifier: Apache-2.0
#include "lenet_step.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lenet {
namespace {

uint32_t bits_of(float v) {
  uint32_t bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
float from_bits(uint32_t bits) {
  float v = 0;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

// Rounds half to even; NaN stays NaN.
uint16_t to_bf16(float v) {
  const uint32_t bits = bits_of(v);
  if (v != v) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
uint16_t to_f16(float v) {
  const uint32_t bits = bits_of(v), magnitude = bits & 0x7fffffffu, sign = (bits >> 16) & 0x8000u;
  uint32_t result = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14 the unit in the last place of this sum is f16's denormal unit.
  if (magnitude < 0x38800000u) result = bits_of(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  if (magnitude >= 0x477ff000u) result = 0x7c00u; // 65520 and above round to infinity
  if (magnitude > 0x7f800000u) result = 0x7e00u;
  return static_cast<uint16_t>(result | sign);
}
float from_f16(uint16_t half) {
  const uint32_t magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
  // Shifted into place the exponent is 112 too small; one multiplication mends it, denormals included.
  const uint32_t finite = bits_of(from_bits(magnitude << 13) * 0x1p112f);
  return from_bits(sign | (magnitude >= 0x7c00u ? (magnitude << 13) | 0x7f800000u : finite));
}

float load(const void *from, int32_t type, int64_t i) {
  if (type == POLYCONV_F32) return static_cast<const float *>(from)[i];
  const uint16_t bits = static_cast<const uint16_t *>(from)[i];
  return type == POLYCONV_F16 ? from_f16(bits) : from_bits(static_cast<uint32_t>(bits) << 16);
}
void store(void *to, int32_t type, int64_t i, float v) {
  if (type == POLYCONV_F32)
    static_cast<float *>(to)[i] = v;
  else
    static_cast<uint16_t *>(to)[i] = type == POLYCONV_F16 ? to_f16(v) : to_bf16(v);
}

const char *draw(const Draw &d, void *) {
  const int64_t height = d.rows * d.repeat + 2 * d.border, width = d.columns * d.repeat + 2 * d.border;
  const int64_t batch = d.progress ? d.progress->batch : 0;
  for (int64_t i = 0; i < d.count; ++i) {
    const int64_t image = d.order[batch * d.count + i];
    const uint8_t *pixels = d.pixels + image * d.rows * d.columns;
    d.chosen[i] = d.labels[image];
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t row = y - d.border, column = x - d.border;
        const bool inside = row >= 0 && row < d.rows * d.repeat && column >= 0 && column < d.columns * d.repeat;
        const int64_t pixel = row / d.repeat * d.columns + column / d.repeat;
        const float v = inside ? static_cast<float>(pixels[pixel]) / 255 : 0;
        store(d.input, d.type, (i * height + y) * width + x, v);
      }
  }
  return nullptr;
}

const char *loss(const Loss &l, void *) {
  const int64_t batch = l.progress ? l.progress->batch : 0;
  double total = 0;
  int32_t hits = 0;
  for (int64_t i = 0; i < l.count; ++i) {
    const float *scores = l.scores + i * l.classes;
    const int32_t label = l.labels[i];
    const int64_t best = std::max_element(scores, scores + l.classes) - scores;
    float sum = 0;
    for (int64_t k = 0; k < l.classes; ++k) sum += std::exp(scores[k] - scores[best]);
    total += static_cast<double>(std::log(sum) + scores[best] - scores[label]);
    hits += best == label;
    if (l.guesses) l.guesses[batch * l.count + i] = static_cast<uint8_t>(best);
    for (int64_t k = 0; l.gradient && k < l.classes; ++k)
      l.gradient[i * l.classes + k] = (std::exp(scores[k] - scores[best]) / sum - (k == label ? 1.0f : 0.0f)) *
                                      (l.gradient_scale / static_cast<float>(l.count));
  }
  l.losses[batch] = total / static_cast<double>(l.count);
  l.hits[batch] = hits;
  return nullptr;
}

const char *update(const Update &u, void *) {
  const auto rate = static_cast<float>(u.progress->rate);
  const double steps = static_cast<double>(u.progress->update);
  const auto correct1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(kBeta1), steps)));
  const auto correct2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(kBeta2), steps)));
  for (int64_t i = 0; i < u.count; ++i) {
    const float g = u.gradients[i] / u.gradient_scale;
    if (u.optimiser == kMomentum) {
      u.first[i] = kMomentumDecay * u.first[i] + g;
      u.values[i] -= rate * u.first[i];
      continue;
    }
    u.first[i] = kBeta1 * u.first[i] + (1 - kBeta1) * g;
    u.second[i] = kBeta2 * u.second[i] + (1 - kBeta2) * g * g;
    u.values[i] -= rate * (u.first[i] * correct1) / (std::sqrt(u.second[i] * correct2) + kEpsilon);
  }
  return nullptr;
}

const char *convert(const void *from, int32_t from_type, void *to, int32_t to_type, int64_t count, void *) {
  for (int64_t i = 0; i < count; ++i) store(to, to_type, i, load(from, from_type, i));
  return nullptr;
}

const char *advance(Progress *progress, void *) {
  ++progress->batch;
  ++progress->update;
  return nullptr;
}

} // namespace

extern "C" const Steps *lenet_cpu_steps() {
  static const Steps steps = {draw, loss, update, convert, advance};
  return &steps;
}

} // namespace lenet
