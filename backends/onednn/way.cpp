// way.cpp - see way.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "way.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <polyconv/sdk/bytes.hpp>
#include <polyconv/sdk/kernel.hpp>

namespace polyconv::onednn {
namespace {

struct Header {
  uint64_t fingerprint; // of the order of what follows
};
static_assert(sizeof(Header) <= kHeaderBytes);

void *moved(void *pointer, int64_t bytes) {
  return static_cast<char *>(pointer) + bytes;
}

MemoryDesc clone(const_dnnl_memory_desc_t description) {
  MemoryDesc copy;
  check(library().memory_desc_clone(copy.out(), description), "describing a tensor");
  return copy;
}

const char *order_name(Order order) {
  return order == Order::Any ? "any" : order == Order::ChannelsFirst ? "nchw" : "nhwc";
}

// The order in which the caller has a tensor, where `order` leaves it to the implementation.
Order caller_order(const polyconv_tensor &tensor, Order order) {
  return order == Order::Any ? orders_of(tensor).front() : order;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

Bound::Bound() {
  check(library().stream_create(stream_.out(), library().engine, dnnl_stream_default_flags), "making a stream");
}

dnnl_memory_t Bound::memory(const_dnnl_memory_desc_t description, void *place) {
  Memory made;
  check(library().memory_create(made.out(), description, library().engine, place), "binding a tensor");
  memories_.push_back(std::move(made));
  return memories_.back().get();
}

void Bound::add(const Primitive &primitive, std::vector<dnnl_exec_arg_t> arguments, bool reorders) {
  steps_.push_back({primitive.get(), std::move(arguments), reorders});
}

void Bound::execute(const Step &step) const {
  check(library().primitive_execute(step.primitive, stream_.get(), static_cast<int>(step.arguments.size()),
                                    step.arguments.data()),
        "running a primitive");
}

void Bound::run() const {
  for (const Step &step : steps_) execute(step);
  check(library().stream_wait(stream_.get()), "waiting for the stream");
}

Bound::Seconds Bound::time() const {
  Seconds seconds = {0, 0};
  for (const Step &step : steps_) {
    const auto begin = std::chrono::steady_clock::now();
    execute(step);
    check(library().stream_wait(stream_.get()), "waiting for the stream");
    const double taken = seconds_since(begin);
    seconds.total += taken;
    if (step.reorders) seconds.reorders += taken;
  }
  return seconds;
}

Way::Way(const polyconv_layer &layer, Order input, Order output, Implementation implementation)
    : implementation_(std::move(implementation)), packs_(layer.direction != POLYCONV_BACKWARD_WEIGHTS) {
  convolution_ = make(implementation_.description);
  add_operands(layer, input, output);
  name_ = std::string(order_name(input)) + (output != input ? std::string("-") + order_name(output) : "") + " " +
          implementation_.name;
  if (moved_ > 0) name_ += ", " + std::to_string(moved_) + (moved_ > 1 ? " reorders" : " reorder");
}

// The primitive; its scratch memory lies behind the copies, and serves one primitive after the other.
Primitive Way::make(const PrimitiveDesc &description) {
  Primitive made;
  check(library().primitive_create(made.out(), description.get()), "making a primitive");
  const auto *scratch = library().primitive_desc_query_md(description.get(), dnnl_query_scratchpad_md, 0);
  if (scratch != nullptr) scratch_bytes_ = std::max(scratch_bytes_, sdk::aligned_bytes(bytes_of(scratch)));
  return made;
}

void Way::add_operands(const polyconv_layer &l, Order input, Order output) {
  const int axes = spatial_axes(l);
  const bool forward = l.direction == POLYCONV_FORWARD, data = l.direction == POLYCONV_BACKWARD_DATA;
  const auto theirs = [&](const polyconv_tensor &tensor, Order order) {
    return describe_data(tensor, axes, caller_order(tensor, order));
  };
  add_operand(data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, data ? dnnl_query_diff_src_md : dnnl_query_src_md, 0,
              &Pointers::input, data, theirs(l.input, input));
  add_operand(forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md, 0,
              &Pointers::output, forward, theirs(l.output, output));
  add_operand(packs_ ? DNNL_ARG_WEIGHTS : DNNL_ARG_DIFF_WEIGHTS,
              packs_ ? dnnl_query_weights_md : dnnl_query_diff_weights_md, 0, &Pointers::weights, !packs_,
              describe_weights(l));
  if (l.epilogue.has_bias)
    add_operand(packs_ ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS,
                packs_ ? dnnl_query_weights_md : dnnl_query_diff_weights_md, 1, &Pointers::bias, !packs_,
                describe_bias(l.output.size[sdk::kC], l.bias_type));
}

void Way::add_operand(int argument, dnnl_query_t query, int index, void *Pointers::*place, bool written,
                      MemoryDesc theirs) {
  Operand operand = {argument, place, written, std::move(theirs), clone(implementation_.wants(query, index)), {}, 0};
  const bool packed = argument == DNNL_ARG_WEIGHTS;
  if (packed) {
    fingerprint_ = fingerprint(operand.own.get());
    packed_bytes_ = kHeaderBytes + bytes_of(operand.own.get());
  }
  if (packed || library().memory_desc_equal(operand.theirs.get(), operand.own.get()) == 0)
    make_reorder(operand, packed);
  operands_.push_back(std::move(operand));
}

void Way::make_reorder(Operand &operand, bool packs) {
  const MemoryDesc &from = operand.written ? operand.own : operand.theirs;
  const MemoryDesc &to = operand.written ? operand.theirs : operand.own;
  const Attributes attr = attributes(nullptr);
  PrimitiveDesc description;
  check(library().reorder_primitive_desc_create(description.out(), from.get(), library().engine, to.get(),
                                                library().engine, packs ? nullptr : attr.get()),
        "describing a reorder");
  operand.reorder = make(description);
  if (packs) return;
  operand.copy_offset = scratch_offset_;
  scratch_offset_ += sdk::aligned_bytes(bytes_of(operand.own.get()));
  ++moved_;
}

void Way::pack(const void *raw, void *packed) const {
  std::memset(packed, 0, kHeaderBytes);
  static_cast<Header *>(packed)->fingerprint = fingerprint_;
  for (const Operand &operand : operands_) {
    if (!is_packed(operand)) continue;
    Bound bound;
    bound.add(operand.reorder,
              {{DNNL_ARG_FROM, bound.memory(operand.theirs.get(), const_cast<void *>(raw))},
               {DNNL_ARG_TO, bound.memory(operand.own.get(), moved(packed, kHeaderBytes))}},
              true);
    bound.run();
  }
}

void *Way::own_place(const Operand &operand, const Pointers &pointers) const {
  if (moves(operand)) return moved(pointers.workspace, operand.copy_offset);
  return moved(pointers.*operand.place, is_packed(operand) ? kHeaderBytes : 0);
}

void Way::add_reorders(bool after, const Pointers &pointers, dnnl_memory_t scratch, Bound *bound) const {
  for (const Operand &operand : operands_) {
    if (!moves(operand) || operand.written != after) continue;
    dnnl_memory_t theirs = bound->memory(operand.theirs.get(), pointers.*operand.place);
    dnnl_memory_t own = bound->memory(operand.own.get(), own_place(operand, pointers));
    bound->add(
        operand.reorder,
        {{DNNL_ARG_FROM, after ? own : theirs}, {DNNL_ARG_TO, after ? theirs : own}, {DNNL_ARG_SCRATCHPAD, scratch}},
        true);
  }
}

std::unique_ptr<Bound> Way::bind(const Pointers &pointers) const {
  if (packs_ && static_cast<const Header *>(pointers.weights)->fingerprint != fingerprint_)
    throw sdk::Error(POLYCONV_UNSUPPORTED, "onednn: the weights are packed in another order than " +
                                               implementation_.name +
                                               " reads, expected weights that were packed with this plan");
  auto bound = std::make_unique<Bound>();
  dnnl_memory_t scratch =
      bound->memory(describe_bytes(scratch_bytes_).get(), moved(pointers.workspace, scratch_offset_));
  std::vector<dnnl_exec_arg_t> arguments = {{DNNL_ARG_SCRATCHPAD, scratch}};
  for (const Operand &operand : operands_)
    arguments.push_back({operand.argument, bound->memory(operand.own.get(), own_place(operand, pointers))});
  add_reorders(false, pointers, scratch, bound.get());
  bound->add(convolution_, std::move(arguments), false);
  add_reorders(true, pointers, scratch, bound.get());
  return bound;
}

} // namespace polyconv::onednn
