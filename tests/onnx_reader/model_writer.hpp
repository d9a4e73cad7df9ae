// model_writer.hpp - small ONNX files for tests, written message by message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

namespace polyconv_test {

// One message: fields in the order in which they are added.
class Message {
 public:
  Message &number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message &bytes(int field, const std::string &value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message &message(int field, const Message &value) { return bytes(field, value.text_); }
  Message &real(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    char four[4];
    std::memcpy(four, &value, 4);
    text_.append(four, 4);
    return *this;
  }
  const std::string &text() const { return text_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

inline Message attribute(const char *name, int64_t value) {
  return Message().bytes(1, name).number(3, value).number(20, 2);
}
inline Message attribute(const char *name, const std::vector<int64_t> &values) {
  Message message;
  message.bytes(1, name).number(20, 7);
  for (int64_t value : values) message.number(8, value);
  return message;
}
inline Message attribute(const char *name, float value) {
  return Message().bytes(1, name).real(2, value).number(20, 1);
}
inline Message attribute(const char *name, const char *value) {
  return Message().bytes(1, name).bytes(4, value).number(20, 3);
}

// A graph inside a node.
inline Message attribute(const char *name, const Message &graph) {
  return Message().bytes(1, name).message(6, graph).number(20, 5);
}

// Inside a function: the call's attribute `of` in the place of one of its own.
inline Message attribute_of_call(const char *name, const char *of) {
  return Message().bytes(1, name).bytes(21, of);
}

// A tensor with its data as raw bytes.
template <class T>
Message tensor(const char *name, int type, const std::vector<int64_t> &sizes, const std::vector<T> &data) {
  Message message;
  for (int64_t size : sizes) message.number(1, size);
  message.number(2, type).bytes(8, name);
  return message.bytes(9, std::string(reinterpret_cast<const char *>(data.data()), data.size() * sizeof(T)));
}

// A value of these sizes; a negative size is open, and -2 is called N.
inline Message value(const char *name, int type, const std::vector<int64_t> &sizes) {
  Message shape;
  for (int64_t size : sizes)
    if (size >= 0)
      shape.message(1, Message().number(1, size));
    else
      shape.message(1, size == -2 ? Message().bytes(2, "N") : Message());
  return Message().bytes(1, name).message(2, Message().message(1, Message().number(1, type).message(2, shape)));
}

class ModelWriter {
 public:
  ModelWriter &input(const char *name, int type, const std::vector<int64_t> &sizes) {
    return graph_.message(11, value(name, type, sizes)), *this;
  }
  ModelWriter &output(const char *name) { return graph_.message(12, Message().bytes(1, name)), *this; }
  template <class T>
  ModelWriter &constant(const char *name, int type, const std::vector<int64_t> &sizes, const std::vector<T> &data) {
    return graph_.message(5, tensor(name, type, sizes, data)), *this;
  }
  ModelWriter &node(const char *type, std::initializer_list<const char *> inputs,
                    std::initializer_list<const char *> outputs, std::initializer_list<Message> attributes = {},
                    const char *domain = "") {
    Message node;
    for (const char *name : inputs) node.bytes(1, name);
    for (const char *name : outputs) node.bytes(2, name);
    node.bytes(4, type);
    for (const Message &one : attributes) node.message(5, one);
    if (*domain) node.bytes(7, domain);
    nodes_.push_back(node);
    return graph_.message(1, node), *this;
  }
  // What this one has so far becomes a function of another model, which calls it as `domain`:`name`; its values are the
  // function's, its constants must be Constant nodes. `defaults` are attributes that a call may leave out.
  Message function(const char *domain, const char *name, std::initializer_list<const char *> inputs,
                   std::initializer_list<const char *> outputs, std::initializer_list<Message> defaults = {}) const {
    Message made;
    made.bytes(1, name).bytes(10, domain);
    for (const char *input : inputs) made.bytes(4, input);
    for (const char *output : outputs) made.bytes(5, output);
    for (const Message &one : nodes_) made.message(7, one);
    for (const Message &one : defaults) made.message(11, one);
    return made;
  }
  ModelWriter &add(const Message &function) { return functions_.push_back(function), *this; }

  const Message &graph() const { return graph_; }
  std::string file() const {
    Message model;
    model.number(1, 10).bytes(2, "test").message(7, graph_).message(8, Message().number(2, 17));
    for (const Message &function : functions_) model.message(25, function);
    return model.text();
  }

 private:
  Message graph_;
  std::vector<Message> nodes_, functions_;
};

} // namespace polyconv_test
