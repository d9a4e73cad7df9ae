// pass.cpp - operators over whole tensors, each in tasks for the session's threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/pass.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/threads.hpp"

namespace polyconv_ort {
namespace {

int64_t pixels_of(const std::vector<int64_t> &sizes) {
  int64_t product = 1;
  for (size_t i = 2; i < sizes.size(); ++i) product *= sizes[i];
  return product;
}

// Runs work(task) for each task, on the session's threads.
template <class Work>
void share(const Api &api, int64_t tasks, const Work &work) {
  if (tasks == 0) return;
  share_out(
      const_cast<Api *>(&api), tasks, [](void *context, int64_t task) { (*static_cast<const Work *>(context))(task); },
      const_cast<Work *>(&work));
}

// Pieces of n things that are worth a task each.
struct Pieces {
  int64_t all, each;
  int64_t count() const { return (all + each - 1) / each; }
  int64_t begin(int64_t i) const { return i * each; }
  int64_t end(int64_t i) const { return std::min(all, (i + 1) * each); }
};

constexpr int64_t kElementsATask = 32768;

Pieces pieces(int64_t all, int64_t elements_each) {
  return {all, std::max<int64_t>(1, kElementsATask / std::max<int64_t>(1, elements_each))};
}

// The strides of a tensor over the axes of a result of rank `axes` in the result's order. Sizes that a tensor leaves
// out are in front.
Loop::Operand operand(const void *data, const std::vector<int64_t> &sizes, bool last, size_t axes, bool result_last) {
  const size_t missing = axes - sizes.size();
  std::vector<int64_t> natural(axes, 0);
  int64_t stride = 1;
  auto place = [&](size_t axis) {
    if (axis < missing) return;
    natural[axis] = sizes[axis - missing] == 1 ? 0 : stride;
    stride *= sizes[axis - missing];
  };
  if (last) place(1);
  for (size_t axis = axes - 1; axis >= 2; --axis) place(axis);
  if (!last) place(1);
  place(0);
  Loop::Operand made;
  made.data = data;
  for (size_t i = 0; i < axes; ++i) made.strides[i] = natural[axis_at(i, axes, result_last)];
  return made;
}

// Each size is the same in both, or 1 in one of them. A shorter one leaves axes out in front.
void broadcast(std::vector<int64_t> &sizes, const std::vector<int64_t> &with, const std::string &name) {
  for (size_t i = 0; i < with.size(); ++i) {
    int64_t &size = sizes[sizes.size() - with.size() + i];
    if (size == 1)
      size = with[i];
    else if (with[i] != 1 && with[i] != size)
      throw Error(kInvalidArgument, "polyconv: " + name + " has operands of sizes " + text_of(sizes) + " and " +
                                        text_of(with) + ", which cannot be broadcast");
  }
}

} // namespace

Pass::Pass(const Api &api, const Place &place, const Operator &op)
    : api_(api),
      operator_(op),
      name_(op.nodes[0].name().empty() ? op.output.name() : op.nodes[0].name()),
      axes_(op.inputs[0].shape().sizes.size()),
      type_(op.inputs[0].shape().type) {
  for (const Stage &stage : op.stages) {
    constants_.emplace_back();
    const OrtValue *tensor = stage.constant.constant();
    if (!tensor) continue;
    const Shape shape = shape_of(api, tensor);
    constants_.back().sizes = shape.sizes;
    std::vector<float> numbers;
    for (int64_t i = 0; i < elements_of(shape.sizes); ++i)
      numbers.push_back(float_at(shape.type, data_of(api, tensor), i));
    constants_.back().numbers = place.constant(bytes_of(numbers));
  }
  operator_.nodes.clear(), operator_.inputs.clear(), operator_.output = Value();
  for (Stage &stage : operator_.stages) stage.constant = Value();
}

std::vector<int64_t> Pass::output_sizes(const std::vector<std::vector<int64_t>> &inputs) const {
  std::vector<int64_t> sizes = inputs[0];
  for (const auto &input : inputs)
    if (input.size() != axes_)
      throw Error(kInvalidArgument, "polyconv: " + name_ + " has an input of sizes " + text_of(input) + ", expected " +
                                        std::to_string(axes_) + " axes, as the model says");
  switch (operator_.kind) {
    case Operator::Kind::kElementwise:
      for (const auto &input : inputs) broadcast(sizes, input, name_);
      for (const Constant &constant : constants_) broadcast(sizes, constant.sizes, name_);
      break;
    case Operator::Kind::kAverage: std::fill(sizes.begin() + 2, sizes.end(), 1); break;
    case Operator::Kind::kConcat:
      for (size_t i = 1; i < inputs.size(); ++i) {
        for (size_t axis = 0; axis < sizes.size(); ++axis)
          if (axis != 1 && inputs[i][axis] != sizes[axis])
            throw Error(kInvalidArgument, "polyconv: " + name_ + " has inputs of sizes " + text_of(sizes) + " and " +
                                              text_of(inputs[i]) + ", which differ in more than their channels");
        sizes[1] += inputs[i][1];
      }
      break;
    case Operator::Kind::kEnlarge:
      for (size_t axis = 0; axis < operator_.factors.size(); ++axis) sizes[axis + 2] *= operator_.factors[axis];
      break;
  }
  return sizes;
}

void Pass::run(const std::vector<Tensor> &inputs, const Tensor &output) const {
  for (int64_t size : *output.sizes)
    if (size == 0) return;
  switch (operator_.kind) {
    case Operator::Kind::kElementwise: {
      const Loop made = loop(inputs, output);
      return share(api_, made.tasks(), [&](int64_t task) { made.run_task(task); });
    }
    case Operator::Kind::kAverage: return average(inputs[0], output);
    case Operator::Kind::kConcat: return concat(inputs, output);
    case Operator::Kind::kEnlarge: return enlarge(inputs[0], output);
  }
}

Loop Pass::loop(const std::vector<Tensor> &inputs, const Tensor &output) const {
  const std::vector<int64_t> &sizes = *output.sizes;
  Loop loop;
  loop.axes = static_cast<int>(sizes.size()), loop.result = output.data;
  for (size_t i = 0; i < sizes.size(); ++i) loop.sizes[i] = sizes[axis_at(i, sizes.size(), output.last)];
  for (const Tensor &input : inputs)
    loop.operands.push_back(operand(input.data, *input.sizes, input.last, sizes.size(), output.last));
  for (size_t s = 0; s < constants_.size(); ++s) {
    const Stage &stage = operator_.stages[s];
    int with = stage.operand;
    if (constants_[s].numbers) {
      with = static_cast<int>(loop.operands.size());
      loop.operands.push_back(
          operand(constants_[s].numbers.get(), constants_[s].sizes, false, sizes.size(), output.last));
      loop.operands.back().constant = true;
    }
    loop.steps.push_back({stage.kind, with, stage.alpha, stage.beta});
  }
  loop.merge();
  return loop;
}

void Pass::average(const Tensor &input, const Tensor &output) const {
  const std::vector<int64_t> &sizes = *input.sizes;
  const int64_t channels = sizes[1], pixels = pixels_of(sizes);
  const auto *from = static_cast<const float *>(input.data);
  auto *to = static_cast<float *>(output.data);
  if (!input.last) {
    const Pieces planes = pieces(sizes[0] * channels, pixels);
    share(api_, planes.count(), [&](int64_t task) {
      for (int64_t plane = planes.begin(task); plane < planes.end(task); ++plane) {
        double sums[8] = {}; // several, so that an addition need not wait for the one before it
        const float *at = from + plane * pixels;
        int64_t i = 0;
        for (; i + 8 <= pixels; i += 8)
          for (int k = 0; k < 8; ++k) sums[k] += at[i + k];
        for (; i < pixels; ++i) sums[0] += at[i];
        for (int k = 1; k < 8; ++k) sums[0] += sums[k];
        to[plane] = static_cast<float>(sums[0] / static_cast<double>(pixels));
      }
    });
    return;
  }
  constexpr int64_t kChannels = 32; // of a task: whole cache lines
  const Pieces strips{channels, kChannels};
  share(api_, sizes[0] * strips.count(), [&](int64_t task) {
    const int64_t image = task / strips.count(), strip = task % strips.count();
    const int64_t begin = strips.begin(strip), count = strips.end(strip) - begin;
    double sums[kChannels] = {};
    const float *at = from + image * pixels * channels + begin;
    for (int64_t i = 0; i < pixels; ++i, at += channels)
      for (int64_t c = 0; c < count; ++c) sums[c] += at[c];
    for (int64_t c = 0; c < count; ++c)
      to[image * channels + begin + c] = static_cast<float>(sums[c] / static_cast<double>(pixels));
  });
}

void Pass::concat(const std::vector<Tensor> &inputs, const Tensor &output) const {
  const std::vector<int64_t> &sizes = *output.sizes;
  const int64_t pixels = pixels_of(sizes), inner = output.last ? 1 : pixels, row = sizes[1] * inner;
  const Pieces rows = pieces(output.last ? sizes[0] * pixels : sizes[0], row);
  share(api_, rows.count(), [&](int64_t task) {
    int64_t begin = 0; // of an input's channels in a row of the result
    for (const Tensor &input : inputs) {
      const int64_t part = (*input.sizes)[1] * inner;
      const auto *from = static_cast<const float *>(input.data);
      for (int64_t i = rows.begin(task); i < rows.end(task) && part > 0; ++i)
        std::memcpy(static_cast<float *>(output.data) + i * row + begin, from + i * part,
                    static_cast<size_t>(part) * sizeof(float));
      begin += part;
    }
  });
}

void Pass::enlarge(const Tensor &input, const Tensor &output) const {
  const std::vector<int64_t> &sizes = *output.sizes, &from_sizes = *input.sizes, &factors = operator_.factors;
  const size_t axes = factors.size();
  const int64_t inner = output.last ? sizes[1] : 1, images = output.last ? sizes[0] : sizes[0] * sizes[1];
  const int64_t times = factors[axes - 1], width = from_sizes[axes + 1], row = width * times * inner;
  int64_t rows_an_image = 1;
  for (size_t axis = 0; axis + 1 < axes; ++axis) rows_an_image *= sizes[axis + 2];
  const Pieces rows = pieces(images * rows_an_image, row);
  share(api_, rows.count(), [&](int64_t task) {
    for (int64_t i = rows.begin(task); i < rows.end(task); ++i) {
      int64_t left = i % rows_an_image, source = 0, stride = 1; // the row that is repeated here
      for (size_t axis = axes - 1; axis-- > 0; left /= sizes[axis + 2], stride *= from_sizes[axis + 2])
        source += left % sizes[axis + 2] / factors[axis] * stride;
      const float *at =
          static_cast<const float *>(input.data) + ((i / rows_an_image) * stride + source) * width * inner;
      float *to = static_cast<float *>(output.data) + i * row;
      for (int64_t x = 0; x < width; ++x, at += inner)
        for (int64_t k = 0; k < times; ++k, to += inner)
          if (inner == 1)
            *to = *at;
          else
            std::memcpy(to, at, static_cast<size_t>(inner) * sizeof(float));
    }
  });
}

} // namespace polyconv_ort
