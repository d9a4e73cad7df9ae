// examine.cpp - lenet test: how good a trained network is, and how long its layers take.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "checkpoint.hpp"
#include "commands.hpp"
#include "report.hpp"
#include "stopwatch.hpp"

namespace lenet {

double examine(const Network &network, const Settings &settings, const Images &test, const Examination &examination) {
  const Checkpoint trained = read_checkpoint(examination.weights, network);
  const Session session(settings);
  const Parameters parameters(network, settings, session.device, Use::Test);
  parameters.set(session, parameters.values(), trained.values);
  parameters.narrow(session.steps, session.stream.get());
  Examiner examiner(session, network, parameters, test, examination.batch, Use::Test);
  const std::vector<uint8_t> guesses = examiner.guesses();
  const double accuracy = examiner.accuracy(guesses);
  std::printf("%s on %s, %s: accuracy %.4f of %lld images\n", network.name.c_str(), settings.device.c_str(),
              polyconv_type_name(settings.type), accuracy, static_cast<long long>(test.count));
  if (!examination.confusion.empty())
    write_file(examination.confusion,
               confusion_matrix(network.name + ": accuracy " + std::to_string(accuracy).substr(0, 6), test.labels,
                                guesses, network.classes()));
  examiner.draw_first();
  const Model &model = examiner.model();
  for (size_t layer = 0; layer < model.layers(); ++layer)
    std::printf("op time %zu: %.4f ms for %lld images, %s\n", layer + 1,
                milliseconds(session, [&] { model.forward_layer(layer, session.stream.get()); }),
                static_cast<long long>(model.batch()), model.kernels(layer).c_str());
  if (model.fused())
    std::printf("op time all: %.4f ms for %lld images, %s\n",
                milliseconds(session, [&] { model.forward(session.stream.get()); }),
                static_cast<long long>(model.batch()), model.chain_kernels().c_str());
  return accuracy;
}

} // namespace lenet
