// library.hpp - oneDNN's C API as a table of functions, found at run time: nothing links oneDNN, so that the plug-in
// loads everywhere and says why it cannot serve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <string>

namespace polyconv::onednn {

// The functions that this backend calls, without "dnnl_".
#define POLYCONV_ONEDNN_FUNCTIONS(FUNCTION)                    \
  FUNCTION(version)                                            \
  FUNCTION(get_effective_cpu_isa)                              \
  FUNCTION(engine_create)                                      \
  FUNCTION(stream_create)                                      \
  FUNCTION(stream_wait)                                        \
  FUNCTION(stream_destroy)                                     \
  FUNCTION(memory_desc_create_with_strides)                    \
  FUNCTION(memory_desc_create_with_tag)                        \
  FUNCTION(memory_desc_clone)                                  \
  FUNCTION(memory_desc_destroy)                                \
  FUNCTION(memory_desc_equal)                                  \
  FUNCTION(memory_desc_get_size)                               \
  FUNCTION(memory_desc_query)                                  \
  FUNCTION(memory_create)                                      \
  FUNCTION(memory_destroy)                                     \
  FUNCTION(primitive_attr_create)                              \
  FUNCTION(primitive_attr_destroy)                             \
  FUNCTION(primitive_attr_set_scratchpad_mode)                 \
  FUNCTION(primitive_attr_set_post_ops)                        \
  FUNCTION(post_ops_create)                                    \
  FUNCTION(post_ops_destroy)                                   \
  FUNCTION(post_ops_append_eltwise)                            \
  FUNCTION(convolution_forward_primitive_desc_create)          \
  FUNCTION(convolution_backward_data_primitive_desc_create)    \
  FUNCTION(convolution_backward_weights_primitive_desc_create) \
  FUNCTION(reorder_primitive_desc_create)                      \
  FUNCTION(primitive_desc_clone)                               \
  FUNCTION(primitive_desc_destroy)                             \
  FUNCTION(primitive_desc_next_impl)                           \
  FUNCTION(primitive_desc_query)                               \
  FUNCTION(primitive_desc_query_md)                            \
  FUNCTION(primitive_create)                                   \
  FUNCTION(primitive_destroy)                                  \
  FUNCTION(primitive_execute)

struct Library {
#define POLYCONV_ONEDNN_MEMBER(name) decltype(&dnnl_##name) name;
  POLYCONV_ONEDNN_FUNCTIONS(POLYCONV_ONEDNN_MEMBER)
#undef POLYCONV_ONEDNN_MEMBER
  // Of the OpenMP runtime that oneDNN was linked with, whichever that is.
  int (*omp_get_max_threads)();
  void (*omp_set_num_threads)(int threads);
  dnnl_engine_t engine; // the CPU; one for the process

  std::string version_text() const; // "3.2.0"
  // Whether the instruction sets that oneDNN uses here have those of `isa`.
  bool has(dnnl_cpu_isa_t isa) const {
    return (get_effective_cpu_isa() & isa) == isa;
  }
};

// Where libdnnl.so.3 lies: in lib of the folder that ONEDNN_ROOT names (not for privileged programs), else where the
// system's loader looks for this plug-in, without opening it, which takes 20 to 40 ms. "" where there is none.
std::string library_file();

// Opens that file at the first call. NULL where it cannot serve; `why` (may be NULL) then holds the reason.
const Library *find_library(std::string *why);

// For use once find_library has found it.
inline const Library &library() {
  return *find_library(nullptr);
}

// Throws sdk::Error where a call failed; `what` says what was tried ("describing a tensor").
void check(dnnl_status_t status, const char *what);

// While it lives, oneDNN makes and runs primitives on that many threads where this thread calls it.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(library().omp_get_max_threads()) {
    library().omp_set_num_threads(threads);
  }
  ~ThreadScope() { library().omp_set_num_threads(before_); }
  ThreadScope(const ThreadScope &) = delete;
  ThreadScope &operator=(const ThreadScope &) = delete;

 private:
  int before_;
};

} // namespace polyconv::onednn
