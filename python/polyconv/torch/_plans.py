"""Plans of PyTorch's convolutions, kept by what a call looks like."""
# SPDX-License-Identifier: Apache-2.0

import sys
import threading
import weakref

import torch

from .. import _core
from .._layout import dense_strides, describe as place
from ..errors import Error, InvalidArgument, Unsupported
from ..names import DETERMINISM, FALLBACK, MATH, NUMPY_NAMES

TYPES = {getattr(torch, name): number for number, name in enumerate(NUMPY_NAMES) if hasattr(torch, name)}
FLOATS = {torch.float64: 1, torch.float32: 2, torch.float16: 3, torch.bfloat16: 4}
FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS = range(3)
DIRECTIONS = ("fwd", "bwd_d", "bwd_w")
# PyTorch's own threads run CPU plans, where they are OpenMP's: two pools would fight for the same processors.
_SHARES = "OpenMP" in torch.__config__.parallel_info().split("ATen parallel backend")[-1] and _core.share_openmp(torch._C.__file__)
SMALL = 16 << 10  # bytes of weights of which a copy may stay on CUDA: a launch to make one takes no shorter however few they are
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_select = getattr(torch._C, "_select_conv_backend", None)
_format_of_backend = getattr(torch._C, "_conv_determine_backend_memory_format", None)


class State:
    """What enable() set, and what is kept."""

    def __init__(self):
        self.deterministic = False
        self.math = None  # None: as PyTorch's own switches say
        self.plans = {}  # what was decided; where a call found it the last time, _core knows
        self.most_plans = 1024
        self.modes = {}  # what enable() was told, by small numbers
        self.forms = {}  # id of a tensor: a weak reference to it, and what was made from it (_kept.py)
        self.in_graphs = {}  # the same, of what CUDA graphs read
        self.kept_bytes = 0  # of all of these
        self.most_kept_bytes = sys.maxsize
        self.counting = threading.RLock()  # of these bytes; what goes may go while another is counted
        self.pack_keys = {}  # what packed weights must have alike, by small numbers
        self.lock = threading.Lock()
        self.hits = self.misses = self.packed = self.evicted = 0


state = State()


class Taken(_core.Ready):
    """A call that polyconv takes: the plan, and the tensor that it makes. _core.Ready has what a run needs: `plan`; `packs`: whether
    the plan's weights are packed; `span`: elements of the weights' memory, on the CPU; `makes_anew`: they are cast and packed in each
    call (_kept.makes_anew); and counts `calls`."""

    reason = None

    def __init__(self, plan, problem, direction, out_shape, out_strides, dtype, device):
        super().__init__(plan, out_shape, out_strides, dtype, device)
        self.problem = problem
        self.direction = direction
        self.dtype = dtype
        self.pack_key = None
        self.not_invariant = None  # why the result may depend on the batch, where it was not to
        self.parts = {}  # what fuse() made one of, such as "Conv2d + ReLU", in the order in which they came
        self.layers = {}  # weak references to the weights that it ran with, by their ids

    def note(self, w):
        """Remembers which weights came, for report()."""
        known = self.layers.get(id(w))
        if known is None or known() is not w:
            if len(self.layers) > 256:
                self.layers.clear()
            self.layers[id(w)] = weakref.ref(w)


class Refused:
    """A call that is left to PyTorch, and why."""

    plan = None

    def __init__(self, direction, what, reason):
        self.direction = direction
        self.what = what
        self.reason = reason
        self.calls = 0
        self.used = 0  # when it was last, by _core.torch_tick


