// object.hpp - oneDNN's handles as objects that destroy what they own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "library.hpp"

namespace polyconv::onednn {

template <class Raw, dnnl_status_t (*Library::*kDestroy)(Raw)>
class Object {
 public:
  Object() = default;
  explicit Object(Raw raw) : raw_(raw) {}
  ~Object() {
    if (raw_ != nullptr) (library().*kDestroy)(raw_);
  }
  Object(Object &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Object &operator=(Object &&other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;

  Raw get() const { return raw_; }
  Raw *out() { return &raw_; } // for a function that makes it, once
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  Raw raw_ = nullptr;
};

using MemoryDesc = Object<dnnl_memory_desc_t, &Library::memory_desc_destroy>;
using Memory = Object<dnnl_memory_t, &Library::memory_destroy>;
using Attributes = Object<dnnl_primitive_attr_t, &Library::primitive_attr_destroy>;
using PostOps = Object<dnnl_post_ops_t, &Library::post_ops_destroy>;
using PrimitiveDesc = Object<dnnl_primitive_desc_t, &Library::primitive_desc_destroy>;
using Primitive = Object<dnnl_primitive_t, &Library::primitive_destroy>;
using Stream = Object<dnnl_stream_t, &Library::stream_destroy>;

} // namespace polyconv::onednn
