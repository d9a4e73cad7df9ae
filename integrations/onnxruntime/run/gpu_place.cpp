// gpu_place.cpp - see gpu_place.hpp. Turning, concatenating and enlarging are loops that only move elements.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/gpu_place.hpp"

#include <algorithm>

#include "run/pass.hpp"
#include "run/refusal.hpp"
#include "runtime/threads.hpp"

namespace polyconv_ort {
namespace {

Element element_of(size_t bytes) {
  return bytes == 4 ? Element::kF32 : bytes == 2 ? Element::kF16 : Element::kBytes;
}

// The strides of a dense tensor, for its axes in order, batch and channels first.
std::vector<int64_t> strides_of(const std::vector<int64_t> &sizes, bool last) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  auto place = [&](size_t axis) { strides[axis] = stride, stride *= sizes[axis]; };
  if (last) place(1);
  for (size_t axis = sizes.size() - 1; axis >= 2; --axis) place(axis);
  if (!last) place(1);
  place(0);
  return strides;
}

// A loop over a tensor's axes that moves one operand. The result's axes are walked as they lie, so that neighbouring
// threads write neighbours.
DeviceLoop move(const std::vector<int64_t> &sizes, bool result_last, Element element) {
  DeviceLoop loop = {};
  loop.axes = static_cast<int32_t>(sizes.size()), loop.operand_count = 1, loop.element = element;
  loop.operands[0].element = element;
  std::fill_n(loop.repeat, kMostAxes, 1);
  for (size_t i = 0; i < sizes.size(); ++i) loop.sizes[i] = sizes[axis_at(i, sizes.size(), result_last)];
  return loop;
}

void set_strides(int64_t *to, const std::vector<int64_t> &strides, bool result_last) {
  for (size_t i = 0; i < strides.size(); ++i) to[i] = strides[axis_at(i, strides.size(), result_last)];
}

class GpuWatch : public Watch {
 public:
  GpuWatch(const polyconv::Device &device, void *stream) : begin_(device), end_(device), stream_(stream) {
    begin_.record(stream);
  }
  void stop() override { end_.record(stream_); }
  double seconds() override {
    end_.synchronize();
    return begin_.milliseconds_until(end_) / 1e3;
  }

 private:
  polyconv::Event begin_, end_;
  void *stream_;
};

} // namespace

std::unique_ptr<Watch> GpuPlace::watch(void *stream) const {
  return std::make_unique<GpuWatch>(gpu_.device, stream);
}

Terms GpuPlace::terms() const {
  Terms terms;
  terms.half = true;
  terms.refusal = [this](const Recipe &recipe) { return refusal_of(recipe, *this); };
  return terms;
}

polyconv::Options GpuPlace::options() const {
  return plan_options(settings_);
}

double GpuPlace::turning(double bytes) const {
  constexpr double kBytesAMicrosecond = 1.5e6, kMicroseconds = 2.5; // of a launch on an H200
  return kMicroseconds + 2 * bytes / kBytesAMicrosecond;
}

std::shared_ptr<const void> GpuPlace::constant(std::vector<char> bytes) const {
  if (bytes.empty()) return nullptr;
  auto kept = std::make_shared<polyconv::Memory>(gpu_.device, bytes.size());
  gpu_.device.copy(kept->get(), bytes.data(), bytes.size());
  wait(nullptr);
  return {kept, kept->get()};
}

// The session's allocator through the run's context, in the order of its stream.
std::shared_ptr<void> GpuPlace::memory(const OrtKernelContext *context, size_t bytes) {
  const Api &api = gpu_.api;
  OrtAllocator *allocator = nullptr;
  require(api, api.KernelContext_GetAllocator(context, gpu_.info, &allocator));
  const std::shared_ptr<OrtAllocator> held(allocator, api.ReleaseAllocator);
  void *block = nullptr;
  require(api, api.KernelContext_GetScratchBuffer(context, gpu_.info, bytes, &block));
  if (!block)
    throw Error(kFail, "polyconv: the session's allocator has no " + std::to_string(bytes) + " bytes on " + gpu_.name);
  return {block, [held](void *given) {
            auto *table = reinterpret_cast<Allocator *>(held.get());
            table->Free(table, given);
          }};
}

void *GpuPlace::stream(const OrtKernelContext *context) const {
  void *stream = nullptr;
  require(gpu_.api, gpu_.api.KernelContext_GetGPUComputeStream(context, &stream));
  return stream;
}

void GpuPlace::fetch(const OrtKernelContext *context, const void *from, void *to, size_t bytes) const {
  gpu_.copy(to, from, bytes, stream(context));
}

void GpuPlace::wait(void *stream) const {
  polyconv::require(polyconv_stream_synchronize(gpu_.device.get(), stream));
}

void GpuPlace::check(int error) const {
  if (error) throw Error(kFail, "polyconv: " + gpu_.name + " refuses an operator: " + gpu_.passes.text(error));
}

