// session.hpp - a device with its stream and steps, and a set of images in its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data.hpp"
#include "model.hpp"
#include "step/lenet_step.hpp"

namespace lenet {

struct Session {
  explicit Session(const Settings &settings);

  template <class T>
  void upload(const polyconv::Memory &to, const std::vector<T> &from) const {
    device.copy(to.get(), from.data(), from.size() * sizeof(T), stream.get());
    synchronize(); // `from` may go
  }
  template <class T>
  std::vector<T> download(const void *from, size_t count) const {
    std::vector<T> result(count);
    device.copy(result.data(), from, count * sizeof(T), stream.get());
    synchronize();
    return result;
  }
  void synchronize() const { polyconv::require(polyconv_stream_synchronize(device.get(), stream.get())); }

  const Settings settings;
  const polyconv::Device device;
  const polyconv::Stream stream;
  const Steps &steps;
};

// Images, labels and the order in which batches take them, filled up from its beginning to whole batches.
class ImageSet {
 public:
  ImageSet(const Session &session, const Images &images, int64_t batch);

  int64_t count() const { return count_; }
  int64_t batches() const { return (count_ + batch_ - 1) / batch_; }
  void set_order(const Session &session, std::vector<int32_t> order) const;
  Draw draw(const Network &network, const Progress *progress, void *input, int32_t type) const;
  const int32_t *chosen() const { return static_cast<const int32_t *>(chosen_.get()); }

 private:
  int64_t count_, batch_;
  polyconv::Memory pixels_, labels_, order_, chosen_;
};

// Which class a model gives every image of a set.
class Examiner {
 public:
  Examiner(const Session &session, const Network &network, const Parameters &parameters, const Images &images,
           int64_t batch, Use use);

  // The guesses, for parameters as they are now.
  std::vector<uint8_t> guesses();
  double accuracy(const std::vector<uint8_t> &guesses) const;
  const Model &model() const { return model_; }
  const ImageSet &set() const { return set_; }
  void draw_first(); // batch 0 into the model's input

 private:
  const Session &session_;
  const Network &network_;
  const Images &images_;
  Model model_;
  ImageSet set_;
  polyconv::Memory progress_, losses_, hits_, guesses_;
};

} // namespace lenet