def module_of(model):
    """The model itself, or an error where it is none."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidArgument(f"model is a {type(model).__name__}, expected a torch.nn.Module")
    return model


def find(key):
    """What was decided about a call, or None."""
    found = state.plans.get(key)
    if found is None:
        state.misses += 1
        return None
    state.hits += 1
    found.used = _core.torch_tick()
    return found


def keep(key, decided):
    with state.lock:
        decided.used = _core.torch_tick()
        state.plans[key] = decided
        state.evicted += drop_plans()
    return decided


def drop_plans():
    """Drops what was not used for longest, beyond the bound."""
    beyond = max(len(state.plans) - state.most_plans, 0)
    for key in sorted(state.plans, key=lambda each: state.plans[each].used)[:beyond]:
        state.plans.pop(key)
    if beyond:
        _core.torch_clear()
    return beyond


def memory_format(x, w, arguments):
    """The memory format that PyTorch itself would give results: compiled graphs count on it."""
    if x.dim() not in _LAST:
        return torch.contiguous_format
    if _select is not None and _format_of_backend is not None:
        stride, padding, dilation, transposed, output_padding, groups = arguments
        backend = _select(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
        return _format_of_backend(x, w, backend)
    last = any(_steps_by_channels(one.shape, one.stride()) for one in (x, w))
    return _LAST[x.dim()] if last else torch.contiguous_format


def _steps_by_channels(shape, strides):
    """Whether an older PyTorch takes a tensor for one with the channels last: by its strides, those of axes of one element among
    them."""
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[axis] == 0 or strides[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True


def memory_formats(axes):
    """The dense memory formats that a tensor of so many axes may have."""
    return (torch.contiguous_format, _LAST[axes]) if axes in _LAST else (torch.contiguous_format,)


def same_place(shape, strides, others):
    """Whether strides lead to the same elements; those of axes of one element do not count."""
    return all(size <= 1 or a == b for size, a, b in zip(shape, strides, others))


def strides_for(shape, memory):
    axes = len(shape)
    order = list(range(axes)) if memory == torch.contiguous_format else [0, *range(2, axes), 1]
    return tuple(dense_strides(list(shape), order))


def describe(direction, x, w, y, arguments, has_bias):
    """A problem's fields from (shape, strides) of input, weights and output (None: follows)."""
    stride, padding, dilation, transposed, output_padding, groups = arguments
    spatial = len(x[0]) - 2
    per_axis = (stride, padding, dilation, output_padding if transposed else stride)
    if not 1 <= spatial <= 3 or len(w[0]) != len(x[0]) or any(len(each) != spatial for each in per_axis):
        raise InvalidArgument(f"{len(x[0])} axes by {len(w[0])}, expected 3 to 5 of both and a number for each spatial one")
    if (w[0][0] if transposed else w[0][1] * groups) != x[0][1]:
        raise InvalidArgument(f"weights of shape {tuple(w[0])} in {groups} groups, expected {x[0][1]} input channels")
    problem = {
        "direction": direction,
        "transposed": int(transposed),
        "spatial_dims": spatial,
        "batch": x[0][0],
        "in_channels": x[0][1],
        "out_channels": w[0][1] * groups if transposed else w[0][0],
        "groups": groups,
        "input_size": x[0][2:],
        "kernel_size": w[0][2:],
        "stride": stride,
        "dilation": dilation,
        "pad_begin": padding,
        "pad_end": padding,
        "has_bias": int(has_bias),
    }
    if transposed:
        problem["output_padding"] = output_padding
    place(problem, "input", *x, False)
    place(problem, "weights", *w, False)
    if y is not None:
        place(problem, "output", *y, False)
    return problem


def trains(w, direction, device_index):
    """Whether a pass on CUDA records gradients for its weights, or computes them: optimizers change these in every step, some of them
    behind the version counter."""
    return device_index >= 0 and w.requires_grad and (direction != FORWARD or torch.is_grad_enabled())


def options_for(device_index, dtype, direction, deterministic, new_weights):
    options = {"fallback": FALLBACK["error"]}
    if device_index < 0:
        options["threads"] = torch.get_num_threads()
        if options["threads"] > 1 and _SHARES:
            options["shared_threads"] = options["threads"]
    elif dtype == torch.float32:
        math = state.math
        if math is None:
            math = "tf32" if torch._C._get_cudnn_allow_tf32() else "strict"
        options["math"] = MATH[math]
    if device_index < 0 and state.math is not None:
        options["math"] = MATH[state.math]
    if direction != BACKWARD_WEIGHTS:
        options["new_weights" if new_weights else "dynamic_weights"] = True
        if deterministic:
            options["determinism"] = DETERMINISM["invariant"]
    return options


def plan(problem, device_index, dtype, direction, new_weights=False):
    """(plan, core problem, why it is not invariant); raises what the library says. new_weights: in every run."""
    device = "cpu" if device_index < 0 else f"cuda:{device_index}"
    made = _core.Problem(problem)

    def with_options(deterministic):
        return _core.Plan(device, [made], options_for(device_index, dtype, direction, deterministic, new_weights))

    if not state.deterministic:
        return with_options(False), made, None
    if direction == BACKWARD_WEIGHTS:
        return with_options(False), made, "gradients of weights sum over the batch"
    try:
        return with_options(True), made, None
    except Unsupported as error:
        return with_options(False), made, str(error)


def forward_plan(problem, device_index, dtype, new_weights):
    """plan() of a forward pass. On CUDA one without gradients has packed weights where these are small, or where a kernel that reads raw
    ones would take more than a twentieth longer, by estimate: packed ones stay, as memory beside the parameters."""
    made = plan(problem, device_index, dtype, FORWARD, new_weights)
    form, size = made[0].weights(0)
    if device_index < 0 or new_weights or form == "raw" or size <= SMALL:
        return made
    reads_raw = plan(problem, device_index, dtype, FORWARD, True)
    alike = reads_raw[0].weights(0)[0] == "raw" and reads_raw[2] == made[2]
    return reads_raw if alike and reads_raw[0].estimate_us <= 1.05 * made[0].estimate_us else made


def refuse(key, direction, what, error):
    reason = str(error) if isinstance(error, (Error, str)) else f"{type(error).__name__}: {error}"
    return keep(key, Refused(DIRECTIONS[direction], what, reason))


def pack_number(key):
    """A small number for what packed weights must have alike."""
    with state.lock:
        return state.pack_keys.setdefault(key, len(state.pack_keys))


def stream_of(device_index):
    if device_index < 0:
        return 0
    if _raw_stream is not None:
        return _raw_stream(device_index)
    return torch.cuda.current_stream(device_index).cuda_stream
