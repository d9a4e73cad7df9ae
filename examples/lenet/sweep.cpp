// sweep.cpp - lenet time: the layers of a network over batches, and one of them over picture sizes and channels.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "commands.hpp"
#include "failure.hpp"
#include "stopwatch.hpp"

namespace lenet {
namespace {

constexpr int32_t kSmallNumbers = 0x3a; // as every byte of a float: neither zero nor denormal

void print_row(const std::string &what, const polyconv::Problem &p, double milliseconds, const std::string &kernel) {
  std::printf("%-14s %-58s %10.4f ms %9.1f GFLOP/s  %s\n", what.c_str(), p.token().c_str(), milliseconds,
              p.flops() / milliseconds * 1e-6, kernel.c_str());
}

void time_layers(const Session &session, const Network &network, const Parameters &parameters, int64_t batch) {
  Model model(network, session.settings, session.device, parameters, batch, Use::Test);
  void *const stream = session.stream.get();
  const int64_t bytes = model.problem(0).bytes(POLYCONV_TENSOR_INPUT);
  session.device.fill(model.input(), kSmallNumbers, static_cast<size_t>(bytes), stream);
  model.pack(stream);
  for (size_t layer = 0; layer < model.layers(); ++layer) model.forward_layer(layer, stream); // something to read
  for (size_t layer = 0; layer < model.layers(); ++layer)
    print_row("op time " + std::to_string(layer + 1), model.problem(layer),
              milliseconds(session, [&] { model.forward_layer(layer, stream); }), model.kernels(layer));
  const double all = milliseconds(session, [&] { model.forward(stream); });
  std::printf("batch %-8lld %.4f ms, %.0f images/s%s\n\n", static_cast<long long>(batch), all,
              static_cast<double>(batch) / all * 1000,
              model.fused() ? (", one plan: " + model.chain_kernels()).c_str() : "");
}

// One convolution alone.
void time_problem(const Session &session, const std::string &what, const polyconv::Problem &problem) {
  polyconv::Options options;
  options.kernel = session.settings.kernel.empty() ? nullptr : session.settings.kernel.c_str();
  options.threads = session.settings.threads;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  const polyconv::Plan plan(problem, options, session.device);
  const auto block = [&](int64_t bytes) {
    polyconv::Memory memory(session.device, static_cast<size_t>(bytes));
    session.device.fill(memory.get(), kSmallNumbers, memory.bytes(), session.stream.get());
    return memory;
  };
  const polyconv::Memory input = block(problem.bytes(POLYCONV_TENSOR_INPUT));
  const polyconv::Memory weights = block(problem.bytes(POLYCONV_TENSOR_WEIGHTS));
  const polyconv::Memory bias = block(problem.out_channels * static_cast<int64_t>(sizeof(float)));
  const polyconv::Memory output = block(problem.bytes(POLYCONV_TENSOR_OUTPUT));
  const polyconv::Memory workspace = block(plan.info().workspace_bytes);
  const polyconv::Weights packed(plan, 0, weights.get(), nullptr, session.stream.get());
  polyconv::Buffers buffers;
  buffers.input = input.get(), buffers.output = output.get();
  buffers.packed[0] = packed.get();
  buffers.bias[0] = bias.get();
  buffers.workspace = workspace.get(), buffers.workspace_size = workspace.bytes();
  print_row(what, problem, milliseconds(session, [&] { plan.run(buffers, session.stream.get()); }), plan.info().kernel);
}

polyconv::Problem largest(const std::vector<polyconv::Problem> &problems) {
  size_t best = 0;
  for (size_t i = 0; i < problems.size(); ++i)
    if (problems[i].flops() > problems[best].flops()) best = i;
  return problems[best];
}

} // namespace

void sweep(const Network &network, const Settings &settings, const std::vector<int64_t> &batches) {
  const Session session(settings);
  const Parameters parameters(network, settings, session.device, Use::Test);
  for (const int64_t batch : batches) {
    if (batch < 1) throw Failure(kExitUsage, "--batch is " + std::to_string(batch) + "; expected at least 1");
    time_layers(session, network, parameters, batch);
  }
  const polyconv::Problem base = largest(network.problems(batches.front(), settings.type));
  for (const int64_t factor : {1, 2, 4}) {
    polyconv::Problem p = base;
    for (int64_t &size : p.input_size) size *= factor;
    time_problem(session, "size x" + std::to_string(factor), p);
  }
  for (const int64_t factor : {1, 2, 4, 8}) {
    polyconv::Problem p = base;
    p.in_channels *= factor, p.out_channels *= factor;
    time_problem(session, "channels x" + std::to_string(factor), p);
  }
}

} // namespace lenet
