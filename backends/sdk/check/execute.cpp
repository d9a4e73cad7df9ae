// execute.cpp - see execute.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "execute.hpp"

#include <cstring>

namespace polyconv::check {
namespace {

struct WeightsDeleter {
  void operator()(polyconv_weights *weights) const { polyconv_weights_destroy(weights); }
};
struct BoundDeleter {
  void operator()(polyconv_bound *bound) const { polyconv_bound_destroy(bound); }
};

size_t bytes_moved(const Tensor &t, const Placement &placement) {
  const bool moved = (placement.moved >> t.which & 1) != 0;
  return moved ? static_cast<size_t>(placement.elements) * polyconv_type_size(t.shape.type) : 0;
}

// Everything that the runs of one plan need.
class Execution {
 public:
  Execution(const polyconv_device *device, const polyconv_plan *plan, int32_t layers, const polyconv_options &options,
            std::vector<Tensor> &tensors, const Placement &placement)
      : device_(device), plan_(plan), layers_(layers), options_(options), tensors_(tensors), info_(info_of(plan)) {
    memory_.reserve(tensors.size());
    for (const Tensor &t : tensors) memory_.emplace_back(device, t.bytes, bytes_moved(t, placement));
    if (placement.in_place) added_ = find(tensors, POLYCONV_TENSOR_RESIDUAL, layers - 1);
    if (added_ != nullptr && added_->bytes != find(tensors, POLYCONV_TENSOR_OUTPUT, layers - 1)->bytes)
      added_ = nullptr; // pooled
    workspace_ = std::make_unique<Guarded>(device, info_.workspace_bytes);
    polyconv_buffers_init(&buffers_);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const size_t size = polyconv_type_size(tensors[i].shape.type);
      place(tensors[i],
            static_cast<char *>(memory_[i].pointer()) + static_cast<size_t>(tensors[i].shape.offset) * size);
    }
    if (added_ != nullptr) buffers_.residual[layers - 1] = buffers_.output;
    buffers_.workspace = workspace_->pointer();
    buffers_.workspace_size = workspace_->bytes();
  }

  void run(uint8_t poison) {
    workspace_->poison(poison);
    workspace_->upload();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      // Gaps of tensors that are read hold poison too: reading them shows.
      memory_[i].poison(poison);
      if (!tensors_[i].written) encode(tensors_[i].shape, tensors_[i].values, memory_[i].picture());
      if (added_ != nullptr && tensors_[i].which == POLYCONV_TENSOR_OUTPUT)
        encode(added_->shape, added_->values, memory_[i].picture());
      memory_[i].upload();
    }
    pack(poison);
    if (options_.bind != 0) {
      polyconv_bound *raw = nullptr;
      require(polyconv_bind(plan_, &buffers_, &raw), "polyconv_bind");
      const std::unique_ptr<polyconv_bound, BoundDeleter> bound(raw);
      require(polyconv_run_bound(bound.get(), nullptr), "polyconv_run_bound");
      require(polyconv_stream_synchronize(device_, nullptr), "polyconv_stream_synchronize");
    } else {
      require(polyconv_run(plan_, &buffers_, nullptr), "polyconv_run");
      require(polyconv_stream_synchronize(device_, nullptr), "polyconv_stream_synchronize");
    }
    look(poison);
  }

  // After the last run: whether the elements of tensor i have the bits that they had after the run before.
  bool repeated(size_t i) const {
    const Tensor &t = tensors_[i];
    const size_t size = polyconv_type_size(t.shape.type);
    bool same = true;
    if (!before_[i].empty())
      for_elements(t.shape, [&](int64_t, int64_t offset) {
        const size_t byte = static_cast<size_t>(offset) * size;
        same = same && std::memcmp(before_[i].data() + byte, memory_[i].found() + byte, size) == 0;
      });
    return same;
  }

 private:
  void place(const Tensor &t, void *pointer) {
    const auto layer = static_cast<size_t>(t.layer);
    switch (t.which) {
      case POLYCONV_TENSOR_INPUT: buffers_.input = pointer; break;
      case POLYCONV_TENSOR_OUTPUT: buffers_.output = pointer; break;
      case POLYCONV_TENSOR_WEIGHTS: buffers_.weights[layer] = pointer; break;
      case POLYCONV_TENSOR_BIAS: buffers_.bias[layer] = pointer; break;
      case POLYCONV_TENSOR_SCALE: buffers_.scale[layer] = pointer; break;
      case POLYCONV_TENSOR_RESIDUAL: buffers_.residual[layer] = pointer; break;
      case POLYCONV_TENSOR_SLOPE: buffers_.slope[layer] = pointer; break;
      case POLYCONV_TENSOR_WEIGHTS_ZERO_POINT: buffers_.weights_zero_point[layer] = pointer; break;
      case POLYCONV_TENSOR_RESIDUAL_GRADIENT: buffers_.residual_gradient[layer] = pointer; break;
      default: buffers_.saved[layer] = pointer; break;
    }
  }

