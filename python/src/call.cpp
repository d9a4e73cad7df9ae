// call.cpp - conv and its sisters, from arrays to arrays. Names of settings and shapes were made into an Entry the
// first time; afterwards a call costs the look at its arrays, one hash, and the run.
// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"

#include <array>
#include <string>

namespace polyconv_python {
namespace {

constexpr const char *role_names[kRoles] = {"x", "w", "bias", "out", "residual", "scale", "slope"};

Cache &cache() {
  static Cache *kept = new Cache(); // outlives the interpreter: its objects must not be freed after it
  return *kept;
}

// Settings (a tuple of everything that is no array) and their numbers in keys.
PyObject *settings_numbers() {
  static PyObject *numbers = nullptr;
  return made_once(numbers, [] { return nb::dict(); }).ptr();
}

// Whether a setting is what its sort of setting must be: a whole number, or tuples of such; a name is somebody else's
// to judge. 1.0 and True equal 1 and hash as it does, but are refused where they come first.
bool is_whole(PyObject *value) {
  if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i)
      if (!is_whole(PyTuple_GetItem(value, i))) return false;
    return true;
  }
  return value == Py_None || PyUnicode_Check(value) || (PyIndex_Check(value) && !PyBool_Check(value));
}

bool is_flag(PyObject *value) {
  return PyBool_Check(value) || PyIndex_Check(value);
}

// The places in _settings.Settings of numbers that must be whole, and of flags.
constexpr int whole_settings[] = {2, 3, 6, 7, 8, 15, 20}, flag_settings[] = {1, 16, 18};

bool are_of_their_sort(nb::handle settings) {
  const Py_ssize_t count = PyTuple_Size(settings.ptr());
  for (const int at : whole_settings)
    if (at < count && !is_whole(PyTuple_GetItem(settings.ptr(), at))) return false;
  for (const int at : flag_settings)
    if (at < count && !is_flag(PyTuple_GetItem(settings.ptr(), at))) return false;
  return true;
}

// Settings that will be refused in words get a number of which there is no entry.
int64_t number_of(nb::handle settings) {
  PyObject *numbers = settings_numbers();
  PyObject *found = PyDict_GetItemWithError(numbers, settings.ptr());
  if (found == nullptr && PyErr_Occurred()) nb::raise_python_error(); // a list somewhere: polyconv/_api.py makes tuples
  static int64_t next = 0;
  if (found != nullptr) return are_of_their_sort(settings) ? PyLong_AsLongLong(found) : ++next;
  constexpr Py_ssize_t kMost = 4096;
  if (PyDict_Size(numbers) >= kMost) PyDict_Clear(numbers); // entries of old numbers grow old and go
  nb::object number = nb::int_(++next);
  if (PyDict_SetItem(numbers, settings.ptr(), number.ptr()) != 0) nb::raise_python_error();
  return next;
}

intptr_t stream_number(nb::handle stream) {
  const bool whole = PyLong_Check(stream.ptr()) && !PyBool_Check(stream.ptr());
  const long long number = whole ? PyLong_AsLongLong(stream.ptr()) : -1;
  PyErr_Clear(); // of a number that is too large
  if (number < 0)
    refuse("stream is " + nb::cast<std::string>(nb::repr(stream)) + ", expected None or a CUDA stream as a number");
  return static_cast<intptr_t>(number);
}

class Call {
 public:
  Call(nb::handle settings, nb::handle objects, nb::handle names, nb::handle stream)
      : settings_(settings), objects_(objects), names_(names) {
    key_.reserve(96);
    key_.push_back(number_of(settings));
    look(stream);
  }
  nb::object run();

 private:
  const char *name(int role) const {
    return names_.is_none() ? role_names[role] : nb::cast<const char *>(names_[role]);
  }
  void look(nb::handle stream);
  void look_at(int role);
  void add_to_key(int role);
  nb::object build();
  void make_results(const Entry &entry);
  void fill(const Entry &entry, const Slot *slot);
  void pack(const Entry &entry, Slot &slot);
  void run_on(Entry &entry);
  nb::object results(const Entry &entry);

  nb::handle settings_, objects_, names_;
  std::vector<int64_t> key_;
  std::array<Tensor, kRoles> tensors_;
  std::array<nb::object, kRoles> held_; // results that we make, vectors that we convert
  std::array<bool, kRoles> there_ = {};
  const Weights *packed_ = nullptr;
  int lead_ = kInput; // the array whose library gives the result, the device and the stream
  intptr_t stream_ = 0;
  bool own_stream_ = false; // it is the one that PyTorch works on
  bool given_ = false;      // the caller gave an array to write to
  polyconv_buffers buffers_;
};

