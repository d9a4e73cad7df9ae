# binding.py - polyconv.h by ctypes: the structs, the functions, and nothing of what they mean.
# SPDX-License-Identifier: Apache-2.0
import ctypes as c
import glob
import os

FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = 0, 1, 2
SUCCESS, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY = 0, 1, 2, 4
TYPES = {"f64": 1, "f32": 2, "f16": 3, "bf16": 4, "s32": 5, "s8": 6, "u8": 7, "u16": 8}
PAD_MODES = ["zero", "constant", "reflect", "symmetric", "replicate", "circular"]
ACTIVATIONS = ["none", "relu", "clip", "lrelu", "tanh", "sigmoid", "gelu", "silu", "hswish", "elu", "gelutanh", "prelu"]
SAVES = ["none", "argmax", "pre"]
MATHS = ["strict", "fp32_emulated", "tf32", "fast"]
TENSORS = {"input": 0, "weights": 1, "bias": 2, "scale": 3, "residual": 4, "output": 5, "argmax": 6, "pre": 7,
           "slope": 8, "weights_zero_point": 9, "residual_gradient": 10}
ALIGNMENT = 256

i32, i64 = c.c_int32, c.c_int64


class Pool(c.Structure):
    _fields_ = [("kind", i32), ("count_include_pad", i32), ("window", i64 * 3), ("stride", i64 * 3),
                ("pad_begin", i64 * 3), ("pad_end", i64 * 3)]


class Epilogue(c.Structure):
    _fields_ = [("has_scale", i32), ("has_bias", i32), ("residual_from", i32), ("activation", i32),
                ("activation_alpha", c.c_float), ("activation_beta", c.c_float), ("residual_scale", c.c_float),
                ("residual_zero_point", i32), ("out_scale", c.c_float), ("out_zero_point", i32), ("pool", Pool)]


class Problem(c.Structure):
    # `later` is room for what a younger library adds at the end.
    _fields_ = [("struct_size", c.c_size_t), ("direction", i32), ("transposed", i32), ("spatial_dims", i32),
                ("flip", i32), ("batch", i64), ("in_channels", i64), ("out_channels", i64), ("groups", i64),
                ("input_size", i64 * 3), ("kernel_size", i64 * 3), ("stride", i64 * 3), ("dilation", i64 * 3),
                ("pad_begin", i64 * 3), ("pad_end", i64 * 3), ("output_padding", i64 * 3), ("pad_mode", i32),
                ("separable", i32), ("pad_value", c.c_double), ("input_type", i32), ("weights_type", i32),
                ("output_type", i32), ("input_layout", i32), ("weights_layout", i32), ("output_layout", i32),
                ("has_input_strides", i32), ("has_weights_strides", i32), ("has_output_strides", i32),
                ("input_zero_point", i32), ("weights_zero_point", i32), ("input_strides", i64 * 5),
                ("weights_strides", i64 * 5), ("output_strides", i64 * 5), ("epilogue", Epilogue),
                ("pool_dilation", i64 * 3), ("pool_ceil", i32), ("has_weights_zero_points", i32),
                ("later", c.c_byte * 512)]


class Tensor(c.Structure):
    _fields_ = [("type", i32), ("reserved", i32), ("size", i64 * 5), ("stride", i64 * 5), ("offset", i64)]


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kernel", c.c_char_p), ("math", i32), ("determinism", i32),
                ("fallback", i32), ("threads", i32), ("workspace_limit", i64), ("tuning_budget_ms", i64),
                ("dynamic_weights", i32), ("checked", i32), ("save", i32), ("bind", i32),
                ("parallel_for", c.c_void_p), ("parallel_for_context", c.c_void_p), ("allocate", c.c_void_p),
                ("release", c.c_void_p), ("allocator_context", c.c_void_p), ("observer", c.c_void_p),
                ("observer_context", c.c_void_p), ("grouping", c.c_char_p), ("shared_memory_limit", i64),
                ("later", c.c_byte * 1024)]


class PlanInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kernel", c.c_char_p), ("math", c.c_char_p), ("workspace_bytes", i64),
                ("estimate_us", c.c_double), ("step_count", i32), ("fallback", i32), ("threads", i32),
                ("needs_bind", i32), ("transform", i32)]


class Buffers(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("input", c.c_void_p), ("output", c.c_void_p),
                ("weights", c.c_void_p * 8), ("packed", c.c_void_p * 8), ("bias", c.c_void_p * 8),
                ("scale", c.c_void_p * 8), ("residual", c.c_void_p * 8), ("saved", c.c_void_p * 8),
                ("workspace", c.c_void_p), ("workspace_size", c.c_size_t), ("slope", c.c_void_p * 8),
                ("weights_zero_point", c.c_void_p * 8), ("residual_gradient", c.c_void_p * 8),
                ("later", c.c_byte * 512)]


class Candidate(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kernel", c.c_char_p), ("reason", c.c_char_p),
                ("estimate_us", c.c_double), ("workspace_bytes", i64), ("accepted", i32), ("chosen", i32),
                ("fallback", i32)]


class Failed(Exception):
    """A call that did not succeed: its status and sentence."""

    def __init__(self, call, status, sentence):
        super().__init__(f"{call}: {sentence}")
        self.call, self.status, self.sentence = call, status, sentence


