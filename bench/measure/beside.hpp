// beside.hpp - a busy neighbour: threads that compute beside a measurement, as other programs do on people's machines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace polyconv::bench {

// So many threads that never wait, until it is destroyed. Throws Unable where the system gives fewer.
class Beside {
 public:
  explicit Beside(int threads);
  ~Beside();
  Beside(const Beside &) = delete;
  Beside &operator=(const Beside &) = delete;

 private:
  void stop();

  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

} // namespace polyconv::bench
