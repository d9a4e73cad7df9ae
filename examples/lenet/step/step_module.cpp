// step_module.cpp - finds the steps of a device: the CPU's are linked in, the GPU's lie in a module beside the program.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "failure.hpp"
#include "lenet_step.hpp"

namespace lenet {

const Steps &steps_for(const char *device) {
  if (std::string(device).rfind("cuda", 0) != 0) return *lenet_cpu_steps();
  std::error_code unreadable;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  const std::string path = (program.parent_path() / "lenet_step_cuda.so").string();
  void *module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // kept to the end of the program
  if (module == nullptr) throw Failure(kExitUnavailable, std::string("the GPU's part of this program: ") + dlerror());
  const auto entry = reinterpret_cast<const Steps *(*)()>(dlsym(module, LENET_CUDA_ENTRY));
  if (entry == nullptr) throw Failure(kExitUnavailable, path + ": lacks " LENET_CUDA_ENTRY);
  return *entry();
}

} // namespace lenet