void Call::look_at(int role) {
  nb::handle object(PyTuple_GetItem(objects_.ptr(), role));
  if (object.is_none()) return;
  if (role == kWeights && nb::try_cast<const Weights *>(object, packed_, false)) return;
  packed_ = role == kWeights ? nullptr : packed_;
  there_[role] = true;
  tensors_[role].look(object, name(role), stream_, !own_stream_);
  const int32_t type = tensors_[role].type;
  if ((role == kBias || role == kScale || role == kSlope) && (type == POLYCONV_F16 || type == POLYCONV_BF16)) {
    held_[role] = kinds().attr("as_float32")(object); // a number a channel: the library takes them as f32 alone
    tensors_[role].release();
    tensors_[role].look(held_[role], name(role), stream_, !own_stream_);
  }
}

void Call::look(nb::handle stream) {
  const nb::handle direction(PyTuple_GetItem(settings_.ptr(), 0));
  const int32_t way = static_cast<int32_t>(PyLong_AsLong(direction.ptr()));
  lead_ = way == POLYCONV_BACKWARD_DATA ? kOutput : kInput;
  nb::handle lead(PyTuple_GetItem(objects_.ptr(), lead_));
  if (lead.is_none()) refuse(std::string(name(lead_)) + " is None, expected an array");
  const Kind kind = kind_of(lead);
  if (!stream.is_none())
    stream_ = stream_number(stream);
  else if (kind != Kind::kNumpy && kind != Kind::kTorch)
    stream_ = nb::cast<intptr_t>(kinds().attr("stream_of")(lead));
  own_stream_ = stream.is_none() && kind == Kind::kTorch;
  look_at(lead_);
  if (own_stream_ && tensors_[lead_].cuda != 0)
    stream_ = nb::cast<intptr_t>(kinds().attr("torch_stream")(tensors_[lead_].device));
  for (int role = 0; role < kRoles; ++role) {
    if (role != lead_) look_at(role);
    add_to_key(role);
  }
}

void Call::add_to_key(int role) {
  if (!there_[role]) {
    const bool packed = role == kWeights && packed_ != nullptr;
    key_.push_back(packed ? -2 : -1);
    if (packed) key_.push_back(packed_->serial);
    return;
  }
  const Tensor &tensor = tensors_[role];
  key_.push_back(tensor.axes | tensor.type << 4 | tensor.cuda << 12 | tensor.read_only << 13 |
                 static_cast<int64_t>(tensor.device) << 16);
  for (int axis = 0; axis < tensor.axes; ++axis) {
    key_.push_back(tensor.shape[axis]);
    key_.push_back(tensor.stride[axis]);
  }
}

nb::object Call::build() {
  nb::list seen;
  for (int role = 0; role < kRoles; ++role) {
    if (!there_[role]) {
      seen.append(role == kWeights && packed_ != nullptr ? nb::handle(PyTuple_GetItem(objects_.ptr(), role))
                                                         : nb::handle(Py_None));
      continue;
    }
    const Tensor &tensor = tensors_[role];
    nb::list shape, strides;
    for (int axis = 0; axis < tensor.axes; ++axis) {
      shape.append(tensor.shape[axis]);
      strides.append(tensor.stride[axis]);
    }
    seen.append(nb::make_tuple(tensor.type, nb::tuple(shape), nb::tuple(strides), tensor.cuda != 0 ? tensor.device : -1,
                               tensor.read_only, tensor.object));
  }
  static PyObject *build = nullptr;
  nb::object entry = made_once(build, [] { return nb::object(nb::module_::import_("polyconv._build").attr("build")); })(
      settings_, seen, names_);
  cache().keep(key_, entry);
  return entry;
}

// A fresh array: NumPy's own quickly, any other library's by its own function.
nb::object make_array(const Made &made, const Tensor &like, intptr_t stream) {
  if (like.kind == Kind::kNumpy) {
    static PyObject *empty = nullptr, *types = nullptr;
    const nb::handle all = made_once(types, [] { return nb::object(kinds().attr("numpy_types")()); });
    nb::object dtype = nb::borrow(PyList_GetItem(all.ptr(), made.type));
    if (!dtype.is_none())
      return made_once(empty, [] { return nb::object(nb::module_::import_("numpy").attr("empty")); })(made.shape,
                                                                                                      dtype);
  }
  return kinds().attr("empty")(made.shape, made.type, like.object, stream);
}

