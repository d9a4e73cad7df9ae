// way.hpp - one way to run a layer with oneDNN: an implementation, and the reorders around it where the caller's
// tensors lie otherwise than it wants them, whose copies lie in the workspace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "convolution.hpp"

namespace polyconv::onednn {

// The pointers of one run.
struct Pointers {
  void *input, *weights, *bias, *output, *workspace; // weights: packed, but for backward weights
};

// Packed weights begin with this many bytes, which tell the order of what follows.
inline constexpr int64_t kHeaderBytes = POLYCONV_ALIGNMENT;

// A way with its pointers: primitives and their arguments, one after the other. For one thread at a time.
class Bound {
 public:
  Bound();

  void add(const Primitive &primitive, std::vector<dnnl_exec_arg_t> arguments, bool reorders);
  // A tensor at a place, for arguments; lives as long as this.
  dnnl_memory_t memory(const_dnnl_memory_desc_t description, void *place);

  void run() const;
  // Seconds of one run, and of the reorders in it.
  struct Seconds {
    double total, reorders;
  };
  Seconds time() const;

 private:
  struct Step {
    dnnl_primitive_t primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    bool reorders;
  };
  void execute(const Step &step) const;

  Stream stream_;
  std::vector<Memory> memories_;
  std::vector<Step> steps_;
};

class Way {
 public:
  // Orders Any make an implementation's own; the caller's tensors are then taken in the orders that they have.
  Way(const polyconv_layer &layer, Order input, Order output, Implementation implementation);

  const std::string &name() const { return name_; } // "any brgconv:avx512_core, 2 reorders"
  int64_t workspace_bytes() const { return scratch_offset_ + scratch_bytes_; }
  int64_t packed_bytes() const { return packed_bytes_; } // 0 for backward weights
  bool reorders() const { return moved_ > 0; }           // activations or gradients, in every run

  void pack(const void *raw, void *packed) const;
  // Throws sdk::Error where the weights were packed in an order that is not this way's.
  std::unique_ptr<Bound> bind(const Pointers &pointers) const;

 private:
  struct Operand {
    int argument; // DNNL_ARG_SRC
    void *Pointers::*place;
    bool written;
    MemoryDesc theirs, own; // the caller's order, and that of the implementation
    Primitive reorder;      // between the two, where they differ
    int64_t copy_offset;    // in the workspace, where they differ and nothing packs
  };

  static bool is_packed(const Operand &operand) { return operand.argument == DNNL_ARG_WEIGHTS; }
  static bool moves(const Operand &operand) { return operand.reorder && !is_packed(operand); } // in every run
  void *own_place(const Operand &operand, const Pointers &pointers) const;
  void add_reorders(bool after, const Pointers &pointers, dnnl_memory_t scratch, Bound *bound) const;
  void add_operand(int argument, dnnl_query_t query, int index, void *Pointers::*place, bool written,
                   MemoryDesc theirs);
  void add_operands(const polyconv_layer &layer, Order input, Order output);
  void make_reorder(Operand &operand, bool packs);
  Primitive make(const PrimitiveDesc &description);

  const Implementation implementation_;
  const bool packs_;
  std::string name_;
  Primitive convolution_;
  std::vector<Operand> operands_;
  uint64_t fingerprint_ = 0;
  int64_t packed_bytes_ = 0, scratch_offset_ = 0, scratch_bytes_ = 0;
  int moved_ = 0;
};

} // namespace polyconv::onednn
