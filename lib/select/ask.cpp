// ask.cpp - the call of supports and the sanity of its answer.
// SPDX-License-Identifier: Apache-2.0
#include "select/ask.hpp"

#include "problem/traits.hpp"
#include "select/options.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace polyconv {
namespace {

constexpr int64_t kAbsurdBytes = int64_t{1} << 56; // sums of a few sizes below it cannot overflow

bool terminated(const char *text, size_t size) {
  return std::memchr(text, '\0', size) != nullptr;
}

// The weights formats of an accepting offer.
bool check_formats(const KernelEntry &entry, const polyconv_layer *layers, int32_t count, polyconv_offer *offer) {
  for (int32_t layer = 0; layer < count; ++layer) {
    const char *format = offer->weights_format[layer];
    if (!terminated(format, POLYCONV_FORMAT_SIZE) || format[0] == '\0')
      return reject_offer(offer, "defect: it names no weights format for layer %d", static_cast<int>(layer));
    if (std::strcmp(format, POLYCONV_FORMAT_RAW) == 0) continue;
    const int64_t bytes = offer->weights_bytes[layer];
    if (bytes <= 0 || bytes > kAbsurdBytes)
      return reject_offer(offer, "defect: its packed weights take %lld bytes", static_cast<long long>(bytes));
    if (layers[layer].direction == POLYCONV_BACKWARD_WEIGHTS)
      return reject_offer(offer, "defect: it wants packed weights where weights are written");
    if (entry.kernel->pack == nullptr) return reject_offer(offer, "defect: it wants packed weights and cannot pack");
  }
  return true;
}

bool check_answer(const KernelEntry &entry, int32_t op, const polyconv_layer *layers, int32_t count,
                  const polyconv_policy &policy, int32_t config, polyconv_offer *offer) {
  const bool empty = layers[0].input.size[0] == 0;
  if (offer->config < 0 || offer->config >= entry.kernel->config_count)
    return reject_offer(offer, "defect: it chose config %d of %d", static_cast<int>(offer->config),
                        static_cast<int>(entry.kernel->config_count));
  if (config >= 0 && offer->config != config)
    return reject_offer(offer, "defect: asked about config %d it answered about %d", static_cast<int>(config),
                        static_cast<int>(offer->config));
  if (!std::isfinite(offer->estimate_us) || offer->estimate_us < 0 || (offer->estimate_us <= 0 && !empty))
    return reject_offer(offer, "defect: it estimates %g us", offer->estimate_us);
  if (offer->workspace_bytes < 0 || offer->workspace_bytes > kAbsurdBytes)
    return reject_offer(offer, "defect: it wants %lld bytes of workspace",
                        static_cast<long long>(offer->workspace_bytes));
  if (offer->recomputed_outputs < 0 || offer->blocks < 0 || offer->shared_bytes < 0 || offer->threads < 0 ||
      !(offer->occupancy >= 0 && offer->occupancy <= 1))
    return reject_offer(offer,
                        "defect: it tells of %lld outputs computed again, %lld blocks of %d threads with %lld "
                        "bytes, occupancy %g",
                        static_cast<long long>(offer->recomputed_outputs), static_cast<long long>(offer->blocks),
                        static_cast<int>(offer->threads), static_cast<long long>(offer->shared_bytes),
                        static_cast<double>(offer->occupancy));
  if (offer->math < POLYCONV_MATH_STRICT || offer->math > policy.math)
    return reject_offer(offer, "would enter math mode %s, which nobody asked for", math_name(offer->math));
  return op != POLYCONV_OP_CONVOLVE || check_formats(entry, layers, count, offer);
}

// Kernels hear of no layer with a trait that they do not declare. A pooling that they do not take may be a step of its
// own; select/select.cpp knows what to do about memory.
bool takes_traits(const KernelEntry &entry, const polyconv_layer *layers, int32_t count, polyconv_offer *offer) {
  uint64_t missing = 0;
  for (int32_t layer = 0; layer < count; ++layer) missing |= layers[layer].traits & ~takes_of(*entry.kernel);
  if (missing == 0) return true;
  offer->rejects_pooling = (missing & kPoolingTraits) != 0 ? 1 : 0;
  return reject_offer(offer, "takes no %s", trait_words(missing));
}

bool ask(const KernelEntry &entry, int32_t op, const polyconv_layer *layers, int32_t count,
         const polyconv_policy &policy, int32_t config, polyconv_offer *offer) {
  const polyconv_layer *pointers[POLYCONV_MAX_CHAIN];
  for (int32_t layer = 0; layer < count; ++layer) pointers[layer] = layers + layer;
  polyconv_request request = {};
  request.struct_size = sizeof request;
  request.op = op;
  request.count = count;
  request.layers = pointers;
  request.policy = &policy;
  std::memset(offer, 0, sizeof *offer);
  offer->struct_size = sizeof *offer;
  if (!takes_traits(entry, layers, count, offer)) return false;
  polyconv_status status = POLYCONV_INTERNAL;
  try {
    status = entry.kernel->supports(entry.kernel, &request, config, offer);
  } catch (...) { // against the ABI's rules, and no reason to fall
    return reject_offer(offer, "defect: supports threw an exception");
  }
  if (!terminated(offer->note, sizeof offer->note)) offer->note[sizeof offer->note - 1] = '\0';
  if (status == POLYCONV_SUCCESS) return check_answer(entry, op, layers, count, policy, config, offer);
  if (!terminated(offer->reason, sizeof offer->reason)) offer->reason[sizeof offer->reason - 1] = '\0';
  if (status != POLYCONV_UNSUPPORTED)
    return reject_offer(offer, "defect: supports returned status %d (%s)", static_cast<int>(status),
                        polyconv_status_string(status));
  if (offer->reason[0] == '\0') return reject_offer(offer, "rejected without a reason");
  return false;
}

} // namespace

bool ask_supports(const KernelEntry &entry, int32_t op, const polyconv_layer *layers, int32_t count,
                  const polyconv_policy &policy, int32_t config, polyconv_offer *offer) {
  if (ask(entry, op, layers, count, policy, config, offer)) return true;
  offer->config = std::max(config, 0); // what a rejected answer says may be no config at all, and have no name
  return false;
}

bool reject_offer(polyconv_offer *offer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(offer->reason, sizeof offer->reason, format, arguments);
  va_end(arguments);
  return false;
}

} // namespace polyconv