void Call::make_results(const Entry &entry) {
  for (const Made &made : entry.written) {
    if (there_[made.role]) {
      given_ = true;
      continue;
    }
    held_[made.role] = make_array(made, tensors_[lead_], stream_);
    there_[made.role] = true;
    tensors_[made.role].look(held_[made.role], name(made.role), stream_, false); // nobody has work for it to wait for
  }
}

void Call::fill(const Entry &entry, const Slot *slot) {
  polyconv_buffers_init(&buffers_);
  buffers_.input = tensors_[kInput].data;
  buffers_.weights[0] = tensors_[kWeights].data;
  buffers_.bias[0] = tensors_[kBias].data;
  buffers_.output = tensors_[kOutput].data;
  buffers_.residual[0] = tensors_[kResidual].data;
  buffers_.scale[0] = tensors_[kScale].data;
  buffers_.slope[0] = tensors_[kSlope].data;
  if (packed_ != nullptr) buffers_.packed[0] = packed_->weights;
  if (slot == nullptr) return;
  buffers_.workspace = reinterpret_cast<void *>(slot->workspace_pointer);
  buffers_.workspace_size = static_cast<size_t>(entry.plan->info.workspace_bytes);
  if (packed_ == nullptr && slot->weights != nullptr) buffers_.packed[0] = slot->weights;
}

// Arrays have no version that tells whether they were written to, so that every call packs anew what its kernel can't
// read raw.
void Call::pack(const Entry &entry, Slot &slot) {
  void *stream = reinterpret_cast<void *>(stream_);
  if (slot.weights != nullptr) return require(polyconv_weights_update(slot.weights, tensors_[kWeights].data, stream));
  require(polyconv_weights_create(entry.plan->plan, 0, tensors_[kWeights].data,
                                  reinterpret_cast<void *>(slot.packed_pointer), stream, &slot.weights));
}

void Call::run_on(Entry &entry) {
  const bool packs = entry.packs && packed_ == nullptr;
  std::unique_ptr<Slot> slot;
  if (packs || entry.plan->info.workspace_bytes > 0)
    slot = entry.take_slot(static_cast<uintptr_t>(stream_), tensors_[lead_].object);
  const Reading reading(packed_);
  polyconv_status status = POLYCONV_SUCCESS;
  std::string sentence;
  {
    const Unlocked unlocked;
    try {
      if (packs) pack(entry, *slot);
      fill(entry, slot.get());
      if (given_) require(polyconv_buffers_check(entry.plan->plan, &buffers_));
      require(polyconv_run(entry.plan->plan, &buffers_, reinterpret_cast<void *>(stream_)));
    } catch (const Failure &failure) {
      status = failure.status;
      sentence = failure.what();
    }
  }
  if (slot != nullptr) entry.give_back(std::move(slot));
  if (status != POLYCONV_SUCCESS) throw Failure(status, sentence);
}

nb::object Call::results(const Entry &entry) {
  nb::list all;
  for (const Made &made : entry.written) {
    const bool ours = held_[made.role].is_valid();
    nb::object array = ours ? held_[made.role] : nb::borrow(tensors_[made.role].object);
    tensors_[made.role].release();
    if (ours && !made.permutation.is_none()) array = kinds().attr("permute")(array, made.permutation);
    if (ours && tensors_[lead_].kind == Kind::kJax) array = kinds().attr("as_jax")(array);
    if (entry.written.size() == 1) return array;
    all.append(array);
  }
  return nb::tuple(all);
}

nb::object Call::run() {
  nb::object found = cache().find(key_);
  if (!found.is_valid()) found = build();
  Entry &entry = nb::cast<Entry &>(found);
  make_results(entry);
  run_on(entry);
  return results(entry);
}

} // namespace

void bind_call(nb::module_ &module) {
  nb::class_<Entry>(module, "Entry")
      .def(nb::init<nb::object, const nb::list &>())
      .def_ro("plan", &Entry::plan_object)
      .def_ro("packs", &Entry::packs);
  module.def(
      "call",
      [](nb::handle settings, nb::handle objects, nb::handle names, nb::handle stream) {
        return Call(settings, objects, names, stream).run();
      },
      nb::arg("settings"), nb::arg("objects"), nb::arg("names").none(), nb::arg("stream").none());
  module.def("cache_info", [] { return cache().info(); });
  module.def("cache_clear", [] { cache().clear(); });
  module.def("cache_limit", [](size_t entries, int64_t bytes) { cache().limit(entries, bytes); });
}

} // namespace polyconv_python
