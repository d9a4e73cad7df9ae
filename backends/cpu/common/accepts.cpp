// accepts.cpp - see accepts.hpp. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/accepts.hpp"

#include "cpu/common/count.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

using namespace sdk;

// Of an image in elements, with a vector beside each row and channel, times taps: 2^52, so that kernels may multiply
// that by bytes, rows of a block and channels of a panel.
constexpr double kMostProducts = 4503599627370496.0;
constexpr int64_t kMostTaps = int64_t{1} << 24;   // that tables list
constexpr int64_t kMostListed = int64_t{1} << 24; // channels of a pixel of padding: 128 MiB
constexpr int64_t kVector = 64;
constexpr int64_t kAlwaysWalked = int64_t{1} << 16, kAlwaysFolded = int64_t{1} << 12; // coordinates of an axis
constexpr int64_t kWalkedMore = 16;                                                   // than are read and written
constexpr int64_t kTaskBytes = 16 << 20, kElementBytes = 64; // of workspace: for a thread, and for each element

int64_t padded(const polyconv_layer &l, int axis) {
  return l.input.size[kD + axis] + l.pad_begin[axis] + l.pad_end[axis];
}

// Coordinates that an axis reads and writes, each output's taps counted.
double used(const polyconv_layer &l, int axis) {
  return real(l.input.size[kD + axis]) + real(l.output.size[kD + axis]) * real(l.weights.size[kD + axis]);
}

} // namespace

bool counts_in_64_bits(const polyconv_layer &l, Offer &offer) {
  if (taps(l) > kMostTaps)
    return offer.reject("lists taps: takes %" PRId64 " at most, not %" PRId64, kMostTaps, taps(l));
  double products = real(std::max(l.input.size[kC], l.output.size[kC]) + kVector) * real(taps(l));
  for (int axis = 0; axis < 3; ++axis) products *= real(padded(l, axis) + (axis == 2 ? kVector : 1));
  return products <= kMostProducts ||
         offer.reject("counts in 64 bits what it may bring in: %g elements, taps and lanes here, at most %g", products,
                      kMostProducts);
}

bool walks_near(const polyconv_layer &l, Offer &offer) {
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t outputs = std::max<int64_t>(l.output.size[kD + axis] - 1, 0);
    const int64_t walked = outputs * l.stride[axis] + (l.weights.size[kD + axis] - 1) * l.dilation[axis] + 1;
    if (walked > kAlwaysWalked && real(walked) > kWalkedMore * used(l, axis))
      return offer.reject("walks every coordinate between taps: %" PRId64 " along an axis here, for %g that are used",
                          walked, used(l, axis));
  }
  return true;
}

bool folds_near(const polyconv_layer &l, Offer &offer) {
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t pads = l.pad_begin[axis] + l.pad_end[axis];
    if (pads > kAlwaysFolded && real(pads) > kWalkedMore * used(l, axis))
      return offer.reject("folds every coordinate of the padding back: %" PRId64
                          " along an axis here, of which %g are "
                          "used",
                          pads, used(l, axis));
  }
  return true;
}

bool fits_workspace(const polyconv_request &request, int64_t tasks, int64_t bytes, Offer &offer) {
  const polyconv_policy &policy = *request.policy;
  const double wanted = real(tasks) * real(bytes);
  double most = real(policy.workspace_limit);
  if (request.count == 1) {
    const polyconv_layer &l = *request.layers[0];
    const double all = real(elements(l.input)) + real(elements(l.weights)) + real(elements(l.output));
    const double near = real(std::max(policy.threads, 1)) * (real(kTaskBytes) + real(kElementBytes) * all);
    if (wanted > near && wanted <= most)
      return offer.reject("needs %.0f bytes of workspace, out of proportion to tensors of %g elements", wanted, all);
  }
  most = std::min(most, 9e18);
  if (wanted > most) return offer.reject("needs %.0f bytes of workspace; the limit is %.0f", wanted, most);
  offer.workspace_bytes = tasks * bytes;
  return true;
}

bool takes_one_layer(const polyconv_request &request, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("convolves; it neither pools nor converts alone");
  if (request.count != 1) return offer.reject("takes one layer, not a chain of %d", request.count);
  if (!counts_in_64_bits(*request.layers[0], offer)) return false;
  offer.math = POLYCONV_MATH_STRICT;
  return true;
}

bool takes_strips(const polyconv_request &request, Offer &offer) {
  return takes_one_layer(request, offer) && walks_near(*request.layers[0], offer);
}

bool takes_strips(const polyconv_request &request, int32_t direction, Offer &offer) {
  return takes_strips(request, offer) && goes(direction, *request.layers[0], offer);
}

bool goes(int32_t direction, const polyconv_layer &layer, Offer &offer) {
  if (layer.direction == direction) return true;
  return offer.reject(direction == POLYCONV_FORWARD ? "takes forward convolutions, no gradients"
                                                    : "computes weight gradients only");
}

bool wants_layout(int32_t layout, const char *reason, Offer &offer) {
  offer.wants_layout = 1 + layout;
  return offer.reject("%s", reason);
}

void set_weights(Offer &offer, int64_t bytes, const char *format, ...) {
  char text[POLYCONV_FORMAT_SIZE];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  offer.set_weights(0, text, bytes);
}

bool can_list_a_pixel(const polyconv_layer &layer, Offer &offer) {
  const int64_t channels = layer.input.size[kC];
  return channels <= kMostListed ||
         offer.reject("lists a pixel of padding: takes %" PRId64 " channels at most, not %" PRId64, kMostListed,
                      channels);
}

bool takes_no_pooling(const polyconv_layer &layer, Offer &offer) {
  if (!has_pooling(layer)) return true;
  offer.rejects_pooling = 1;
  return offer.reject("stores what it sums; pooling is a step of its own");
}

} // namespace polyconv::cpu
