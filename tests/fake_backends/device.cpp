// device.cpp - a backend for devices of kind "fake", which have memory of their own, with four kernels: raw weights,
// packed weights, packed weights taken along from the host at the call of run, and one that must be bound to its
// pointers first. All are asynchronous.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include <vector>

#include "device_memory.hpp"
#include "fake_direct.hpp"

namespace {

using namespace fake;

size_t tensor_bytes(const polyconv_tensor &tensor) {
  return static_cast<size_t>(elements(tensor)) * sizeof(float);
}

// The pointers of one run, as the device sees them. Strided tensors are checked up to their dense size only.
struct Operands {
  const float *input, *weights, *bias;
  float *output;
};

Operands resolve_all(const polyconv_layer &l, int device, const polyconv_arguments &a, bool hosted) {
  const size_t bias_bytes = l.epilogue.has_bias ? static_cast<size_t>(l.output.size[kC]) * sizeof(float) : 0;
  return {
      static_cast<const float *>(resolve(device, a.input, tensor_bytes(l.input), "input")),
      hosted ? nullptr : static_cast<const float *>(resolve(device, a.weights[0], tensor_bytes(l.weights), "weights")),
      static_cast<const float *>(resolve(device, a.bias[0], bias_bytes, "bias")),
      static_cast<float *>(resolve(device, a.output, tensor_bytes(l.result), "output"))};
}

enum class Form { raw, packed, hosted, bound };

class Convolution final : public Instance {
 public:
  Convolution(const polyconv_request &request, Form form)
      : layer_(std::make_shared<polyconv_layer>(*request.layers[0])),
        device_(request.policy->device_index),
        form_(form) {}

  void pack(int, const void *raw, void *packed, void *stream) override {
    const auto *from = static_cast<const float *>(resolve(device_, raw, tensor_bytes(layer_->weights), "raw weights"));
    auto *to = static_cast<float *>(resolve(device_, packed, tensor_bytes(layer_->weights), "packed weights"));
    enqueue(device_, stream, [layer = layer_, from, to] { pack_negated(layer->weights, from, to); });
  }

  void *bind(const polyconv_arguments &a) override {
    return form_ == Form::bound ? new Operands(resolve_all(*layer_, device_, a, false)) : nullptr;
  }

  void unbind(void *bound) override { delete static_cast<Operands *>(bound); }

  void run(const polyconv_arguments &a, void *stream) const override {
    if (form_ == Form::bound && a.bound == nullptr)
      throw Error(POLYCONV_INTERNAL, "the kernel was run without binding");
    const Operands o = form_ == Form::bound ? *static_cast<Operands *>(a.bound)
                                            : resolve_all(*layer_, device_, a, form_ == Form::hosted);
    const bool packed = form_ == Form::packed;
    count_run(device_);
    if (form_ == Form::hosted) {
      const auto *weights = static_cast<const float *>(a.weights[0]); // read here, and needed no more after run
      const std::vector<float> taken(weights, weights + elements(layer_->weights));
      enqueue(device_, stream, [layer = layer_, o, taken] {
        convolve(*layer, o.input, NegatedWeights{layer->weights, taken.data()}, o.bias, o.output);
      });
      return;
    }
    enqueue(device_, stream, [layer = layer_, o, packed] {
      if (packed) {
        convolve(*layer, o.input, NegatedWeights{layer->weights, o.weights}, o.bias, o.output);
      } else {
        convolve(*layer, o.input, RawWeights{layer->weights, o.weights}, o.bias, o.output);
      }
    });
  }

 private:
  std::shared_ptr<const polyconv_layer> layer_; // shared with work that is still to be done
  int device_;
  Form form_;
};

bool supports(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer, not %d", static_cast<int>(request.count));
  return takes(*request.layers[0], offer);
}

bool supports_packed(const polyconv_request &request, int32_t config, Offer &offer) {
  if (!supports(request, config, offer)) return false;
  offer.set_weights(0, "fake_device:1", negated_bytes(request.layers[0]->weights));
  offer.estimate_us *= 2;
  return true;
}

bool supports_hosted(const polyconv_request &request, int32_t config, Offer &offer) {
  if (request.policy->dynamic_weights != 0) return offer.reject("takes weights along at the call of run");
  if (!supports_packed(request, config, offer)) return false;
  offer.set_weights(0, "fake_device_hosted:1", offer.weights_bytes[0]);
  offer.estimate_us *= 2;
  return true;
}

template <Form form>
std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<Convolution>(request, form);
}

const char *const kConfigs[] = {"only"};
const Kernel kDirect = {"direct", 0, kConfigs, 1, supports, create<Form::raw>};
const Kernel kPacked = {"packed", 0, kConfigs, 1, supports_packed, create<Form::packed>};
const Kernel kHosted = {"hosted", POLYCONV_KERNEL_HOST_WEIGHTS, kConfigs, 1, supports_hosted, create<Form::hosted>};
const Kernel kBound = {"bound", POLYCONV_KERNEL_NEEDS_BIND, kConfigs, 1, supports, create<Form::bound>};

polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

} // namespace

POLYCONV_DEFINE_BACKEND({FAKE_NAME, "1", "fake", {&kDirect, &kPacked, &kBound, &kHosted}, probe, &device_table})
