"""What is made from a tensor and kept with it: packed weights, and weights or biases in another type.

It goes with its tensor, and is made anew when the version counter or the memory says that the tensor changed, or, on the CPU, a
look at some of its numbers: .data lets people write past the counter. Under autocast the tensor is the parameter itself and not what
autocast made of it for one context, so that a forward pass casts and packs nothing that an earlier one did.

On CUDA copies of large weights are memory that plain PyTorch does not need: what kernels can read raw is not packed, and cast for one
call alone (makes_anew). Nobody can look there, and programs that write past the counter are programs that train: where gradients are
recorded for the weights, each pass packs them for itself and keeps nothing. While a CUDA graph is captured, that becomes part of the
graph, whose replays see the weights as they are then. What is kept without gradients a graph reads as made before the capture."""
# SPDX-License-Identifier: Apache-2.0

import weakref

import torch

from .. import _core
from ..errors import Error
from ._plans import BACKWARD_WEIGHTS, SMALL, state


class Kept:
    """One thing made from a tensor: `value` is packed weights or a tensor, `memory` what packed weights lie in on CUDA."""

    __slots__ = ("version", "value", "memory", "bytes", "__weakref__")

    def __init__(self, version, value, memory=None):
        self.version, self.value, self.memory = version, value, memory
        self.bytes = 0  # that count against cache_limit, from when it is kept

    def __del__(self):
        if self.bytes:
            with state.counting:
                state.kept_bytes -= self.bytes

    def count(self):
        """Whether it may be kept, by cache_limit."""
        if self.bytes == 0:
            value = self.value
            size = value.bytes if isinstance(value, _core.Weights) else value.numel() * value.element_size()
            with state.counting:
                if state.kept_bytes + size > state.most_kept_bytes:
                    return False
                state.kept_bytes += size
                self.bytes = size
        return True


def version_of(tensor, span):
    """What changes when the tensor does; None for tensors of inference mode, which have no version. `span` is how many of
    its elements lie in memory from its address on, 0 on CUDA, where nobody looks."""
    try:
        address = tensor.data_ptr()
        return tensor._version, address, _core.look(address, span * tensor.element_size()) if span else b""
    except RuntimeError:
        return None


is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None) or torch.cuda.is_current_stream_capturing


def _capturing(device_index):
    return device_index >= 0 and is_capturing()


def _entry(table, tensor, make):
    """What a table has for a tensor, for as long as that lives."""
    identity = id(tensor)
    known = table.get(identity)
    return known[1] if known is not None and known[0]() is tensor else _new_entry(table, tensor, identity, make)


def _new_entry(table, tensor, identity, make):
    def forget(reference):
        have = table.get(identity)
        if have is not None and have[0] is reference:
            table.pop(identity, None)

    made = make()
    table[identity] = (weakref.ref(tensor, forget), made)
    return made


def _before_the_capture(tensor, forms, what, version):
    """What was made of a tensor before a capture began, on whatever stream: a capture has a stream of its own, and who captures
    has waited for the runs before it. The graph reads it in every replay, so that it stays for as long as the tensor, and is
    renewed where it lies. None: making it becomes part of the graph, in memory of the graph's own."""
    for (kind, _), one in list(forms.items()):
        if kind == what and one.version == version:
            held = _entry(state.in_graphs, tensor, list)
            if (what, one) not in held:
                held.append((what, one))
            return one
    return None


def _renew_in_graphs(tensor, what, version, renew):
    """What graphs read is renewed too when a run anywhere saw that the tensor changed."""
    known = state.in_graphs.get(id(tensor))
    if known is None or known[0]() is not tensor:
        return
    for kind, one in known[1]:
        if kind == what and one.version != version and renew(one):
            one.version = version


def distrust_graphs():
    """What graphs read counts as out of date, so that the next run renews it."""
    for _, held in list(state.in_graphs.values()):
        for _, one in held:
            one.version = None


