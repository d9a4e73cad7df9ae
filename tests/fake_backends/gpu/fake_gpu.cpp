// fake_gpu.cpp - a GPU for the provider's tests: memory that the host cannot read and streams that do nothing until
// somebody waits (tests/fake_backends/device_memory.hpp), on which the reference's kernels compute. It is a backend of
// kind "cuda" and the provider's library of operators in one file, so that both know the same memory.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/half.hpp>

#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <vector>

#include "../device_memory.hpp"
#include "cuda/element.hpp"

namespace {

using polyconv::sdk::detail::guarded;

constexpr char kFormat[] = "fake_gpu:1"; // raw weights, in another place

// One kernel of the reference under this backend's name for it.
struct Wrapped : polyconv_kernel {
  const polyconv_kernel *inner;
};

const Wrapped &wrapped(const polyconv_kernel *self) {
  return *static_cast<const Wrapped *>(self);
}

size_t bytes_of(const polyconv_tensor &tensor) {
  size_t count = 1;
  for (int64_t size : tensor.size) count *= static_cast<size_t>(size);
  return count * polyconv_type_size(tensor.type);
}

struct Instance {
  const polyconv_kernel *kernel;
  std::shared_ptr<void> inner; // shared with work that is still to be done
  int device;
  size_t weights_bytes;
};

const char *config_name(const polyconv_kernel *self, int32_t config) {
  return wrapped(self).inner->config_name(wrapped(self).inner, config);
}

// Packs the weights of layers on their own, so that packed and raw ones are both met: those of chains stay raw.
bool packs(const polyconv_request &request) {
  return request.op == POLYCONV_OP_CONVOLVE && request.count == 1 && request.layers[0]->direction == POLYCONV_FORWARD &&
         request.layers[0]->weights.offset == 0;
}

polyconv_status supports(const polyconv_kernel *self, const polyconv_request *request, int32_t config,
                         polyconv_offer *offer) {
  const polyconv_kernel *inner = wrapped(self).inner;
  const polyconv_status status = inner->supports(inner, request, config, offer);
  if (status == POLYCONV_SUCCESS && packs(*request)) {
    std::strcpy(offer->weights_format[0], kFormat);
    offer->weights_bytes[0] = static_cast<int64_t>(bytes_of(request->layers[0]->weights));
  }
  return status;
}

polyconv_status create(const polyconv_kernel *self, const polyconv_request *request, int32_t config, void **instance) {
  const polyconv_kernel *inner = wrapped(self).inner;
  void *made = nullptr;
  const polyconv_status status = inner->create(inner, request, config, &made);
  if (status != POLYCONV_SUCCESS) return status;
  *instance = new Instance{inner,
                           {made, [inner](void *it) { inner->destroy(inner, it); }},
                           request->policy->device_index,
                           bytes_of(request->layers[0]->weights)};
  return POLYCONV_SUCCESS;
}

void destroy(const polyconv_kernel *, void *instance) {
  delete static_cast<Instance *>(instance);
}

polyconv_status pack(const polyconv_kernel *, void *instance, int32_t, const void *raw, void *packed, void *stream) {
  return guarded([&] {
    const Instance &it = *static_cast<Instance *>(instance);
    const void *from = fake::resolve(it.device, raw, it.weights_bytes, "raw weights");
    void *to = fake::resolve(it.device, packed, it.weights_bytes, "packed weights");
    fake::enqueue(it.device, stream, [=, bytes = it.weights_bytes] { std::memcpy(to, from, bytes); });
  });
}

polyconv_status run(const polyconv_kernel *, void *instance, const polyconv_arguments *arguments, void *stream) {
  return guarded([&] {
    const Instance &it = *static_cast<Instance *>(instance);
    polyconv_arguments there = *arguments;
    auto resolve = [&](auto &pointer, const char *name) {
      if (pointer)
        pointer = const_cast<std::remove_const_t<std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>> *>(
            fake::resolve(it.device, pointer, 1, name));
    };
    resolve(there.input, "input"), resolve(there.output, "output"), resolve(there.workspace, "workspace");
    for (int i = 0; i < POLYCONV_MAX_CHAIN; ++i) {
      resolve(there.weights[i], "weights"), resolve(there.bias[i], "bias"), resolve(there.scale[i], "scale");
      resolve(there.residual[i], "residual"), resolve(there.saved[i], "saved"), resolve(there.slope[i], "slope");
      resolve(there.weights_zero_point[i], "weights_zero_point");
    }
    fake::count_run(it.device);
    fake::enqueue(it.device, stream,
                  [kernel = it.kernel, inner = it.inner, there] { kernel->run(kernel, inner.get(), &there, nullptr); });
  });
}

// ---------------------------------------------------------------- operators

using namespace polyconv_ort;

struct Half {
  static float load(const void *data, int64_t i) {
    return polyconv::sdk::to_float(static_cast<const polyconv::sdk::f16 *>(data)[i]);
  }
  static void store(void *data, int64_t i, float value) {
    static_cast<polyconv::sdk::f16 *>(data)[i] = polyconv::sdk::to_f16(value);
  }
};

// A number for text(), whose sentence the tests may read.
template <class Body>
int told(const Body &body) {
  try {
    body();
    return 0;
  } catch (const std::exception &) {
    return 1;
  }
}

int loop(int device, const DeviceLoop *given, void *stream) {
  return told([&] {
    DeviceLoop made = *given;
    made.result = fake::resolve(device, made.result, 1, "result");
    for (int i = 0; i < made.operand_count; ++i)
      made.operands[i].data = fake::resolve(device, made.operands[i].data, 1, "operand");
    fake::enqueue(device, stream, [made] {
      const int64_t count = elements_of(made);
      for (int64_t i = 0; i < count; ++i)
        if (is_small(made))
          run_element<Half, int32_t>(made, static_cast<int32_t>(i));
        else
          run_element<Half, int64_t>(made, i);
    });
  });
}

int average(int device, const DeviceAverage *given, void *stream) {
  return told([&] {
    DeviceAverage made = *given;
    made.from = fake::resolve(device, made.from, 1, "from"), made.to = fake::resolve(device, made.to, 1, "to");
    fake::enqueue(device, stream, [made] {
      for (int64_t i = 0; i < made.images * made.channels; ++i) {
        const int64_t first = i / made.channels * made.image_stride + i % made.channels * made.channel_stride;
        double sum = 0;
        for (int64_t k = 0; k < made.pixels; ++k)
          sum += Elements<Half>::load(made.element, made.from, first + k * made.pixel_stride);
        Elements<Half>::store(made.element, made.to, i, static_cast<float>(sum / static_cast<double>(made.pixels)));
      }
    });
  });
}

// ---------------------------------------------------------------- the backend

polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

// The reference's kernels under a table of this backend.
const polyconv_backend *make_backend(const polyconv_host *host) {
  void *library = dlopen(FAKE_GPU_REFERENCE, RTLD_NOW | RTLD_LOCAL);
  auto query = library ? reinterpret_cast<polyconv_backend_query>(dlsym(library, POLYCONV_BACKEND_ENTRY)) : nullptr;
  const polyconv_backend *reference = nullptr;
  if (!query || query(host, &reference) != POLYCONV_SUCCESS) return nullptr;
  static std::vector<Wrapped> kernels;
  static std::vector<const polyconv_kernel *> table;
  for (int32_t i = 0; i < reference->kernel_count; ++i) {
    Wrapped made = {*reference->kernels[i], reference->kernels[i]};
    made.flags = 0; // here it is no fallback
    made.config_name = config_name, made.supports = supports, made.create = create, made.destroy = destroy,
    made.pack = pack, made.run = run;
    made.bind = nullptr, made.unbind = nullptr, made.workspace = nullptr;
    kernels.push_back(made);
  }
  table.reserve(kernels.size());
  for (const Wrapped &kernel : kernels) table.push_back(&kernel);
  static polyconv_backend backend = *reference;
  backend.name = FAKE_NAME, backend.device_kind = "cuda", backend.probe = probe, backend.device = &fake::device_table;
  backend.kernels = table.data();
  return &backend;
}

} // namespace

extern "C" __attribute__((visibility("default"))) polyconv_status polyconv_backend_query_v1(
    const polyconv_host *host, const polyconv_backend **backend) {
  polyconv::sdk::host = host;
  static const polyconv_backend *made = make_backend(host);
  *backend = made;
  return made ? POLYCONV_SUCCESS : POLYCONV_UNAVAILABLE;
}

extern "C" __attribute__((visibility("default"))) const DevicePasses *polyconv_onnxruntime_passes() {
  static const DevicePasses passes = {kDevicePasses, loop, average,
                                      [](int) { return "a pointer is not of this GPU's memory"; }};
  return &passes;
}
