// kernels.cpp - see kernels.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "generated_page.hpp"

namespace {

namespace fs = std::filesystem;

// What stands between `before` and `after` in each line that begins with `before`.
std::vector<std::string> lines_between(const fs::path &file, const std::string &before, char after) {
  std::istringstream text(generated_page::contents(file.string()));
  std::vector<std::string> found;
  for (std::string line; std::getline(text, line);)
    if (line.rfind(before, 0) == 0)
      found.push_back(line.substr(before.size(), line.find(after, before.size()) - before.size()));
  return found;
}

std::string from_root(const fs::path &path, const fs::path &root) {
  return path.lexically_normal().lexically_relative(root.lexically_normal()).generic_string();
}

// The file <name>.cu or <name>.cpp in a folder `kernels`, or in whatever folder of the plug-in it has been put.
fs::path file_of(const fs::path &folder, const std::string &name) {
  std::vector<fs::path> found;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(folder))
    if (entry.path().stem() == name && (entry.path().extension() == ".cu" || entry.path().extension() == ".cpp"))
      found.push_back(entry.path());
  const auto in_kernels = std::find_if(found.begin(), found.end(),
                                       [](const fs::path &p) { return p.parent_path().filename() == "kernels"; });
  if (in_kernels != found.end()) return *in_kernels;
  if (found.size() != 1)
    throw std::runtime_error(folder.string() + ": kernels.inc lists " + name + ", and " + std::to_string(found.size()) +
                             " files have that name");
  return found.front();
}

// The folder of a kernel's own parts: that of the file where it is a family's, else the first folder below the
// plug-in's that the file includes from.
std::string parts_of(const fs::path &file, const fs::path &folder, const fs::path &root) {
  const auto is_family = [&](const fs::path &parts) {
    const std::string below = parts.lexically_relative(folder.lexically_normal()).generic_string();
    return below != "." && below.rfind("..", 0) != 0 && parts.filename() != "kernels" && parts.filename() != "common";
  };
  if (is_family(file.lexically_normal().parent_path())) return from_root(file.parent_path(), root);
  for (const std::string &include : lines_between(file, "#include \"", '"'))
    for (const fs::path &base : {root / "backends", root / "backends/cuda", folder, file.parent_path()}) {
      const fs::path parts = (base / include).lexically_normal().parent_path();
      if (fs::exists(base / include) && is_family(parts)) return from_root(parts, root);
    }
  return from_root(folder, root);
}

// Kernels by full name, and the page whose line "Kernels: " has it.
std::map<std::string, std::string> pages_of(const fs::path &root) {
  std::vector<fs::path> pages;
  for (const fs::directory_entry &entry : fs::recursive_directory_iterator(root / "docs/performance"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  std::map<std::string, std::string> page_of;
  for (const fs::path &page : pages)
    for (const std::string &line : lines_between(page, "Kernels: ", '\n')) {
      for (size_t begin = line.find('`'); begin != std::string::npos;) {
        const size_t end = line.find('`', begin + 1);
        if (end == std::string::npos) break;
        page_of.emplace(line.substr(begin + 1, end - begin - 1), from_root(page, root));
        begin = line.find('`', end + 1);
      }
    }
  return page_of;
}

} // namespace

std::vector<Kernel> read_kernels(const std::string &root_name) {
  const fs::path root(root_name);
  std::vector<std::pair<std::string, fs::path>> plug_ins = {{"threads", root / "backends/cpu"}};
  for (const fs::directory_entry &entry : fs::directory_iterator(root / "backends/cuda"))
    if (fs::exists(entry.path() / "kernels.inc"))
      plug_ins.emplace_back("cuda-" + entry.path().filename().string(), entry.path());
  std::sort(plug_ins.begin() + 1, plug_ins.end());
  const std::map<std::string, std::string> pages = pages_of(root);
  std::vector<Kernel> kernels;
  for (const auto &[plug_in, folder] : plug_ins)
    for (const std::string &line : lines_between(folder / "kernels.inc", "POLYCONV_", ')')) {
      const std::string sort = line.substr(0, line.find('(')), listed = line.substr(line.find('(') + 1);
      const std::string name = listed + (sort == "ADJOINT" ? "_data" : "");
      const fs::path file = file_of(folder, listed);
      const auto page = pages.find(plug_in + "/" + name);
      kernels.push_back({plug_in, name, from_root(file, root), parts_of(file, folder, root),
                         page == pages.end() ? "" : page->second});
    }
  return kernels;
}