void GpuPlace::launch(const DeviceLoop &loop, void *stream) const {
  if (std::any_of(loop.sizes, loop.sizes + loop.axes, [](int64_t size) { return size == 0; })) return;
  check(gpu_.passes.loop(gpu_.index, &loop, stream));
}

void GpuPlace::turn(const Turn &turned, const void *from, void *to, void *stream) const {
  DeviceLoop loop = move(turned.sizes, turned.to_last, element_of(turned.element));
  set_strides(loop.operands[0].strides, strides_of(turned.sizes, !turned.to_last), turned.to_last);
  set_strides(loop.result_strides, strides_of(turned.sizes, turned.to_last), turned.to_last);
  loop.operands[0].data = from, loop.result = to;
  launch(loop, stream);
}

void GpuPlace::run(const Pass &pass, const std::vector<PassTensor> &inputs, const PassTensor &output,
                   void *stream) const {
  if (elements_of(*output.sizes) == 0) return;
  switch (pass.kind()) {
    case Operator::Kind::kElementwise: return elementwise(pass, inputs, output, stream);
    case Operator::Kind::kAverage: return average(pass, inputs[0], output, stream);
    case Operator::Kind::kConcat: return concat(pass, inputs, output, stream);
    case Operator::Kind::kEnlarge: return enlarge(pass, inputs[0], output, stream);
  }
}

void GpuPlace::elementwise(const Pass &pass, const std::vector<PassTensor> &inputs, const PassTensor &output,
                           void *stream) const {
  const Loop loop = pass.loop(inputs, output);
  const Element element = element_of(size_of(pass.type()));
  DeviceLoop made = {};
  made.axes = loop.axes, made.element = element, made.result = loop.result;
  made.operand_count = static_cast<int32_t>(loop.operands.size());
  made.step_count = static_cast<int32_t>(loop.steps.size());
  if (made.operand_count > kMostDeviceOperands || made.step_count > kMostDeviceSteps)
    throw Error(kFail, "polyconv: " + pass.name() + " has more steps than one launch takes");
  int64_t stride = 1;
  for (int axis = loop.axes - 1; axis >= 0; --axis) {
    made.sizes[axis] = loop.sizes[axis], made.repeat[axis] = 1;
    made.result_strides[axis] = stride, stride *= loop.sizes[axis];
  }
  for (size_t i = 0; i < loop.operands.size(); ++i) {
    const Loop::Operand &operand = loop.operands[i];
    made.operands[i].data = operand.data, made.operands[i].element = operand.constant ? Element::kF32 : element;
    std::copy_n(operand.strides, kMostAxes, made.operands[i].strides);
  }
  for (size_t i = 0; i < loop.steps.size(); ++i)
    made.steps[i] = {loop.steps[i].kind, loop.steps[i].operand, loop.steps[i].alpha, loop.steps[i].beta};
  launch(made, stream);
}

void GpuPlace::average(const Pass &pass, const PassTensor &input, const PassTensor &output, void *stream) const {
  const std::vector<int64_t> &sizes = *input.sizes;
  const int64_t pixels = elements_of(sizes) / std::max<int64_t>(1, sizes[0] * sizes[1]);
  const std::vector<int64_t> strides = strides_of(sizes, input.last);
  const DeviceAverage made = {sizes[0],
                              sizes[1],
                              pixels,
                              strides[0],
                              strides[1],
                              input.last ? sizes[1] : 1,
                              element_of(size_of(pass.type())),
                              input.data,
                              output.data};
  check(gpu_.passes.average(gpu_.index, &made, stream));
}

void GpuPlace::concat(const Pass &pass, const std::vector<PassTensor> &inputs, const PassTensor &output,
                      void *stream) const {
  const std::vector<int64_t> strides = strides_of(*output.sizes, output.last);
  const size_t bytes = size_of(pass.type());
  int64_t channel = 0;
  for (const PassTensor &input : inputs) {
    DeviceLoop loop = move(*input.sizes, output.last, element_of(bytes));
    set_strides(loop.operands[0].strides, strides_of(*input.sizes, input.last), output.last);
    set_strides(loop.result_strides, strides, output.last);
    loop.operands[0].data = input.data;
    loop.result = static_cast<char *>(output.data) + static_cast<size_t>(channel * strides[1]) * bytes;
    launch(loop, stream);
    channel += (*input.sizes)[1];
  }
}

void GpuPlace::enlarge(const Pass &pass, const PassTensor &input, const PassTensor &output, void *stream) const {
  DeviceLoop loop = move(*output.sizes, output.last, element_of(size_of(pass.type())));
  set_strides(loop.operands[0].strides, strides_of(*input.sizes, input.last), output.last);
  set_strides(loop.result_strides, strides_of(*output.sizes, output.last), output.last);
  std::vector<int64_t> repeat = {1, 1};
  repeat.insert(repeat.end(), pass.factors().begin(), pass.factors().end());
  set_strides(loop.repeat, repeat, output.last);
  loop.operands[0].data = input.data, loop.result = output.data;
  launch(loop, stream);
}

} // namespace polyconv_ort
