// main.cpp - lenet: trains, tests and times small convolutional networks with polyconv alone.
//
//   lenet train --net nets/strided.net --epochs 10 --checkpoint strided.lenet --curve curve.svg
//   lenet test --net nets/strided.net --weights strided.lenet --confusion confusion.svg
//   lenet time --net nets/lenet86.net --batch 100,1000,5000,10000 --device cuda:0
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>

#include "commands.hpp"
#include "failure.hpp"
#include "trainer.hpp"

namespace {

using namespace lenet;

struct Arguments {
  std::string net, data = fashion_folder(), type = "f32", optimiser = "adam", export_to;
  int64_t most = 0, batch = 0;
  double least_accuracy = 0;
  std::vector<int64_t> batches = {100, 1000, 5000, 10000};
  Settings settings;
  Training training;
  Examination examination;
};

const std::map<std::string, int32_t> kTypes = {{"f32", POLYCONV_F32}, {"f16", POLYCONV_F16}, {"bf16", POLYCONV_BF16}};

void declare_common(CLI::App &command, Arguments &a) {
  command.add_option("--net", a.net, "Network file")->required();
  command.add_option("--device", a.settings.device, "cpu, or cuda:0")->capture_default_str();
  command.add_option("--dtype", a.type, "f32, f16 or bf16: what the kernels read and write")->capture_default_str();
  command.add_option("--kernel", a.settings.kernel, "Glob over full kernel names, as in 'openmp/*'");
  command.add_option("--threads", a.settings.threads, "CPU threads; 0: all")->capture_default_str();
}

void declare_data(CLI::App &command, Arguments &a) {
  command.add_option("--data", a.data, "Folder of IDX files; Fashion-MNIST's package where it is installed")
      ->capture_default_str();
  command.add_option("--images", a.most, "Take so many images; 0: all")->capture_default_str();
}

void declare(CLI::App &app, Arguments &a) {
  app.require_subcommand(1);
  CLI::App &train = *app.add_subcommand("train", "Trains a network, an epoch a line");
  declare_common(train, a);
  declare_data(train, a);
  train.add_option("--epochs", a.training.run.epochs, "Passes over the images")->check(CLI::Range(1, 100000));
  train.add_option("--batch", a.batch, "Images a step")->check(CLI::Range(1, 1000000));
  train.add_option("--optimiser", a.optimiser, "adam or momentum")->check(CLI::IsMember({"adam", "momentum"}));
  train.add_option("--rate", a.training.run.rate, "Learning rate; 0: the optimiser's usual one");
  train.add_option("--seed", a.training.run.seed, "Of weights and order")->capture_default_str();
  train.add_option("--stop-after", a.training.stop_after, "Ends after that epoch of --epochs; --resume goes on");
  train.add_option("--checkpoint", a.training.checkpoint, "Written after every epoch");
  train.add_flag("--resume", a.training.resume, "Goes on from --checkpoint, with its batch, optimiser, rate and seed");
  train.add_option("--curve", a.training.curve, "Learning curve (SVG), after every epoch");
  train.add_option("--export", a.export_to, "The weights alone, as f16");
  CLI::App &test = *app.add_subcommand("test", "Tells a trained network's accuracy and the time of its layers");
  declare_common(test, a);
  declare_data(test, a);
  test.add_option("--weights", a.examination.weights, "Checkpoint, or exported weights")->required();
  test.add_option("--batch", a.batch, "Images at a time")->check(CLI::Range(1, 1000000));
  test.add_flag("--fused", a.settings.fused, "All layers in one plan, which fuses where that is faster");
  test.add_option("--confusion", a.examination.confusion, "Confusion matrix (SVG)");
  test.add_option("--expect", a.least_accuracy, "Fails below this accuracy");
  CLI::App &time = *app.add_subcommand("time", "Times the layers over batches, sizes and channels");
  declare_common(time, a);
  time.add_flag("--fused", a.settings.fused, "All layers in one plan too, which fuses where that is faster");
  time.add_option("--batch", a.batches, "Comma list")->delimiter(',')->capture_default_str();
}

Images images_for(const Arguments &a, const Network &network, const std::string &part) {
  if (a.data.empty())
    throw Failure(kExitFailed, "--data names no folder, and the package dataset-fashion-mnist is not installed");
  Images images = read_images(a.data, part, network.classes());
  if (images.rows != network.rows || images.columns != network.columns)
    throw Failure(kExitFailed, a.data + ": holds images of " + std::to_string(images.rows) + "x" +
                                   std::to_string(images.columns) + "; expected " + std::to_string(network.rows) + "x" +
                                   std::to_string(network.columns) + ", as " + network.name + " says");
  images.keep(a.most);
  return images;
}

void train_command(const Network &network, Arguments &a) {
  Checkpoint &run = a.training.run;
  if (a.training.resume && a.training.checkpoint.empty())
    throw Failure(kExitUsage, "--resume goes on from a file; expected --checkpoint FILE");
  run.optimiser = a.optimiser == "adam" ? kAdam : kMomentum;
  run.batch = a.batch > 0 ? static_cast<int32_t>(a.batch) : 128;
  if (run.epochs == 0 && !a.training.resume) run.epochs = 10;
  if (!(run.rate >= 0)) throw Failure(kExitUsage, "--rate is negative; expected more than 0");
  if (run.rate <= 0) run.rate = run.optimiser == kAdam ? 0.003 : 0.05;
  const Images images = images_for(a, network, "train"), test = images_for(a, network, "t10k");
  Checkpoint trained = train(network, a.settings, images, test, a.training);
  if (a.export_to.empty()) return;
  trained.first.clear(), trained.second.clear();
  trained.half = true;
  write_checkpoint(a.export_to, trained);
}

void test_command(const Network &network, Arguments &a) {
  if (a.batch > 0) a.examination.batch = a.batch;
  const double accuracy = examine(network, a.settings, images_for(a, network, "t10k"), a.examination);
  if (accuracy < a.least_accuracy)
    throw Failure(kExitFailed, "accuracy is " + std::to_string(accuracy) + "; expected at least " +
                                   std::to_string(a.least_accuracy));
}

void run(const CLI::App &app, Arguments &a) {
  const auto type = kTypes.find(a.type);
  if (type == kTypes.end()) throw Failure(kExitUsage, "--dtype is '" + a.type + "'; expected f32, f16 or bf16");
  a.settings.type = type->second;
  const Network network = read_network(a.net);
  if (app.got_subcommand("train")) return train_command(network, a);
  if (app.got_subcommand("test")) return test_command(network, a);
  sweep(network, a.settings, a.batches);
}

ExitCode code_of(polyconv_status status) {
  return status == POLYCONV_INVALID_ARGUMENT ? kExitUsage
         : status == POLYCONV_UNAVAILABLE    ? kExitUnavailable
         : status == POLYCONV_UNSUPPORTED    ? kExitUnsupported
                                             : kExitFailed;
}

} // namespace

int main(int argc, char **argv) {
  int code = kExitFailed;
  try {
    CLI::App app{"Trains and tests small convolutional networks with polyconv", "lenet"};
    Arguments arguments;
    declare(app, arguments);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
      return app.exit(error) == 0 ? kExitGood : kExitUsage;
    }
    run(app, arguments);
    return kExitGood;
  } catch (const Failure &failure) {
    std::fprintf(stderr, "lenet: %s\n", failure.what());
    code = failure.code();
  } catch (const polyconv::Error &error) {
    std::fprintf(stderr, "lenet: %s\n", error.what());
    code = code_of(error.status());
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "lenet: out of memory\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "lenet: %s\n", error.what());
  }
  return code;
}
