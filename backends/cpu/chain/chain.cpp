// chain.cpp - two layers and more of a chain by bands of rows: each row that a layer makes is read by the next one from
// the cache, and what lies between layers never reaches memory. Any forward layers of 2D images that the kernels image,
// depthwise, dense and direct take, with poolings and residuals between them.
//
// Floor: the sums of the layers' own kernels from the cache; one read of the chain's input and one write of its result.
// Made of other kernels alone: it has no code of its own for an instruction set.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain/driver.hpp"

#include "cpu/common/count.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

// Where every stage of a strip stands.
struct Strip {
  int64_t image;
  char *workspace;
  Span columns[kMostStages];
  int64_t next[kMostStages];  // the row that it makes next
  int64_t until[kMostStages]; // and the one that it need not make for this band
  int64_t base[kMostStages];  // the row at the beginning of its buffer
};

class ChainInstance final : public Instance {
 public:
  ChainInstance(const polyconv_request &request, Isa isa) {
    Offer offer{};
    if (!chain_plan(request, isa, plan_, offer)) throw Error(POLYCONV_INTERNAL, offer.reason);
    for (int32_t i = 0; i < plan_.count; ++i) {
      ChainStage &stage = plan_.stages[i];
      const bool pools = stage.op == POLYCONV_OP_POOL; // whose windows end with the tensor, as if padded with a value
      const int32_t pad_mode = pools ? int32_t{POLYCONV_PAD_ZERO} : stage.layer.pad_mode;
      tables_.push_back(make_axis_table(pad_mode, stage.rows));
      tables_.push_back(make_axis_table(pad_mode, stage.columns));
      instances_.push_back(stage_create(request, stage, isa));
    }
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int layer, const void *raw, void *packed, void *stream) override {
    for (int32_t i = 0; i < plan_.count; ++i)
      if (plan_.stages[i].index == layer && plan_.stages[i].op == POLYCONV_OP_CONVOLVE)
        instances_[static_cast<size_t>(i)]->pack(0, raw, packed, stream);
  }

  void run(const polyconv_arguments &a, void *) const override {
    run_tasks(parallel_, plan_.tasks, [&](int64_t task) {
      const Share mine = share(bands_of(plan_), plan_.tasks, task);
      Strip strip;
      strip.workspace = static_cast<char *>(a.workspace) + task * plan_.task_bytes;
      for (int64_t band = mine.begin; band < mine.end;) {
        const int64_t first = band % plan_.bands, last = std::min(plan_.bands, first + mine.end - band);
        strip.image = band / plan_.bands / plan_.strips;
        run_strip(a, strip, band / plan_.bands % plan_.strips, first, last);
        band += last - first;
      }
    });
  }

 private:
  // Bands [first, last) of a strip of columns.
  void run_strip(const polyconv_arguments &a, Strip &strip, int64_t column, int64_t first, int64_t last) const {
    set_columns(strip, column * plan_.width);
    begin_strip(strip, first * plan_.band);
    for (int64_t band = first; band < last; ++band) {
      set_targets(strip, std::min((band + 1) * plan_.band, plan_.rows));
      for (int32_t i = 0; i < plan_.count; ++i)
        if (strip.until[i] > strip.next[i]) {
          make_room(strip, i);
          run_stage(a, strip, i);
          strip.next[i] = strip.until[i];
        }
    }
  }

  // The columns that every stage makes for a strip of results.
  void set_columns(Strip &strip, int64_t column) const {
    int32_t i = plan_.count - 1;
    Span columns = {column, std::min(column + plan_.width, plan_.stages[i].columns.out)};
    for (;; --i) {
      strip.columns[i] = columns;
      if (i == 0) return;
      if (plan_.strips == 1) {
        columns = {0, plan_.stages[i - 1].columns.out};
      } else {
        columns = read_by(plan_.stages[i].columns, columns.begin, columns.end);
        columns.begin = columns.begin / kColumns * kColumns;
      }
    }
  }

  // The first row that any stage after stage i will still read of it.
  int64_t first_needed(const Strip &strip, int32_t i) const {
    const Axis &reader = plan_.stages[i + 1].rows;
    int64_t row = read_by(reader, strip.next[i + 1], reader.out).begin;
    for (int32_t later = i + 2; later < plan_.count; ++later)
      if (plan_.stages[later].residual == i) row = std::min(row, strip.next[later]);
    return row;
  }

