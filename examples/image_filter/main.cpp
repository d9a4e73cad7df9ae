// image_filter - filters a photograph: PNG, JPEG or PPM in, PNG or PPM out, on the backend that the library chooses, on
// one that you name, or on all of them for comparison. An example of the whole C API on real data.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "session.hpp"

namespace {

struct Arguments {
  std::string input, output;
  std::string filter = "gaussian";
  std::string filter_file;
  int64_t size = 5;
  Settings settings;
};

std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

void declare(CLI::App &app, Arguments &a) {
  app.add_option("input", a.input, "PNG, JPEG, or binary PPM or PGM, 8 or 16 bits a sample; alpha is kept as it is")
      ->required();
  app.add_option("output", a.output, "PNG, PPM or PGM to write, by its name")->required();
  CLI::Option *filter = app.add_option("--filter", a.filter, joined(filter_names()) + " (default gaussian)");
  CLI::Option *size = app.add_option("--size", a.size, "rows and columns of the filter, odd, 3 to 63 (default 5)");
  app.add_option("--filter-file", a.filter_file, "a filter of your own: a text file with rows of numbers")
      ->excludes(filter)
      ->excludes(size);
  app.add_option("--border", a.settings.border, joined(border_names()) + " (default reflect)")
      ->check(CLI::IsMember(border_names()));
  app.add_option("--border-value", a.settings.border_value,
                 "what --border constant reads, 0 to 255, of 16 bits to 65535 (default 0)");
  CLI::Option *kernel = app.add_option("--kernel", a.settings.kernel, "polyconv kernels to choose among, as a glob");
  app.add_option("--backend", a.settings.backend,
                 "one backend by name; 'all' writes one picture each and compares them")
      ->excludes(kernel);
  app.add_option("--band-memory", a.settings.band_megabytes,
                 "MiB that a run may take: larger pictures are filtered band by band (default 256)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", a.settings.threads, "CPU threads (default: all)");
}

// "photo.png" and "tbb" give "photo-tbb.png".
std::string named_after(const std::string &path, const std::string &backend) {
  const size_t dot = path.rfind('.');
  return path.substr(0, dot) + "-" + backend + path.substr(dot);
}

// How a picture relates to the first one, in words.
std::string comparison(const Image &first, const Image &image) {
  int largest = 0;
  int64_t values = 0;
  for (int64_t i = 0; i < first.samples(); ++i) {
    const int difference = std::abs(first.sample(i) - image.sample(i));
    largest = difference > largest ? difference : largest;
    values += difference != 0;
  }
  if (values == 0) return "yes";
  return "no, " + std::to_string(values) + " values by <= " + std::to_string(largest);
}

// Every backend that loads, compared with the reference, or with the first where there is none.
void filter_everywhere(const Image &image, const Filter &filter, const Arguments &arguments) {
  std::vector<std::string> backends = available_backends();
  for (size_t i = 1; i < backends.size(); ++i)
    if (backends[i] == "reference") std::swap(backends[0], backends[i]);
  if (backends.empty()) throw Failure(kExitUnavailable, "no backend was found");
  std::printf("%-14s %-36s %9s  %-26s %s\n", "backend", "kernel", "ms", "identical", "file");
  Image first;
  for (const std::string &backend : backends) {
    Settings settings = arguments.settings;
    settings.backend = backend;
    const std::string path = named_after(arguments.output, backend);
    try {
      const Outcome outcome = apply(image, filter, settings);
      write_image(path, outcome.image);
      if (first.pixels.empty()) first = outcome.image;
      std::printf("%-14s %-36s %9.3f  %-26s %s\n", backend.c_str(), outcome.kernel.c_str(), outcome.milliseconds,
                  comparison(first, outcome.image).c_str(), path.c_str());
    } catch (const Failure &failure) {
      if (failure.code() != kExitUnsupported) throw;
      std::printf("%-14s %s\n", backend.c_str(), failure.what());
    }
  }
}

void filter_picture(const Arguments &arguments) {
  format_of(arguments.output); // before the work
  const Filter filter = arguments.filter_file.empty() ? named_filter(arguments.filter, arguments.size)
                                                      : filter_from_file(arguments.filter_file);
  const Image image = read_image(arguments.input);
  if (arguments.settings.backend == "all") return filter_everywhere(image, filter, arguments);
  const Outcome outcome = apply(image, filter, arguments.settings);
  write_image(arguments.output, outcome.image);
  std::printf("%s, %s, %.3f ms\n", arguments.output.c_str(), outcome.kernel.c_str(), outcome.milliseconds);
}

} // namespace

int main(int argc, char **argv) {
  try {
    CLI::App app{"Filters a photograph with polyconv", "image_filter"};
    Arguments arguments;
    declare(app, arguments);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
      return app.exit(error) == 0 ? kExitGood : kExitUsage;
    }
    filter_picture(arguments);
    return kExitGood;
  } catch (const Failure &failure) {
    std::fprintf(stderr, "image_filter: %s\n", failure.what());
    return failure.code();
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "image_filter: out of memory\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "image_filter: %s\n", error.what());
  }
  return kExitFailed;
}
