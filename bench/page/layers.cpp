// layers.cpp - where the time of a network goes, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "page/figures.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr size_t kMost = 24; // layers that are shown; the others are one bar

struct Layer {
  std::string name, kernel;
  double us; // of all its occurrences
  size_t row;
};

struct Network {
  std::string name;
  std::vector<Layer> layers;
};

// Suites whose rows have names of layers, one network a device.
std::vector<Network> suites_of(const std::vector<Row> &rows) {
  std::vector<Network> networks;
  for (const Row &row : chosen_of(rows)) {
    if (!row.good() || !row.us || row.suite.empty() || row.name.empty() || row.name == row.problem) continue;
    const std::string name = row.suite + " on " + row.device;
    auto found = std::find_if(networks.begin(), networks.end(), [&](const Network &n) { return n.name == name; });
    if (found == networks.end()) found = networks.insert(found, {name, {}});
    const std::string times = row.count > 1 ? format(" ×%lld", static_cast<long long>(row.count)) : "";
    found->layers.push_back({row.name + times, family_of(row.kernel), row.all_us(), row.index});
  }
  return networks;
}

// Rows that are networks, with the times that --profile found.
std::vector<Network> profiles_of(const std::vector<Row> &rows, const std::vector<Result> &results) {
  std::vector<Network> networks;
  for (size_t i = 0; i < rows.size() && i < results.size(); ++i) {
    Network network = {rows[i].problem + " on " + rows[i].device, {}};
    for (const ProfileLine &line : results[i].profile) {
      if (line.kind != "layer") continue;
      // "3x conv1: threads/dense@avx512", as measure/profile.cpp writes it.
      const size_t colon = line.name.find(": "), times = line.name.find_first_not_of("0123456789");
      const bool counted = times != std::string::npos && times > 0 && line.name.compare(times, 2, "x ") == 0;
      std::string name = line.name.substr(0, colon);
      if (counted) name = name.substr(times + 2);
      if (counted && line.name.compare(0, times, "1") != 0) name += " ×" + line.name.substr(0, times);
      network.layers.push_back({name, colon == std::string::npos ? "" : family_of(line.name.substr(colon + 2)),
                                line.device_us ? *line.device_us : line.host_us.value_or(0), i});
    }
    if (!network.layers.empty()) networks.push_back(network);
  }
  return networks;
}

double total_of(const Network &network) {
  double total = 0;
  for (const Layer &layer : network.layers) total += layer.us;
  return total;
}

// The longest first; what is beyond the most that are shown as one more.
std::vector<Layer> shown_of(const Network &network) {
  std::vector<Layer> layers = network.layers;
  std::stable_sort(layers.begin(), layers.end(), [](const Layer &a, const Layer &b) { return a.us > b.us; });
  if (layers.size() <= kMost) return layers;
  Layer others = {format("%zu others", layers.size() - kMost), "", 0, layers[kMost].row};
  for (size_t i = kMost; i < layers.size(); ++i) others.us += layers[i].us;
  layers.resize(kMost);
  layers.push_back(others);
  return layers;
}

std::vector<std::string> families_of(const std::vector<Layer> &layers) {
  std::vector<std::string> families;
  for (const Layer &layer : layers)
    if (!layer.kernel.empty() && std::find(families.begin(), families.end(), layer.kernel) == families.end())
      families.push_back(layer.kernel);
  return families;
}

Picture draw(const Network &network, double width) {
  const std::vector<Layer> layers = shown_of(network);
  const std::vector<std::string> families = families_of(layers);
  const bool narrow = width < 500;
  const double names = narrow ? 150 : 230, numbers = narrow ? 62 : 150, row = 21, top = 10;
  const double room = width - names - numbers;
  const double total = total_of(network);
  double longest = 0;
  for (const Layer &layer : layers) longest = std::max(longest, layer.us);
  // Keys in lines: their number is known once they are placed.
  std::vector<std::pair<double, double>> places;
  double x = 4, y = top + row * static_cast<double>(layers.size()) + 18;
  for (size_t i = 0; i < std::min(families.size(), kColours); ++i) {
    const double step = key_width(families[i]);
    if (x + step > width && x > 4) x = 4, y += 18;
    places.emplace_back(x, y);
    x += step;
  }
  Picture picture(width, y + 8);
  for (size_t i = 0; i < places.size(); ++i) picture.key(places[i].first, places[i].second, i, families[i]);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer &layer = layers[i];
    const double at = top + row * static_cast<double>(i), length = room * layer.us / longest;
    const auto family = std::find(families.begin(), families.end(), layer.kernel) - families.begin();
    picture.text(names - 8, at + 14, "end", shortened(layer.name, names - 12));
    picture.bar(names, at + 3, length, row - 6, static_cast<size_t>(family) % kColours, layer.row);
    const double share = 100 * layer.us / total;
    picture.text(names + length + 6, at + 14, "start",
                 narrow ? format("%.1f %%", share) : show_time(layer.us) + format(", %.1f %%", share), "dim");
  }
  return picture;
}

} // namespace

Figures layer_figures(const std::vector<Row> &rows, const std::vector<Result> &results) {
  std::vector<Network> networks = profiles_of(rows, results);
  for (Network &suite : suites_of(rows)) networks.push_back(std::move(suite));
  Figures figures;
  for (const Network &network : networks) {
    if (network.layers.size() < 2 || total_of(network) <= 0) continue;
    const std::vector<Layer> layers = shown_of(network);
    const double total = total_of(network);
    double sum = 0;
    size_t half = 0;
    while (half < layers.size() && sum < total / 2) sum += layers[half++].us;
    figures.push_back({format("layers-%zu", figures.size() + 1), "Time by layer: " + network.name,
                       format("%s in all, each layer with all its occurrences; %zu of %zu layers take half of it.",
                              show_time(total).c_str(), half, network.layers.size()),
                       [network](double width) { return draw(network, width); }});
  }
  return figures;
}

} // namespace polyconv::bench
