// filter.hpp - options.kernel: which kernels and configs may be taken. A glob list over full names
// "backend/kernel@config"; a pattern without '@' leaves the config to the kernel, one with '@' forces it. A pattern
// after '!' forbids what it matches, whatever else admits it. Steps beside the kernel that convolves need only not be
// forbidden.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "registry/registry.hpp"

#include <string>
#include <vector>

namespace polyconv {

class Filter {
 public:
  Filter() = default;
  explicit Filter(const std::string &globs);

  // True where everything (that need not be named) may be taken.
  bool empty() const { return admitting_.empty() && forbidding_.empty(); }

  // Whether anything is forbidden.
  bool forbids() const { return !forbidding_.empty(); }

  // Whether this kernel may convolve, with some config.
  bool matches(const KernelEntry &entry) const;

  // Whether a pattern admits this kernel but for its configs.
  bool matches_but_config(const KernelEntry &entry) const;

  // Whether a pattern says this backend's name: more than a '*' where the backend stands.
  bool names(const std::string &backend) const;

  // The configs to ask this kernel about: -1 alone where the kernel chooses, none where it does not match.
  std::vector<int32_t> configs(const KernelEntry &entry) const;

  // The same of a kernel that would pool, convert or take a gradient back for another.
  std::vector<int32_t> helper_configs(const KernelEntry &entry) const;

 private:
  struct Pattern {
    std::string backend; // up to the '/', or everything
    std::string kernel;  // up to the '@'
    std::string config;  // after it
    bool says_config;

    bool matches_kernel(const KernelEntry &entry) const;
    bool matches(const KernelEntry &entry, int32_t config) const;
  };
  static Pattern read_pattern(const std::string &glob);

  std::vector<Pattern> admitting_; // none: everything is admitted
  std::vector<Pattern> forbidding_;
};

// The name of a config, "?" where the kernel gives none.
const char *config_name(const KernelEntry &entry, int32_t config);

// "openmp/gemm@avx512".
std::string kernel_name(const KernelEntry &entry, int32_t config);

} // namespace polyconv
