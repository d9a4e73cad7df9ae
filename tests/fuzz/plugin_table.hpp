// plugin_table.hpp - a backend's tables and its kernels, drawn from a fuzzer's bytes: right for the most part, with
// entries that are missing, damaged or lie. It remembers what is wrong, so that the target can tell whether the loader
// saw it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bytes.hpp"
#include "checks.hpp"

#include <polyconv/backend.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace polyconv_fuzz {

inline constexpr char kPluginName[] = "fuzzed"; // as if the file were called libpolyconv_fuzzed.so

// A table in a block of exactly as many bytes as it claims to have, so that AddressSanitizer sees whoever reads a field
// that the size does not cover. One that claims more than the loader believes has the bytes of a whole table.
template <class T>
class Block {
 public:
  static constexpr size_t kGrowth = 4096; // what the loader takes for a newer table

  explicit Block(const T &whole) {
    const size_t claimed = whole.struct_size;
    const size_t bytes = claimed > sizeof whole + kGrowth ? sizeof whole : std::max(claimed, sizeof(size_t));
    bytes_ = std::make_unique<char[]>(bytes);
    std::memcpy(bytes_.get(), &whole, std::min(bytes, sizeof whole));
  }
  const T *get() const { return reinterpret_cast<const T *>(bytes_.get()); }

 private:
  std::unique_ptr<char[]> bytes_;
};

// What a function does instead of its work: returns a status, which may be none, with or without words, or throws.
struct Reply {
  int32_t kind = 0;
  polyconv_status status = POLYCONV_SUCCESS;
  std::string words;

  bool good() const { return kind == 0; }
  polyconv_status give() const;
};
Reply draw_reply(Bytes &bytes);

// A kernel's answer to every question about an op.
struct Answer {
  Reply reply;
  polyconv_offer offer;
  bool honest_config = true; // about the config that was asked for
};

struct Kernel {
  Kernel() = default;
  ~Kernel();
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  std::string name;
  polyconv_kernel drawn = {};
  std::unique_ptr<Block<polyconv_kernel>> table;
  int32_t odd_config = 0; // the one whose name is not like the others'
  int32_t oddity = 0;
  std::string long_name;
  Answer answers[2]; // to POLYCONV_OP_CONVOLVE, and to the other ops
  bool fickle = false;
  mutable uint32_t questions = 0;
  Reply create, pack, bind, run, destroy;
  bool makes_null = false;
  int64_t workspace = 0;
  std::set<std::string> complaints; // words of which the loader should say one
};

// The plug-in of one input. There is one at a time: a query has nothing to tell several apart by.
class Plugin {
 public:
  explicit Plugin(Bytes &bytes);
  ~Plugin();
  Plugin(const Plugin &) = delete;
  Plugin &operator=(const Plugin &) = delete;

  static polyconv_status query(const polyconv_host *host, const polyconv_backend **backend);

  // One of these words must stand in the reason why it does not load; none means that it must load.
  const std::set<std::string> &complaints() const { return complaints_; }

  // Whether a kernel has so many configs that asking about each takes seconds.
  bool has_many_configs() const;

 private:
  void draw_backend(Bytes &bytes);
  void draw_probe(Bytes &bytes);
  void list_kernels(Bytes &bytes);
  void draw_device(Bytes &bytes);

  Reply query_, probe_;
  int32_t note_ = 0;
  bool has_table_ = true;
  std::string kind_, version_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::unique_ptr<const polyconv_kernel *[]> list_; // as long as the table says, for a number that may be believed
  polyconv_backend drawn_ = {};
  std::unique_ptr<Block<polyconv_backend>> table_;
  std::unique_ptr<Block<polyconv_device_table>> device_;
  std::set<std::string> complaints_;
};

std::unique_ptr<Kernel> draw_kernel(Bytes &bytes); // plugin_kernel.cpp

// Instances and bound objects that kernels have made and nobody has given back.
extern int64_t alive;

} // namespace polyconv_fuzz