  void begin_strip(Strip &strip, int64_t row) const {
    strip.next[plan_.count - 1] = row;
    for (int32_t i = plan_.count - 2; i >= 0; --i) strip.next[i] = strip.base[i] = first_needed(strip, i);
  }

  // How far every stage must get for the last one to reach row `end`.
  void set_targets(Strip &strip, int64_t end) const {
    strip.until[plan_.count - 1] = end;
    for (int32_t i = plan_.count - 2; i >= 0; --i) {
      strip.next[i] = std::max(strip.next[i], first_needed(strip, i)); // a stride may leave rows out
      strip.until[i] = strip.next[i];
      const auto reach = [&](int64_t row) { strip.until[i] = std::max(strip.until[i], row); };
      const int64_t from = strip.next[i + 1], to = strip.until[i + 1];
      if (to > from) reach(read_by(plan_.stages[i + 1].rows, from, to).end);
      for (int32_t later = i + 2; later < plan_.count; ++later)
        if (plan_.stages[later].residual == i) reach(strip.until[later]);
    }
  }

  // Moves the rows that are still needed to the front where the new ones would not fit behind them.
  void make_room(Strip &strip, int32_t i) const {
    const ChainStage &s = plan_.stages[i];
    if (i + 1 == plan_.count || strip.until[i] - strip.base[i] <= s.kept) return;
    const int64_t first = first_needed(strip, i);
    const int64_t from = (first - strip.base[i]) * s.row_bytes, bytes = (strip.next[i] - first) * s.row_bytes;
    char *plane = strip.workspace + s.at;
    for (int64_t p = 0; p < s.planes; ++p, plane += s.kept * s.row_bytes)
      std::memmove(plane, plane + from, static_cast<size_t>(bytes));
    strip.base[i] = first;
  }

  // Where row 0 and column 0 of what stage i makes would lie.
  void *row_zero(const Strip &strip, int32_t i) const {
    const ChainStage &s = plan_.stages[i];
    const polyconv_tensor &kept = s.layer.result;
    const int64_t before = strip.columns[i].begin * kept.stride[kW] * type_bytes(kept.type);
    return strip.workspace + s.at - strip.base[i] * s.row_bytes - before;
  }

  const void *residual_of(const polyconv_arguments &a, const Strip &strip, const ChainStage &s) const {
    if (s.residual >= 0) return row_zero(strip, s.residual);
    if (s.residual == kNoStage) return nullptr;
    const void *whole = s.residual == kChainInput ? a.input : a.residual[s.index];
    return image_of(const_cast<void *>(whole), s.layer.residual, strip.image);
  }

  void run_stage(const polyconv_arguments &a, const Strip &strip, int32_t i) const {
    const ChainStage &s = plan_.stages[i];
    const bool last = i + 1 == plan_.count;
    polyconv_arguments one{};
    one.struct_size = sizeof one;
    one.input = i == 0 ? image_of(a.input, s.layer.input, strip.image) : row_zero(strip, i - 1);
    one.output = last ? image_of(a.output, s.layer.result, strip.image) : row_zero(strip, i);
    one.weights[0] = a.weights[s.index];
    one.bias[0] = a.bias[s.index];
    one.scale[0] = a.scale[s.index];
    if (s.layer.epilogue.activation == POLYCONV_ACT_PRELU) one.slope[0] = a.slope[s.index];
    one.residual[0] = residual_of(a, strip, s);
    one.workspace = strip.workspace + plan_.scratch_at;
    const Span columns = strip.columns[i];
    const RowWindow window = {{&s.rows, strip.next[i], strip.until[i] - strip.next[i]},
                              {&s.columns, columns.begin, columns.end - columns.begin},
                              i == 0 && plan_.from_memory,
                              last && plan_.to_memory,
                              s.highest};
    instances_[static_cast<size_t>(i)]->run_rows(one, window);
  }

  static void *image_of(void *tensor, const polyconv_tensor &t, int64_t image) {
    return static_cast<char *>(tensor) + image * t.stride[kN] * type_bytes(t.type);
  }

  ChainPlan plan_;
  std::vector<std::vector<int64_t>> tables_; // of the stages' rows and columns
  std::vector<std::unique_ptr<RowInstance>> instances_;
  std::unique_ptr<Parallel> parallel_;
};

bool chain_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  ChainPlan plan;
  return chain_plan(request, isa, plan, offer);
}

} // namespace

const Kernel kernel_chain = kernel_by_isa("chain", supports_by_isa<chain_offer>, create_by_isa<ChainInstance>);

} // namespace polyconv::cpu
