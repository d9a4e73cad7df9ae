// crashing_library.cpp - a backend that is called onednn and, as that one may, ends the process on some problems: those
// of seven channels while they are planned, those of five while they run, those of six when they have run before.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <polyconv/sdk/backend.hpp>

#include "../../fake_backends/fake_direct.hpp"

namespace {

using namespace fake;

class Convolution final : public Instance {
 public:
  explicit Convolution(const polyconv_layer &layer) : layer_(layer) {
    if (layer_.weights.size[kC] == 7) std::abort(); // not SIGSEGV, which a sanitizer would turn into an exit
  }
  void run(const polyconv_arguments &a, void *) const override {
    static std::atomic<int> runs{0};
    if (layer_.weights.size[kC] == 5) std::_Exit(3);
    if (layer_.weights.size[kC] == 6 && ++runs > 2) std::abort();
    convolve(layer_, static_cast<const float *>(a.input),
             RawWeights{layer_.weights, static_cast<const float *>(a.weights[0])},
             static_cast<const float *>(a.bias[0]), static_cast<float *>(a.output));
  }

 private:
  polyconv_layer layer_;
};

const char *const kConfigs[] = {"auto"};
const Kernel kConvolution = {"conv",
                             0,
                             kConfigs,
                             1,
                             [](const polyconv_request &request, int32_t, Offer &offer) {
                               if (request.op != POLYCONV_OP_CONVOLVE || request.count != 1)
                                 return offer.reject("convolves one layer");
                               return takes(*request.layers[0], offer);
                             },
                             [](const polyconv_request &request, int32_t) -> std::unique_ptr<Instance> {
                               return std::make_unique<Convolution>(*request.layers[0]);
                             }};

polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

} // namespace

POLYCONV_DEFINE_BACKEND({FAKE_NAME, "1.2.3", "cpu", {&kConvolution}, probe, nullptr, POLYCONV_BACKEND_ON_REQUEST})
