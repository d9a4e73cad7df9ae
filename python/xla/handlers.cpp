// handlers.cpp - what XLA calls where a JAX program has a convolution by polyconv: two handlers of XLA's foreign
// function interface, for host memory and for CUDA's. polyconv/jax/ makes the calls and describes them: two arrays in,
// the result and scratch memory out, and the problem's token with the options of its plan as attributes.
//
// A plan is made in the first call of its sort and kept. Weights are packed in every call, into the scratch memory, as
// XLA's arrays have no identity that would tell whether they changed. Nothing here knows Python: polyconv/jax/_call.py
// opens the library by its path, and XLA calls it without the global lock.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>
#include <xla/ffi/api/ffi.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace {

namespace ffi = xla::ffi;

// How a plan is to be made, as the attributes of a call say.
struct Wanted {
  std::string device; // as polyconv_device_find takes it
  std::string_view token;
  int32_t math;
  int32_t determinism;
  int32_t threads;
};

struct Planned {
  polyconv_plan *plan = nullptr;
  polyconv_problem problem = {};
  int64_t workspace_bytes = 0;
  int64_t packed_bytes = 0; // 0 where weights are taken as they are
  int64_t bytes[3] = {};    // that input, weights and output span

  Planned() = default;
  Planned(const Planned &) = delete;
  Planned &operator=(const Planned &) = delete;
  ~Planned() { polyconv_plan_destroy(plan); }
};

ffi::Error failure(polyconv_status status) {
  const ffi::ErrorCode code = status == POLYCONV_INVALID_ARGUMENT ? ffi::ErrorCode::kInvalidArgument
                              : status == POLYCONV_OUT_OF_MEMORY  ? ffi::ErrorCode::kResourceExhausted
                              : status == POLYCONV_UNSUPPORTED    ? ffi::ErrorCode::kUnimplemented
                                                                  : ffi::ErrorCode::kInternal;
  return ffi::Error(code, std::string("polyconv: ") + polyconv_last_error());
}

ffi::Error wrong(const std::string &sentence) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, "polyconv: " + sentence);
}

polyconv_status make(const Wanted &wanted, Planned &made) {
  const polyconv_device *device = nullptr;
  polyconv_status status = polyconv_device_find(wanted.device.c_str(), &device);
  if (status != POLYCONV_SUCCESS) return status;
  status = polyconv_problem_parse(std::string(wanted.token).c_str(), &made.problem);
  if (status != POLYCONV_SUCCESS) return status;
  constexpr int32_t tensors[3] = {POLYCONV_TENSOR_INPUT, POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_OUTPUT};
  for (int i = 0; i < 3 && status == POLYCONV_SUCCESS; ++i)
    status = polyconv_problem_tensor(&made.problem, tensors[i], nullptr, &made.bytes[i]);
  if (status != POLYCONV_SUCCESS) return status;

  polyconv_options options;
  polyconv_options_init(&options);
  options.math = wanted.math;
  options.determinism = wanted.determinism;
  options.threads = wanted.threads;
  options.fallback = POLYCONV_FALLBACK_ERROR;
  if (made.problem.direction != POLYCONV_BACKWARD_WEIGHTS) options.dynamic_weights = POLYCONV_WEIGHTS_NEW;
  status = polyconv_plan_create(device, &made.problem, 1, &options, &made.plan);
  if (status != POLYCONV_SUCCESS) return status;
  polyconv_plan_info info = {};
  info.struct_size = sizeof info;
  status = polyconv_plan_get_info(made.plan, &info);
  if (status != POLYCONV_SUCCESS) return status;
  made.workspace_bytes = info.workspace_bytes;
  if (made.problem.direction == POLYCONV_BACKWARD_WEIGHTS) return POLYCONV_SUCCESS;
  const char *format = nullptr;
  status = polyconv_plan_weights(made.plan, 0, &format, &made.packed_bytes);
  if (status == POLYCONV_SUCCESS && std::string_view(format) == "raw") made.packed_bytes = 0;
  return status;
}

// The plan of a call: made once, and dropped when very many others came after it. Who runs one that is dropped holds
// it.
polyconv_status find(const Wanted &wanted, std::shared_ptr<const Planned> &found) {
  static auto *const mutex = new std::mutex(); // both outlive whatever calls while the process ends
  static auto *const plans = new std::unordered_map<std::string, std::shared_ptr<const Planned>>();
  constexpr size_t kMost = 4096;
  std::string key(wanted.token);
  key += ' ' + wanted.device + ' ' + std::to_string(wanted.math) + ' ' + std::to_string(wanted.determinism) + ' ' +
         std::to_string(wanted.threads);
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    const auto known = plans->find(key);
    if (known != plans->end()) {
      found = known->second;
      return POLYCONV_SUCCESS;
    }
  }
  auto made =
      std::make_shared<Planned>(); // outside the lock: two threads may make one plan twice, and one of them stays
  const polyconv_status status = make(wanted, *made);
  if (status != POLYCONV_SUCCESS) return status;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (plans->size() >= kMost) plans->clear();
  found = plans->emplace(std::move(key), std::move(made)).first->second;
  return POLYCONV_SUCCESS;
}

