// descriptor.hpp - cuDNN's descriptors and handles as values: made, filled, finalised and destroyed in one place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "library.hpp"

namespace polyconv::cudnn {

// Copies share one descriptor, which keeps those alive that it was made of: cuDNN does not promise to.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) : state_(std::make_shared<State>()) {
    check(library().create_descriptor(type, &state_->raw), "creating a descriptor");
  }

  cudnnBackendDescriptor_t get() const { return state_->raw; }

  // `values` are of the C type that `type` stands for.
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T> &values) {
    check(library().set_attribute(state_->raw, name, type, static_cast<int64_t>(values.size()), values.data()),
          "setting an attribute");
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T &value) {
    check(library().set_attribute(state_->raw, name, type, 1, &value), "setting an attribute");
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor &value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.state_->raw);
    state_->uses.push_back(value.state_);
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<Descriptor> &values) {
    std::vector<cudnnBackendDescriptor_t> raws;
    for (const Descriptor &value : values) {
      raws.push_back(value.get());
      state_->uses.push_back(value.state_);
    }
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raws);
  }
  void set(cudnnBackendAttributeName_t name, int64_t value) { set(name, CUDNN_TYPE_INT64, value); }
  void set(cudnnBackendAttributeName_t name, const std::vector<int64_t> &values) {
    set(name, CUDNN_TYPE_INT64, values);
  }

  void finalize(const char *what) { check(library().finalize(state_->raw), what); }

  int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    int64_t found = 0;
    check(library().get_attribute(state_->raw, name, type, 0, &found, nullptr), "counting an attribute");
    return found;
  }
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    int64_t found = 0;
    check(library().get_attribute(state_->raw, name, type, most, &found, values.data()), "reading an attribute");
    values.resize(static_cast<size_t>(found < most ? found : most));
    return values;
  }
  int64_t integer(cudnnBackendAttributeName_t name) const {
    int64_t value = 0, found = 0;
    check(library().get_attribute(state_->raw, name, CUDNN_TYPE_INT64, 1, &found, &value), "reading an attribute");
    return value;
  }
  // Attributes that are descriptors are read into descriptors made before: as many as there are, or at most `most`
  // where cuDNN does not count them.
  std::vector<Descriptor> descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                      int64_t most = -1) const {
    if (most < 0) most = count(name, CUDNN_TYPE_BACKEND_DESCRIPTOR);
    std::vector<Descriptor> values;
    std::vector<cudnnBackendDescriptor_t> raws;
    for (int64_t i = 0; i < most; ++i) {
      raws.push_back(values.emplace_back(type).get());
      values.back().state_->uses.push_back(state_);
    }
    int64_t found = 0;
    if (most > 0)
      check(library().get_attribute(state_->raw, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &found, raws.data()),
            "reading descriptors");
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(found < most ? found : most), values.end());
    return values;
  }

 private:
  struct State {
    cudnnBackendDescriptor_t raw = nullptr;
    std::vector<std::shared_ptr<State>> uses;
    State() = default;
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    ~State() {
      if (raw != nullptr) library().destroy_descriptor(raw);
    }
  };
  std::shared_ptr<State> state_;
};

// A handle of the current device, which one thread may use at a time. Handles are dear to make, so those given back
// wait for the next plan of their device.
class Handle {
 public:
  explicit Handle(int device);
  ~Handle();
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  cudnnHandle_t get() const { return raw_; }

 private:
  const int device_;
  cudnnHandle_t raw_ = nullptr;
};

} // namespace polyconv::cudnn
