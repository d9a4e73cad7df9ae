// network.hpp - how the layers and operators of one region hang together, sizes apart.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_NETWORK_HPP
#define POLYCONV_ORT_NETWORK_HPP

#include <memory>
#include <vector>

#include "run/layer.hpp"
#include "run/pass.hpp"

namespace polyconv_ort {

struct Network {
  struct Link { // a layer or an operator, and the tensors that it reads and writes, by number
    std::shared_ptr<Layer> layer;
    std::shared_ptr<Pass> pass; // where there is no layer
    std::vector<int> reads;     // of a layer the input, then the residual, if there is one
    int output;
    int input() const { return reads[0]; }
    int residual() const { return layer && reads.size() > 1 ? reads[1] : -1; }
  };
  struct Tensor {
    int input = -1;  // the fused node's input that it is, -1 for none
    int output = -1; // the fused node's output that it is, -1 for none
  };
  std::vector<Link> links; // in an order in which they can run
  std::vector<Tensor> tensors;

  // The tensors that a piece, links one behind the other, reads from outside it.
  std::vector<int> read_by(const std::vector<int> &piece) const {
    std::vector<int> result = links[piece[0]].reads;
    for (size_t k = 1; k < piece.size(); ++k)
      if (links[piece[k]].residual() >= 0) result.push_back(links[piece[k]].residual());
    return result;
  }
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_NETWORK_HPP
