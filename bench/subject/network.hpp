// network.hpp - all layers of a network made ready, to be run one after the other on one stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "result/record.hpp"
#include "subject/buffers.hpp"
#include "subject/planned.hpp"
#include "subject/runnable.hpp"

namespace polyconv::bench {

// Bytes of a network's tensors in the pool; packed weights and workspace left out.
int64_t network_bytes(const Work &network);

// Each distinct layer is planned once; each occurrence has weights of its own, so that they come from memory as in the
// real network. But the layers do not feed on each other: all read one input that nobody writes, and write one output
// that nobody reads. Activations of a chain without its normalisations would overflow, and data that are mostly
// infinite or zero flip fewer bits, take less power and so flatter the clocks.
class Network final : public Runnable {
 public:
  // Plans, packs and runs once. Two networks share tensors as two subjects do, but not `workspace`. Throws Unable,
  // whose reason names the layer.
  Network(const polyconv_device *device, const Work &network, const PlanRequest &request, BufferPool &pool,
          const std::string &workspace, int64_t memory_limit);

  void submit() override;
  std::string kernel() const override; // "40x cuda-tensor/wgmma, 13x cuda-gemm/implicit"
  std::string math() const override;

  std::vector<LayerLine> layers() const;
  int64_t workspace_bytes() const; // shared by all layers
  int64_t weights_bytes() const;   // packed, of all occurrences
  int32_t threads() const;
  double estimate_us() const, plan_us() const;
  std::optional<double> pack_us() const; // none where all weights are raw
  double first_us() const { return first_us_; }

 private:
  void make_plans(const PlanRequest &request);
  void check_memory(int64_t memory_limit) const;
  void make_ready(BufferPool &pool, const std::string &workspace);

  const Work &network_;
  std::vector<Planned> plans_; // as network_.layers
  std::vector<Ready> runs_;    // in order, each occurrence
  double first_us_ = 0;
};

} // namespace polyconv::bench