  // Packs, each time anew, into poisoned memory of our own; afterwards raw weights are out of the kernel's reach.
  void pack(uint8_t poison) {
    packed_.clear();
    packed_memory_.clear();
    packed_memory_.reserve(POLYCONV_MAX_CHAIN);
    for (int32_t layer = 0; layer < layers_; ++layer) {
      const char *format = nullptr;
      int64_t bytes = 0;
      require(polyconv_plan_weights(plan_, layer, &format, &bytes), "polyconv_plan_weights");
      const Tensor *weights = find(tensors_, POLYCONV_TENSOR_WEIGHTS, layer);
      if (std::strcmp(format, "raw") == 0 || weights->written) continue;
      Guarded &memory = packed_memory_.emplace_back(device_, bytes);
      memory.poison(poison);
      memory.upload();
      const void *raw = memory_[static_cast<size_t>(weights - tensors_.data())].pointer();
      polyconv_weights *packed = nullptr;
      require(polyconv_weights_create(plan_, layer, raw, memory.pointer(), nullptr, &packed),
              "polyconv_weights_create");
      packed_.emplace_back(packed);
      require(polyconv_stream_synchronize(device_, nullptr), "polyconv_stream_synchronize");
      memory.download();
      look_at_guards(memory, "the packed weights");
      std::memcpy(memory.picture(), memory.found(), memory.bytes()); // what a run must leave as it is
      buffers_.packed[layer] = packed;
      buffers_.weights[layer] = nullptr;
    }
  }

  static void look_at_guards(const Guarded &memory, const std::string &name) {
    const int64_t before = memory.damaged_before(), behind = memory.damaged_behind();
    if (before != 0)
      throw Misbehaved{std::to_string(before) + " bytes in the guard zone before " + name + " were overwritten"};
    if (behind != 0)
      throw Misbehaved{std::to_string(behind) + " bytes in the guard zone behind " + name + " were overwritten"};
  }

  void look(uint8_t poison) {
    workspace_->download();
    look_at_guards(*workspace_, "the workspace");
    for (Guarded &memory : packed_memory_) {
      memory.download();
      look_at_guards(memory, "the packed weights");
      if (!memory.unchanged()) throw Misbehaved{"the run changed the packed weights, which it may only read"};
    }
    before_.resize(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      Tensor &t = tensors_[i];
      Guarded &memory = memory_[i];
      const std::string name = std::string("the ") + tensor_name(t.which);
      if (t.written && memory.bytes() != 0 && ran_) before_[i].assign(memory.found(), memory.found() + memory.bytes());
      memory.download();
      look_at_guards(memory, name);
      if (!t.written && !memory.unchanged()) throw Misbehaved{"the run changed " + name + ", which it may only read"};
      if (!t.written) continue;
      t.values = decode(t.shape, memory.found());
      look_at_gaps(t, memory, name, poison);
    }
    ran_ = true;
  }

  // What is written, put over the poison once more, must give what was found: else something lies in the gaps.
  static void look_at_gaps(const Tensor &t, Guarded &memory, const std::string &name, uint8_t poison) {
    const size_t size = polyconv_type_size(t.shape.type);
    if (static_cast<int64_t>(size) * element_count(t.shape) == t.bytes) return;
    std::vector<uint8_t> expected(memory.bytes(), poison);
    for_elements(t.shape, [&](int64_t, int64_t offset) {
      const size_t byte = static_cast<size_t>(offset) * size;
      std::memcpy(expected.data() + byte, memory.found() + byte, size);
    });
    if (std::memcmp(expected.data(), memory.found(), memory.bytes()) != 0)
      throw Misbehaved{"the run wrote between the strided elements of " + name};
  }

  const polyconv_device *device_;
  const polyconv_plan *plan_;
  const int32_t layers_;
  const polyconv_options &options_;
  std::vector<Tensor> &tensors_;
  const polyconv_plan_info info_;
  const Tensor *added_ = nullptr; // the residual that is the output itself
  std::vector<Guarded> memory_;
  std::unique_ptr<Guarded> workspace_;
  std::vector<Guarded> packed_memory_;
  std::vector<std::unique_ptr<polyconv_weights, WeightsDeleter>> packed_;
  std::vector<std::vector<uint8_t>> before_;
  bool ran_ = false;
  polyconv_buffers buffers_;
};

} // namespace

Plan make_plan(const polyconv_device *device, const std::vector<polyconv_problem> &problems,
               const polyconv_options &options) {
  polyconv_plan *plan = nullptr;
  require(polyconv_plan_create(device, problems.data(), static_cast<int32_t>(problems.size()), &options, &plan),
          "polyconv_plan_create");
  return Plan(plan);
}

polyconv_plan_info info_of(const polyconv_plan *plan) {
  polyconv_plan_info info = {};
  info.struct_size = sizeof info;
  require(polyconv_plan_get_info(plan, &info), "polyconv_plan_get_info");
  return info;
}

void execute(const polyconv_device *device, const polyconv_plan *plan, int32_t layers, const polyconv_options &options,
             std::vector<Tensor> &tensors, const std::vector<uint8_t> &poisons, bool same_bits,
             const Placement &placement) {
  Execution execution(device, plan, layers, options, tensors, placement);
  for (uint8_t poison : poisons) execution.run(poison);
  if (!same_bits || poisons.size() < 2) return;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].written && !execution.repeated(i))
      throw Misbehaved{std::string("two runs of one plan give different bits in the ") + tensor_name(tensors[i].which) +
                       ": it depends on what memory held before"};
}

void run_reference(const polyconv_problem &problem, int32_t save, std::vector<Tensor> &tensors) {
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = "reference/convolve@*,reference/gradient@*";
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.save = save;
  const Plan plan = make_plan(nullptr, {problem}, options);
  execute(nullptr, plan.get(), 1, options, tensors, {0xff}, false);
}

} // namespace polyconv::check
