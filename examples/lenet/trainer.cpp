// trainer.cpp - see trainer.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <numeric>

#include "failure.hpp"
#include "report.hpp"

namespace lenet {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t interrupted = 0; // NOLINT: what a signal handler may write
void interrupt(int) {
  interrupted = 1;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Fisher and Yates, by a generator that depends on seed and epoch alone: a resumed run goes on as it would have.
std::vector<int32_t> shuffled(int64_t count, uint64_t seed, size_t epoch) {
  std::vector<int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  uint64_t state = (seed + 1) * 0x9e3779b97f4a7c15u + epoch * 0xd1b54a32d192ed03u;
  for (size_t i = order.size(); i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t high = (state ^ (state >> 29)) >> 16;
    std::swap(order[i - 1], order[high % i]);
  }
  return order;
}

// Half a cosine from the rate given down to a fiftieth.
double rate_in(const Checkpoint &run, size_t epoch) {
  const double done = static_cast<double>(epoch) / static_cast<double>(std::max(run.epochs, 1));
  return run.rate * (0.02 + 0.98 * 0.5 * (1 + std::cos(3.14159265358979323846 * done)));
}

class Trainer {
 public:
  Trainer(const Network &network, const Settings &settings, const Images &training, const Images &test,
          const Training &options)
      : options_(options),
        run_(starting_point(network, options)),
        network_(network),
        session_(settings),
        parameters_(network, settings, session_.device, Use::Train),
        model_(network, settings, session_.device, parameters_, run_.batch, Use::Train),
        set_(session_, training, run_.batch),
        examiner_(session_, network, parameters_, test, 1000, Use::Follow),
        progress_(session_.device, sizeof(Progress)),
        losses_(session_.device, static_cast<size_t>(set_.batches()) * sizeof(double)),
        hits_(session_.device, static_cast<size_t>(set_.batches()) * sizeof(int32_t)) {
    parameters_.set(session_, parameters_.values(), run_.values);
    parameters_.set(session_, parameters_.first(), run_.first);
    parameters_.set(session_, parameters_.second(), run_.second);
    parameters_.narrow(session_.steps, session_.stream.get());
    model_.pack(session_.stream.get());
    describe();
  }
  ~Trainer() {
    if (graph_ != nullptr) polyconv_graph_destroy(session_.device.get(), graph_);
  }
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;

  Checkpoint run() {
    const auto before = std::signal(SIGINT, interrupt);
    const int32_t last = options_.stop_after > 0 ? std::min(options_.stop_after, run_.epochs) : run_.epochs;
    while (run_.history.size() < static_cast<size_t>(last)) {
      run_.history.push_back(one_epoch());
      keep();
      print_epoch();
    }
    std::signal(SIGINT, before);
    return run_;
  }

 private:
  static Checkpoint starting_point(const Network &network, const Training &options) {
    if (options.resume) {
      Checkpoint there = read_checkpoint(options.checkpoint, network);
      if (there.first.empty())
        throw Failure(kExitFailed, options.checkpoint + ": holds weights alone; expected a checkpoint to resume from");
      if (options.run.epochs > 0) there.epochs = options.run.epochs;
      return there;
    }
    Checkpoint run = options.run;
    run.network = network.text();
    run.values = initial_values(network, run.seed);
    run.first.assign(run.values.size(), 0);
    run.second = run.first;
    return run;
  }

  void describe() const {
    if (options_.quiet) return;
    std::printf("%s on %s, %s, batches of %d, %s, rate %g, %lld parameters\n", network_.name.c_str(),
                session_.settings.device.c_str(), polyconv_type_name(session_.settings.type), run_.batch,
                run_.optimiser == kAdam ? "Adam" : "momentum", run_.rate,
                static_cast<long long>(parameters_.spans().parameters));
    for (size_t i = 0; i < model_.layers(); ++i) std::printf("layer %zu: %s\n", i + 1, model_.kernels(i).c_str());
  }

  // Everything between two batches: what the graph holds.
  void enqueue_step() {
    void *const stream = session_.stream.get();
    auto *const progress = static_cast<Progress *>(progress_.get());
    const Steps &steps = session_.steps;
    const int32_t type = session_.settings.type;
    const float scale = type == POLYCONV_F16 ? 1024 : 1; // keeps small gradients among f16's normal numbers
    check_step(steps.draw(set_.draw(network_, progress, model_.input(), type), stream));
    model_.forward(stream);
    check_step(steps.loss(
        {model_.scores(), set_.chosen(), model_.batch(), network_.classes(), progress, scale, model_.scores_gradient(),
         static_cast<double *>(losses_.get()), static_cast<int32_t *>(hits_.get()), nullptr},
        stream));
    model_.backward(stream);
    parameters_.widen_gradients(steps, stream);
    check_step(steps.update({parameters_.values(), parameters_.first(), parameters_.second(), parameters_.gradients(),
                             parameters_.spans().total, run_.optimiser, scale, progress},
                            stream));
    parameters_.narrow(steps, stream);
    model_.pack(stream);
    check_step(steps.advance(progress, stream));
  }

  void one_step() {
    const polyconv_device *device = session_.device.get();
    void *const stream = session_.stream.get();
    if (!tried_graph_) {
      tried_graph_ = true;
      const polyconv_status status = polyconv_graph_begin(device, stream);
      if (status == POLYCONV_SUCCESS) {
        enqueue_step();
        polyconv::require(polyconv_graph_end(device, stream, &graph_));
      } else if (status != POLYCONV_UNSUPPORTED) { // the CPU has none
        polyconv::require(status);
      }
    }
    if (graph_ != nullptr)
      polyconv::require(polyconv_graph_launch(device, graph_, stream));
    else
      enqueue_step();
  }

  Epoch one_epoch() {
    set_.set_order(session_, shuffled(set_.count(), run_.seed, run_.history.size()));
    session_.upload(progress_, std::vector<Progress>{{0, run_.updates + 1, rate_in(run_, run_.history.size())}});
    const auto start = Clock::now();
    auto shown = start;
    for (int64_t batch = 0; batch < set_.batches(); ++batch) {
      one_step();
      if (interrupted != 0) stop_here();
      if (seconds_since(shown) < 0.3 || batch + 1 == set_.batches()) continue;
      show_bar(batch + 1, losses_so_far(batch + 1), seconds_since(start));
      shown = Clock::now();
    }
    session_.synchronize();
    const double seconds = seconds_since(start), loss = losses_so_far(set_.batches());
    const auto hits = session_.download<int32_t>(hits_.get(), static_cast<size_t>(set_.batches()));
    run_.updates += set_.batches();
    const double seen = static_cast<double>(set_.batches() * model_.batch());
    const double right = static_cast<double>(std::accumulate(hits.begin(), hits.end(), int64_t{0})) / seen;
    return {loss, right, examiner_.accuracy(examiner_.guesses()), seconds};
  }

  // The mean; a batch whose loss is not finite ends the run.
  double losses_so_far(int64_t batches) {
    const auto losses = session_.download<double>(losses_.get(), static_cast<size_t>(batches));
    for (size_t i = 0; i < losses.size(); ++i)
      if (!std::isfinite(losses[i]))
        throw Failure(kExitFailed, "the loss is not finite at batch " + std::to_string(i + 1) + " of epoch " +
                                       std::to_string(run_.history.size() + 1) + ": try a smaller --rate than " +
                                       std::to_string(run_.rate) + kept());
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(batches);
  }

  std::string kept() const {
    if (options_.checkpoint.empty() || run_.history.empty()) return "";
    return "; " + options_.checkpoint + " keeps epoch " + std::to_string(run_.history.size());
  }

  [[noreturn]] void stop_here() const {
    session_.synchronize();
    throw Failure(kExitInterrupted, "interrupted in epoch " + std::to_string(run_.history.size() + 1) + kept());
  }

  void show_bar(int64_t batches, double loss, double seconds) const {
    if (options_.quiet || isatty(STDERR_FILENO) == 0) return;
    constexpr int kWidth = 30;
    const int done = static_cast<int>(kWidth * batches / set_.batches());
    std::string bar(static_cast<size_t>(done), '#');
    bar.resize(kWidth, '.');
    std::fprintf(stderr, "\repoch %zu [%s] loss %.4f  %.0f images/s ", run_.history.size() + 1, bar.c_str(), loss,
                 static_cast<double>(batches * model_.batch()) / seconds);
  }

  void keep() {
    run_.values = parameters_.get(session_, parameters_.values());
    run_.first = parameters_.get(session_, parameters_.first());
    run_.second = parameters_.get(session_, parameters_.second());
    if (!options_.checkpoint.empty()) write_checkpoint(options_.checkpoint, run_);
    if (!options_.curve.empty()) write_file(options_.curve, learning_curve(network_.name, run_.history));
  }

  void print_epoch() const {
    if (options_.quiet) return;
    if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%78s\r", "");
    const Epoch &last = run_.history.back();
    std::printf("epoch %2zu/%d  loss %.6f  training %.4f  test %.4f  %.3f s  %.0f images/s\n", run_.history.size(),
                run_.epochs, last.loss, last.training_accuracy, last.accuracy, last.seconds,
                static_cast<double>(set_.batches() * model_.batch()) / last.seconds);
    std::fflush(stdout);
  }

  const Training &options_;
  Checkpoint run_;
  const Network &network_;
  const Session session_;
  const Parameters parameters_;
  Model model_;
  const ImageSet set_;
  Examiner examiner_;
  const polyconv::Memory progress_, losses_, hits_;
  bool tried_graph_ = false;
  void *graph_ = nullptr;
};

} // namespace

Checkpoint train(const Network &network, const Settings &settings, const Images &training, const Images &test,
                 const Training &options) {
  return Trainer(network, settings, training, test, options).run();
}

} // namespace lenet
