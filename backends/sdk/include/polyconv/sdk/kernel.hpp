// kernel.hpp - how a kernel is written: supports, create, pack, run; nothing of the C tables shows.
//
// A kernel file holds, in order: what it does and its floor, parameters, the kernel, supports, the instance,
// and one definition, `extern const Kernel kernel_<name>`. The backend's kernels.inc names it in one line.
// docs/add-a-kernel.md walks through one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>
#include <polyconv/sdk/printf.hpp>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace polyconv::sdk {

// Thrown by create, pack, bind or run; becomes the status and the sentence that the caller sees.
class Error : public std::runtime_error {
 public:
  Error(polyconv_status status, const std::string &sentence) : std::runtime_error(sentence), status_(status) {}
  polyconv_status status() const { return status_; }

 private:
  polyconv_status status_;
};

// The bytes of shared memory that a block may use, as the caller limits them; INT64_MAX where nobody does.
inline int64_t shared_memory_limit(const polyconv_policy &policy) {
  constexpr size_t kSize = offsetof(polyconv_policy, shared_memory_limit) + sizeof policy.shared_memory_limit;
  return policy.struct_size < kSize ? INT64_MAX : policy.shared_memory_limit;
}

// Whether weights are new in every run, so that packing them is part of it.
inline bool has_new_weights(const polyconv_policy &policy) {
  return policy.dynamic_weights == POLYCONV_WEIGHTS_NEW;
}
// For a kernel inside of another one, which packs for it: weights stay where they were packed.
inline polyconv_policy with_packed_weights(polyconv_policy policy) {
  policy.dynamic_weights = std::min<int32_t>(policy.dynamic_weights, POLYCONV_WEIGHTS_UPDATED);
  return policy;
}

// Puts text where `size` bytes are, cut to fit. A plan asks a hundred kernels, most of which only say no: printing
// their words took a fifth of its time.
inline void put_text(char *place, size_t size, const char *text) {
  const size_t length = std::min(std::strlen(text), size - 1);
  std::memcpy(place, text, length);
  place[length] = '\0';
}

// A kernel's answer to one request; starts as "no workspace, raw weights, strict".
struct Offer : polyconv_offer {
  // Says no, with a reason in words (printf-style, cut at POLYCONV_REASON_SIZE). Returns false: `return
  // offer.reject("takes f32, not %s", name)`.
  POLYCONV_PRINTF(2, 3) bool reject(const char *format, ...) {
    if (std::strchr(format, '%') == nullptr) {
      put_text(reason, sizeof reason, format);
      return false;
    }
    va_list list;
    va_start(list, format);
    std::vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    return false;
  }

  void set_weights(int layer, const char *format, int64_t bytes) {
    put_text(weights_format[layer], sizeof weights_format[layer], format);
    weights_bytes[layer] = bytes;
  }

  // How it runs this, for people (printf-style, cut at POLYCONV_NOTE_SIZE).
  POLYCONV_PRINTF(2, 3) void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    std::vsnprintf(note, sizeof note, format, list);
    va_end(list);
  }
};

// Whether a request is one convolution, no pooling or conversion of its own and no chain; else says why not.
inline bool convolves_once(const polyconv_request &request, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  return true;
}
// The same for a kernel that goes in one direction.
inline bool convolves_once(const polyconv_request &request, int32_t direction, Offer &offer) {
  if (!convolves_once(request, offer)) return false;
  if (request.layers[0]->direction == direction) return true;
  switch (direction) {
    case POLYCONV_FORWARD: return offer.reject("computes the output, not gradients");
    case POLYCONV_BACKWARD_DATA: return offer.reject("computes the input's gradient alone");
    default: return offer.reject("computes the gradient of weights alone");
  }
}

// What a plan keeps of a kernel. run may be called from several threads at once.
class Instance {
 public:
  virtual ~Instance() = default;
  virtual void pack(int layer, const void *raw, void *packed, void *stream) {
    (void)layer, (void)raw, (void)packed, (void)stream;
    throw Error(POLYCONV_INTERNAL, "this kernel takes raw weights and packs none");
  }
  virtual void *bind(const polyconv_arguments &arguments) {
    (void)arguments;
    return nullptr;
  }
  virtual void unbind(void *bound) { (void)bound; }
  virtual void run(const polyconv_arguments &arguments, void *stream) const = 0;
  // For kernels that learn only in create what they need: at most what supports offered. -1: exactly that.
  virtual int64_t workspace_bytes() const { return -1; }
};

// What a kernel takes whose results leave by common code, and so through every activation.
inline constexpr uint64_t kActivationTraits = POLYCONV_TRAIT_ELU | POLYCONV_TRAIT_GELU_TANH | POLYCONV_TRAIT_PRELU;

struct Kernel {
  const char *name;
  uint32_t flags; // POLYCONV_KERNEL_*
  const char *const *configs;
  int32_t config_count;
  // True: offer is filled (estimate_us > 0 at least). False: offer.reject was called. config -1: choose, and
  // set offer.config.
  bool (*supports)(const polyconv_request &request, int32_t config, Offer &offer);
  std::unique_ptr<Instance> (*create)(const polyconv_request &request, int32_t config);
  // POLYCONV_TRAIT_* of unusual layers that it handles; of others it never hears.
  uint64_t takes = 0;
};

} // namespace polyconv::sdk
