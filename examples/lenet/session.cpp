// session.cpp - see session.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <algorithm>
#include <numeric>

namespace lenet {

Session::Session(const Settings &given)
    : settings(given), device(given.device), stream(device), steps(steps_for(given.device.c_str())) {}

ImageSet::ImageSet(const Session &session, const Images &images, int64_t batch)
    : count_(images.count),
      batch_(batch),
      pixels_(session.device, images.pixels.size()),
      labels_(session.device, images.labels.size()),
      order_(session.device, static_cast<size_t>(batches() * batch) * sizeof(int32_t)),
      chosen_(session.device, static_cast<size_t>(batch) * sizeof(int32_t)) {
  session.upload(pixels_, images.pixels);
  session.upload(labels_, images.labels);
  std::vector<int32_t> order(static_cast<size_t>(count_));
  std::iota(order.begin(), order.end(), 0);
  set_order(session, std::move(order));
}

void ImageSet::set_order(const Session &session, std::vector<int32_t> order) const {
  const auto all = static_cast<size_t>(batches() * batch_);
  for (size_t i = 0; order.size() < all; ++i) order.push_back(order[i]);
  session.upload(order_, order);
}

Draw ImageSet::draw(const Network &network, const Progress *progress, void *input, int32_t type) const {
  return {static_cast<const uint8_t *>(pixels_.get()),
          static_cast<const uint8_t *>(labels_.get()),
          static_cast<const int32_t *>(order_.get()),
          progress,
          batch_,
          network.rows,
          network.columns,
          network.repeat,
          network.border,
          input,
          type,
          static_cast<int32_t *>(chosen_.get())};
}

Examiner::Examiner(const Session &session, const Network &network, const Parameters &parameters, const Images &images,
                   int64_t batch, Use use)
    : session_(session),
      network_(network),
      images_(images),
      model_(network, session.settings, session.device, parameters, std::min(batch, images.count), use),
      set_(session, images, model_.batch()),
      progress_(session.device, sizeof(Progress)),
      losses_(session.device, static_cast<size_t>(set_.batches()) * sizeof(double)),
      hits_(session.device, static_cast<size_t>(set_.batches()) * sizeof(int32_t)),
      guesses_(session.device, static_cast<size_t>(set_.batches() * model_.batch())) {}

void Examiner::draw_first() {
  const Draw draw = set_.draw(network_, nullptr, model_.input(), session_.settings.type);
  check_step(session_.steps.draw(draw, session_.stream.get()));
}

std::vector<uint8_t> Examiner::guesses() {
  void *const stream = session_.stream.get();
  auto *const progress = static_cast<Progress *>(progress_.get());
  session_.upload(progress_, std::vector<Progress>{{0, 0, 0}});
  model_.pack(stream);
  const Loss loss = {model_.scores(),
                     set_.chosen(),
                     model_.batch(),
                     network_.classes(),
                     progress,
                     1,
                     nullptr,
                     static_cast<double *>(losses_.get()),
                     static_cast<int32_t *>(hits_.get()),
                     static_cast<uint8_t *>(guesses_.get())};
  for (int64_t batch = 0; batch < set_.batches(); ++batch) {
    check_step(session_.steps.draw(set_.draw(network_, progress, model_.input(), session_.settings.type), stream));
    model_.forward(stream);
    check_step(session_.steps.loss(loss, stream));
    check_step(session_.steps.advance(progress, stream));
  }
  return session_.download<uint8_t>(guesses_.get(), static_cast<size_t>(images_.count));
}

double Examiner::accuracy(const std::vector<uint8_t> &guesses) const {
  const auto hits = std::inner_product(guesses.begin(), guesses.end(), images_.labels.begin(), int64_t{0},
                                       std::plus<>(), std::equal_to<>());
  return static_cast<double>(hits) / static_cast<double>(images_.count);
}

} // namespace lenet
