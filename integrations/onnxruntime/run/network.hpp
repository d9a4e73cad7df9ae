// network.hpp - how the layers of one region hang together, sizes apart.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_NETWORK_HPP
#define POLYCONV_ORT_NETWORK_HPP

#include <memory>
#include <vector>

#include "run/layer.hpp"

namespace polyconv_ort {

struct Network {
  struct Link { // a layer, and the tensors that it reads and writes, by number
    std::shared_ptr<Layer> layer;
    int input, residual = -1, output;
  };
  struct Tensor {
    int input = -1;  // the fused node's input that it is, -1 for none
    int output = -1; // the fused node's output that it is, -1 for none
  };
  std::vector<Link> links; // in an order in which they can run
  std::vector<Tensor> tensors;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_NETWORK_HPP