class Library:
    """libpolyconv.so. Every call that fails raises Failed."""

    _calls = ["polyconv_problem_parse_sized", "polyconv_problem_format", "polyconv_problem_validate",
              "polyconv_problem_tensor", "polyconv_problem_flops", "polyconv_backend_load", "polyconv_plan_create",
              "polyconv_plan_get_info", "polyconv_plan_weights", "polyconv_weights_create", "polyconv_weights_update",
              "polyconv_buffers_check", "polyconv_run", "polyconv_convolve", "polyconv_explain",
              "polyconv_explanation_get"]

    def __init__(self, path):
        self._dll, self._known = c.CDLL(path), {}
        self._dll.polyconv_last_error.restype = c.c_char_p
        self._dll.polyconv_backend_kernel.restype = c.c_char_p
        self._functions = {name: getattr(self._dll, name) for name in self._calls}

    def _call(self, name, *arguments):
        status = self._functions[name](*arguments)
        if status != SUCCESS:
            raise Failed(name, status, self._dll.polyconv_last_error().decode())

    def load(self, path):
        self._call("polyconv_backend_load", path.encode())

    def kernels(self):
        names = []
        for backend in range(self._dll.polyconv_backend_count()):
            kernel = 0
            while name := self._dll.polyconv_backend_kernel(backend, kernel):
                names.append(name.decode())
                kernel += 1
        return names

    def parse(self, token):
        problem = self._sized("problem", Problem)
        self._call("polyconv_problem_parse_sized", token.encode(), c.byref(problem), c.c_size_t(c.sizeof(problem)))
        return problem

    def knows(self, token):
        """Whether the library reads such a token: older ones lack what was added since."""
        if token not in self._known:
            try:
                self.parse(token)
                self._known[token] = True
            except Failed:
                self._known[token] = False
        return self._known[token]

    def format(self, problem):
        text = c.create_string_buffer(2048)
        self._call("polyconv_problem_format", c.byref(problem), text, c.c_size_t(len(text)), None)
        return text.value.decode()

    def array(self, problems):
        """Problems as the functions of chains take them: one after the other, each of the library's size."""
        size = problems[0].struct_size
        memory = (c.c_byte * (size * len(problems)))()
        for i, problem in enumerate(problems):
            c.memmove(c.byref(memory, i * size), c.byref(problem), size)
        return memory, len(problems)

    def tensor(self, problem, which):
        """(polyconv_tensor, bytes), or None where the problem has no such tensor."""
        tensor, size = Tensor(), i64()
        try:
            self._call("polyconv_problem_tensor", c.byref(problem), TENSORS[which], c.byref(tensor), c.byref(size))
        except Failed:
            return None
        return tensor, size.value

    def options(self, **values):
        options = self._sized("options", Options)
        for name, value in values.items():
            setattr(options, name, value.encode() if isinstance(value, str) else value)
        return options

    def buffers(self):
        return self._sized("buffers", Buffers)

    def _sized(self, name, kind):
        """A struct with its defaults, of our size: what the library does not know of it is 0."""
        struct = kind()
        getattr(self._dll, f"polyconv_{name}_init_sized")(c.byref(struct), c.c_size_t(c.sizeof(struct)))
        return struct

    def plan(self, problems, options):
        return Plan(self, problems, options)

    def candidates(self, problems, options):
        """The names of the kernels that accept, in order of preference."""
        explanation, (memory, count) = c.c_void_p(), self.array(problems)
        self._call("polyconv_explain", None, memory, i32(count), c.byref(options), c.byref(explanation))
        names = []
        for i in range(self._dll.polyconv_explanation_count(explanation)):
            candidate = Candidate(struct_size=c.sizeof(Candidate))
            self._call("polyconv_explanation_get", explanation, i32(i), c.byref(candidate))
            if not candidate.accepted:
                break
            names.append(candidate.kernel.decode())
        self._dll.polyconv_explanation_destroy(explanation)
        return names

    def convolve(self, problems, options, buffers):
        memory, count = self.array(problems)
        self._call("polyconv_convolve", None, memory, i32(count), c.byref(options), c.byref(buffers))


class Plan:
    def __init__(self, library, problems, options):
        self._library, self.handle, self.weights = library, c.c_void_p(), []
        memory, count = library.array(problems)
        library._call("polyconv_plan_create", None, memory, i32(count), c.byref(options), c.byref(self.handle))
        self.info = PlanInfo(struct_size=c.sizeof(PlanInfo))
        library._call("polyconv_plan_get_info", self.handle, c.byref(self.info))

    def weights_format(self, layer):
        name, size = c.c_char_p(), i64()
        self._library._call("polyconv_plan_weights", self.handle, i32(layer), c.byref(name), c.byref(size))
        return name.value.decode(), size.value

    def pack(self, layer, raw, memory):
        """Packed weights, destroyed with the plan."""
        weights = c.c_void_p()
        self._library._call("polyconv_weights_create", self.handle, i32(layer), c.c_void_p(raw), c.c_void_p(memory),
                            None, c.byref(weights))
        self.weights.append(weights)
        return weights

    def check(self, buffers):
        self._library._call("polyconv_buffers_check", self.handle, c.byref(buffers))

    def run(self, buffers):
        self._library._call("polyconv_run", self.handle, c.byref(buffers), None)

    def close(self):
        for weights in self.weights:
            self._library._dll.polyconv_weights_destroy(weights)
        self._library._dll.polyconv_plan_destroy(self.handle)
        self.weights, self.handle = [], c.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def find_library(path):
    """The shared library that `path` names: itself, or the first in that folder or its lib folder."""
    if os.path.isfile(path):
        return os.path.abspath(path)
    for pattern in ("libpolyconv.so", "lib/libpolyconv.so", "lib/libpolyconv.so.*", "libpolyconv.so.*"):
        for found in sorted(glob.glob(os.path.join(path, pattern))):
            return os.path.abspath(found)
    raise SystemExit(f"oracle.py: no libpolyconv.so in {path}; give --library its path or its build folder")