def _keep(tensor, what, span, device_index, stream, make, renew):
    """make() or, where something out of date is there, renew(it); what is kept and up to date costs neither. renew gives
    back False where it cannot."""
    version = version_of(tensor, span)
    if version is None:
        return make()
    forms = _entry(state.forms, tensor, dict)
    if _capturing(device_index):
        return _before_the_capture(tensor, forms, what, version) or make()
    key = (what, stream)
    kept = forms.get(key)
    if kept is not None and kept.version == version:
        return kept
    if kept is not None:
        forms.pop(key, None)  # nobody begins to read it while it changes; who reads it now holds it
    if kept is None or not renew(kept):
        kept = make()
    kept.version = version
    if kept.count():
        forms[key] = kept
    if state.in_graphs:
        _renew_in_graphs(tensor, what, version, renew)
    return kept


def as_type(tensor, dtype):
    """A tensor in a type, of which autograd knows nothing."""
    if tensor.dtype == dtype:
        return tensor
    with torch.inference_mode(False), torch.no_grad():
        return tensor.detach().to(dtype)


def _make_pack(taken, w, device_index, stream):
    size = taken.plan.weights(0)[1]
    memory = None
    if device_index >= 0:  # from PyTorch's allocator, which knows streams and graphs
        memory = torch.empty(size, dtype=torch.uint8, device=w.device)
    raw = as_type(w, taken.dtype)
    address = 0 if memory is None else memory.data_ptr()
    made = Kept(None, _core.Weights._pack(taken.plan, 0, raw.data_ptr(), address, stream), memory)
    state.packed += 1
    return made


def packed(taken, w, device_index, stream):
    """The packed weights of a plan, made or made anew where the tensor changed. w may be of another type than the plan's."""

    def make():
        return _make_pack(taken, w, device_index, stream)

    def renew(pack):
        raw = as_type(w, taken.dtype)
        try:
            pack.value._update(raw.data_ptr(), stream)
        except Error:  # another thread's run reads it
            return False
        state.packed += 1
        return True

    return _keep(w, taken.pack_key, taken.span, device_index, stream, make, renew)


def packs_anew(estimate_us, packed_bytes):
    """Whether weights of a layer on CUDA are packed in each call: where that adds at most a twentieth to the layer's own time, as for a
    decoder of large pictures, whose packed weights would be memory for nothing. Packing takes two kernels, a cast and a copy, of some
    2.5 us each with what they do on the host, and moves five bytes for each packed one, at 2 TB/s."""
    return 5.0 + packed_bytes * 5 / 2e6 <= estimate_us / 20


def makes_anew(taken, direction, device_index, new_weights):
    """Whether what a plan reads of its weights is made in each call and kept for none. Of f64 it is, as gradcheck changes single numbers
    through .data, past every version; on CUDA of weights that are new in every run, of those that cost next to nothing to pack, and of
    large ones that are only cast, which autocast would do too, once in each of its contexts."""
    if taken.dtype == torch.float64:
        return True
    if device_index < 0 or direction == BACKWARD_WEIGHTS:
        return False
    size = taken.plan.weights(0)[1]
    return new_weights or (packs_anew(taken.plan.estimate_us, size) if taken.packs else size > SMALL)


def cast(tensor, dtype, span, device_index, stream):
    """A tensor in another type, as `value` of what is kept."""

    def make():
        return Kept(None, as_type(tensor, dtype))

    def renew(kept):
        # On the CPU another thread's run may read it.
        if device_index < 0 or kept.value.shape != tensor.shape or kept.value.stride() != tensor.stride():
            return False
        with torch.no_grad():
            kept.value.copy_(tensor)
        return True

    return _keep(tensor, dtype, span, device_index, stream, make, renew)


def packed_of_all():
    """(tensors that have packed weights, their bytes)"""
    tensors, size = 0, 0
    for _, forms in list(state.forms.values()):
        packs = [kept.value for kept in list(forms.values()) if isinstance(kept.value, _core.Weights)]
        tensors += bool(packs)
        size += sum(pack.bytes for pack in packs)
    return tensors, size
