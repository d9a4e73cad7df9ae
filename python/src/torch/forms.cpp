// forms.cpp - weights and biases as plans take them: polyconv/torch/_kept.py packs, casts and keeps; here what it
// kept is found again, and seen to be up to date by the same signs.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "torch/calls.hpp"

namespace polyconv_python::torch_face {
namespace {

nb::object weak_reference(nb::handle object) {
  return checked(PyWeakref_NewRef(object.ptr(), nullptr));
}

// A tensor's version, or an invalid object for tensors of inference mode, which have none.
nb::object counter_of(nb::handle tensor) {
  POLYCONV_NAME(name_version, "_version");
  nb::object counter = nb::steal(PyObject_GetAttr(tensor.ptr(), name_version));
  if (!counter.is_valid()) PyErr_Clear();
  return counter;
}

bool is_for(const Form &form, nb::handle tensor) {
  return call(form.tensor).ptr() == tensor.ptr();
}

// What is kept of a tensor, where it is up to date; an invalid object otherwise.
nb::object up_to_date(const Form &form, nb::handle tensor, const Seen &seen, int64_t span) {
  POLYCONV_NAME(name_version, "version");
  if (!form.kept.is_valid() || !is_for(form, tensor) || form.address != seen.data) return {};
  nb::object kept = call(form.kept);
  if (kept.is_none() || attribute(kept, name_version).ptr() != form.version.ptr()) return {};
  const nb::object counter = counter_of(tensor);
  if (!counter.is_valid() || PyObject_RichCompareBool(counter.ptr(), form.counter.ptr(), Py_EQ) != 1) return {};
  if (span > 0) {
    const Sample sample(seen.data, seen.bytes(span));
    if (static_cast<size_t>(PyBytes_Size(form.sample.ptr())) != sample.size ||
        std::memcmp(PyBytes_AsString(form.sample.ptr()), sample.words, sample.size) != 0)
      return {};
  }
  return kept;
}

// Where it was found the last time; null where it is new.
const Form *find(const Ready::Forms &forms, nb::handle tensor, uintptr_t stream) {
  const auto at = forms.find({tensor.ptr(), stream});
  return at != forms.end() ? &at->second : nullptr;
}

Form &place(Ready::Forms &forms, nb::handle tensor, uintptr_t stream) {
  constexpr size_t kMost = 256;
  if (forms.size() >= kMost) forms.clear();
  return forms[{tensor.ptr(), stream}] = Form();
}

// Remembers where something is kept, if it is.
void remember(Ready::Forms &forms, nb::handle tensor, const Seen &seen, uintptr_t stream, const Operand &operand) {
  nb::object version = nb::getattr(operand.held, "version");
  if (version.is_none() || nb::cast<int64_t>(nb::getattr(operand.held, "bytes")) == 0) return;
  nb::object counter = version[0], sample = version[2];
  if (nb::cast<uintptr_t>(nb::object(version[1])) != reinterpret_cast<uintptr_t>(seen.data)) return;
  nb::object of_tensor = weak_reference(tensor), of_kept = weak_reference(operand.held);
  Form &form = place(forms, tensor, stream);
  form.tensor = std::move(of_tensor);
  form.kept = std::move(of_kept);
  form.version = std::move(version);
  form.counter = std::move(counter);
  form.sample = std::move(sample);
  form.address = seen.data;
  form.packed = operand.packed;
  form.cast = operand.raw;
}

// What `make` of polyconv/torch/_kept.py gives for a tensor, unless it was found before and is up to date.
template <class Make>
Operand form_of(Ready::Forms &forms, nb::handle tensor, const Seen &seen, int64_t span, uintptr_t stream, Make make) {
  Operand operand;
  const bool in_graph = seen.device >= 0 && truth(call(functions().is_capturing));
  const Form *known = in_graph ? nullptr : find(forms, tensor, stream);
  if (known != nullptr) {
    const Form form = *known; // what Python runs meanwhile may drop it
    operand.held = up_to_date(form, tensor, seen, span);
    operand.packed = form.packed;
    operand.raw = form.cast;
    if (operand.held.is_valid()) return operand;
  }
  operand.held = make();
  nb::object value = nb::getattr(operand.held, "value");
  operand.packed = nullptr;
  operand.raw = seen.data;
  if (!nb::try_cast<const Weights *>(value, operand.packed, false)) {
    Seen cast;
    if (!cast.look(value)) refuse("a tensor in another type is none with memory, expected one");
    operand.raw = cast.data;
  }
  if (!in_graph) remember(forms, tensor, seen, stream, operand);
  return operand;
}

// Cast and packed for one call. A tensor that was only read to pack it goes at once: its memory is free for what comes
// later in the stream.
Operand make_anew(Ready &ready, nb::handle w, const Seen &seen, uintptr_t stream) {
  Operand operand;
  operand.held = seen.type == ready.type ? nb::borrow(w) : in_type(w, ready.dtype);
  Seen raw, packed;
  if (!raw.look(operand.held)) refuse("w in another type is a tensor without memory, expected one with numbers");
  operand.raw = raw.data;
  if (!ready.packs) return operand;
  nb::object memory; // on the CPU the library's
  if (seen.device >= 0) memory = make_bytes(ready, ready.packed_shape, seen.device, "packed weights", packed);
  polyconv_weights *made = nullptr;
  polyconv_status status = POLYCONV_SUCCESS;
  std::string sentence;
  {
    const Unlocked unlocked;
    status =
        polyconv_weights_create(ready.plan->plan, 0, raw.data, packed.data, reinterpret_cast<void *>(stream), &made);
    if (status != POLYCONV_SUCCESS) sentence = polyconv_last_error();
  }
  if (status != POLYCONV_SUCCESS) throw Failure(status, sentence);
  operand.anew.reset(made);
  operand.held = std::move(memory);
  ++table().packed;
  return operand;
}

thread_local nb::handle bias_before_cast; // an invalid one: there is nothing
thread_local const char *input_of_cast = nullptr;

// What autocast made a bias from, if it lies as kernels want it.
bool look_before_cast(const Seen &cast, const char *input, Seen &seen) {
  return bias_before_cast.is_valid() && input == input_of_cast && seen.look(bias_before_cast) &&
         seen.type == POLYCONV_F32 && seen.axes == 1 && seen.device == cast.device && seen.shape[0] == cast.shape[0] &&
         seen.stride[0] == 1;
}

} // namespace

BiasBeforeCast::BiasBeforeCast(nb::handle bias, const char *input)
    : outer_bias_(bias_before_cast), outer_input_(input_of_cast) {
  bias_before_cast = bias;
  input_of_cast = input;
}

BiasBeforeCast::~BiasBeforeCast() {
  bias_before_cast = outer_bias_;
  input_of_cast = outer_input_;
}

void note(Ready &ready, nb::handle self, nb::handle w, uintptr_t stream) {
  POLYCONV_NAME(name_is_leaf, "is_leaf");
  const Form *known = find(ready.weights, w, stream);
  if ((known != nullptr && is_for(*known, w)) || !truth(attribute(w, name_is_leaf))) return;
  self.attr("note")(w);
  nb::object reference = weak_reference(w);
  place(ready.weights, w, stream).tensor = std::move(reference);
}

Operand weights_for(Ready &ready, nb::handle self, nb::handle w, const Seen &seen, uintptr_t stream) {
  note(ready, self, w, stream);
  Operand operand;
  operand.raw = seen.data;
  if (!ready.packs && seen.type == ready.type) return operand;
  if (ready.makes_anew) return make_anew(ready, w, seen, stream);
  const Functions &all = functions();
  return form_of(ready.weights, w, seen, ready.span, stream, [&] {
    return ready.packs ? all.packed(self, w, seen.device, stream)
                       : all.cast(w, ready.dtype, ready.span, seen.device, stream);
  });
}

Operand bias_for(Ready &ready, nb::handle bias, const char *input, uintptr_t stream) {
  POLYCONV_NAME(name_is_leaf, "is_leaf");
  Operand operand;
  if (bias.is_none()) return operand;
  Seen seen;
  if (!seen.look(bias)) refuse("bias is a tensor without memory, expected one with numbers");
  const bool dense = seen.axes == 1 && (seen.stride[0] == 1 || seen.shape[0] <= 1);
  const Functions &all = functions();
  if (seen.type != POLYCONV_F16 && seen.type != POLYCONV_BF16) {
    operand.held = dense ? nb::borrow(bias) : bias.attr("contiguous")();
  } else if (truth(attribute(bias, name_is_leaf))) {
    const int64_t span = dense && seen.device < 0 ? seen.shape[0] : 0;
    return form_of(ready.biases, bias, seen, span, stream,
                   [&] { return all.cast(bias, all.float32, span, seen.device, stream); });
  } else { // autocast or something else made it for this pass
    Seen before;
    if (dense && look_before_cast(seen, input, before)) {
      operand.raw = before.data;
      return operand;
    }
    operand.held = in_type(bias, all.float32);
  }
  Seen taken;
  if (!taken.look(operand.held)) refuse("bias is a tensor without memory, expected one with numbers");
  operand.raw = taken.data;
  return operand;
}

} // namespace polyconv_python::torch_face
