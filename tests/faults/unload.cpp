// unload.cpp - a program that does not link libpolyconv but opens it, convolves, and closes it, twenty times; then it
// ends, with whatever threads the plug-ins have started. The library's path is LIBRARY.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include <cstdio>
#include <vector>

#include <dlfcn.h>

namespace {

template <class Function>
Function *symbol(void *library, const char *name) {
  return reinterpret_cast<Function *>(dlsym(library, name));
}

bool convolve_once(void *library) {
  const auto init = symbol<void(polyconv_problem *, size_t)>(library, "polyconv_problem_init_sized");
  const auto buffers_init = symbol<void(polyconv_buffers *, size_t)>(library, "polyconv_buffers_init_sized");
  const auto convolve = symbol<decltype(polyconv_convolve)>(library, "polyconv_convolve");
  polyconv_problem problem;
  init(&problem, sizeof problem);
  problem.in_channels = problem.out_channels = 16;
  problem.input_size[0] = problem.input_size[1] = 16;
  std::vector<float> input(16 * 256, 1.0f), weights(256, 1.0f), output(16 * 256);
  polyconv_buffers buffers;
  buffers_init(&buffers, sizeof buffers);
  buffers.input = input.data();
  buffers.weights[0] = weights.data();
  buffers.output = output.data();
  return convolve(nullptr, &problem, 1, nullptr, &buffers) == POLYCONV_SUCCESS && output[100] == 16.0f;
}

} // namespace

int main() {
  int good = 0;
  for (int i = 0; i < 20; ++i) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    good += convolve_once(library) ? 1 : 0;
    dlclose(library);
    if (dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD) == nullptr) {
      std::fprintf(stderr, "the library is gone, and plug-ins hold its table\n");
      return 1;
    }
  }
  std::printf("%d times\n", good);
  return good == 20 ? 0 : 1;
}