int64_t aligned(int64_t bytes) {
  return (bytes + POLYCONV_ALIGNMENT - 1) / POLYCONV_ALIGNMENT * POLYCONV_ALIGNMENT;
}

// Puts the arrays in their places, which are named as in the forward layer, and holds their sizes against the
// problem's.
ffi::Error place(const Planned &planned, ffi::AnyBuffer first, ffi::AnyBuffer second, ffi::AnyBuffer result,
                 polyconv_buffers &buffers) {
  const int32_t direction = planned.problem.direction;
  const ffi::AnyBuffer *const input = direction == POLYCONV_BACKWARD_DATA ? &result : &first;
  const ffi::AnyBuffer *const weights = direction == POLYCONV_BACKWARD_WEIGHTS ? &result : &second;
  const ffi::AnyBuffer *const output = direction == POLYCONV_FORWARD         ? &result
                                       : direction == POLYCONV_BACKWARD_DATA ? &first
                                                                             : &second;
  const ffi::AnyBuffer *const all[3] = {input, weights, output};
  constexpr const char *names[3] = {"input", "weights", "output"};
  for (int i = 0; i < 3; ++i)
    if (static_cast<int64_t>(all[i]->size_bytes()) != planned.bytes[i])
      return wrong(std::string(names[i]) + " has " + std::to_string(all[i]->size_bytes()) + " bytes, expected " +
                   std::to_string(planned.bytes[i]));
  buffers.input = input->untyped_data();
  buffers.weights[0] = weights->untyped_data();
  buffers.output = output->untyped_data();
  return ffi::Error::Success();
}

ffi::Error convolve(const Wanted &wanted, void *stream, ffi::AnyBuffer first, ffi::AnyBuffer second,
                    ffi::AnyBuffer result, ffi::AnyBuffer scratch) {
  std::shared_ptr<const Planned> planned;
  polyconv_status status = find(wanted, planned);
  if (status != POLYCONV_SUCCESS) return failure(status);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  ffi::Error error = place(*planned, first, second, result, buffers);
  if (error.failure()) return error;

  // Packed weights, then the workspace, both from the first aligned address on.
  const int64_t have = static_cast<int64_t>(scratch.size_bytes());
  const int64_t need = aligned(planned->packed_bytes) + planned->workspace_bytes;
  const auto begin = reinterpret_cast<uintptr_t>(scratch.untyped_data());
  const uintptr_t memory = static_cast<uintptr_t>(aligned(static_cast<int64_t>(begin)));
  if (need > 0 && static_cast<int64_t>(memory - begin) + need > have)
    return wrong("the scratch memory has " + std::to_string(have) + " bytes, expected " +
                 std::to_string(need + POLYCONV_ALIGNMENT) + ": the program was traced for another machine");
  polyconv_weights *weights = nullptr;
  if (planned->packed_bytes > 0) {
    status = polyconv_weights_create(planned->plan, 0, buffers.weights[0], reinterpret_cast<void *>(memory), stream,
                                     &weights);
    if (status != POLYCONV_SUCCESS) return failure(status);
    buffers.packed[0] = weights;
  }
  if (planned->workspace_bytes > 0) {
    buffers.workspace = reinterpret_cast<void *>(memory + static_cast<uintptr_t>(aligned(planned->packed_bytes)));
    buffers.workspace_size = static_cast<size_t>(planned->workspace_bytes);
  }
  status = polyconv_run(planned->plan, &buffers, stream);
  if (status != POLYCONV_SUCCESS) error = failure(status); // before the next call into the library
  polyconv_weights_destroy(
      weights); // the description alone: the memory is XLA's, which keeps it until the stream is there
  return error;
}

ffi::Error on_cpu(ffi::AnyBuffer first, ffi::AnyBuffer second, ffi::Result<ffi::AnyBuffer> result,
                  ffi::Result<ffi::AnyBuffer> scratch, std::string_view token, int32_t math, int32_t determinism,
                  int32_t threads) {
  return convolve({"cpu", token, math, determinism, threads}, nullptr, first, second, *result, *scratch);
}

ffi::Error on_cuda(void *stream, int32_t device, ffi::AnyBuffer first, ffi::AnyBuffer second,
                   ffi::Result<ffi::AnyBuffer> result, ffi::Result<ffi::AnyBuffer> scratch, std::string_view token,
                   int32_t math, int32_t determinism, int32_t threads) {
  return convolve({"cuda:" + std::to_string(device), token, math, determinism, threads}, stream, first, second, *result,
                  *scratch);
}

} // namespace

#define POLYCONV_ARRAYS_AND_ATTRIBUTES \
  Arg<ffi::AnyBuffer>()                \
      .Arg<ffi::AnyBuffer>()           \
      .Ret<ffi::AnyBuffer>()           \
      .Ret<ffi::AnyBuffer>()           \
      .Attr<std::string_view>("token") \
      .Attr<int32_t>("math")           \
      .Attr<int32_t>("determinism")    \
      .Attr<int32_t>("threads")

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(polyconv_xla_cpu, on_cpu, ffi::Ffi::Bind().POLYCONV_ARRAYS_AND_ATTRIBUTES);
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    polyconv_xla_cuda, on_cuda,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void *>>().Ctx<ffi::DeviceOrdinal>().POLYCONV_ARRAYS_AND_ATTRIBUTES);
#pragma GCC visibility pop
