"""fuse(model): finds in the graph of an eval model what follows each convolution, and makes one layer of it."""
# SPDX-License-Identifier: Apache-2.0

import copy
import operator
from typing import NamedTuple

import torch
import torch.fx

from ..errors import InvalidArgument
from ..names import activation as activation_number
from ._fused import Activation, FusedConv
from ._patch import is_patched
from ._plans import module_of

nn, F = torch.nn, torch.nn.functional
_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_NOTHING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d) if hasattr(nn, "Dropout1d") else (nn.Identity, nn.Dropout)
_ADDS = (operator.add, operator.iadd, torch.add, "add", "add_")


class Left(NamedTuple):
    """Something behind a convolution that was not fused, or a module whose convolutions were not looked at."""

    layer: str
    what: str
    reason: str


def _named(name, alpha=None):
    return Activation(*activation_number(name if alpha is None else (name, alpha)))


def _gelu(approximate):
    return _named("gelu_tanh" if approximate == "tanh" else "gelu")


_OF_MODULES = {
    nn.ReLU: lambda m: _named("relu"),
    nn.ReLU6: lambda m: _named("clipped_relu", 6.0),
    nn.LeakyReLU: lambda m: _named("leaky_relu", m.negative_slope),
    nn.Tanh: lambda m: _named("tanh"),
    nn.Sigmoid: lambda m: _named("sigmoid"),
    nn.GELU: lambda m: _gelu(getattr(m, "approximate", "none")),
    nn.SiLU: lambda m: _named("silu"),
    nn.Hardswish: lambda m: _named("hard_swish"),
    nn.ELU: lambda m: _named("elu", m.alpha),
    nn.PReLU: lambda m: _named("prelu")._replace(slope=m.weight),
}
# Functions and methods, with what they take beside their input.
_OF_FUNCTIONS = {
    **dict.fromkeys((F.relu, torch.relu, torch.relu_, "relu", "relu_"), lambda inplace=False: _named("relu")),
    F.relu6: lambda inplace=False: _named("clipped_relu", 6.0),
    F.leaky_relu: lambda negative_slope=0.01, inplace=False: _named("leaky_relu", negative_slope),
    **dict.fromkeys((torch.tanh, F.tanh, "tanh", "tanh_"), lambda: _named("tanh")),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid", "sigmoid_"), lambda: _named("sigmoid")),
    F.gelu: lambda approximate="none": _gelu(approximate),
    F.silu: lambda inplace=False: _named("silu"),
    F.hardswish: lambda inplace=False: _named("hard_swish"),
    F.elu: lambda alpha=1.0, inplace=False: _named("elu", alpha),
}
_OWN_WAYS = "has hooks, or a forward of its own (patch?)"
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called")


def _own_ways(module):
    """Whether a module does something else than its class says: somebody hung something on it, or replaced its forward."""
    hooked = any(getattr(module, name, None) for name in (*_HOOKS, "_backward_hooks", "_backward_pre_hooks"))
    return hooked or "forward" in module.__dict__ or is_patched(module)


def _with_hooks_of(module, made):
    """What was made of a module, with what hung on that."""
    for name in _HOOKS:
        if getattr(module, name, None):
            getattr(made, name).update(getattr(module, name))
    return made


def _activation(node, modules):
    """The activation that a node is; None for anything else, numbers that the library does not take among it."""
    try:
        if node.op == "call_module":
            module = modules[node.target]
            make = _OF_MODULES.get(type(module))
            return None if make is None or _own_ways(module) else make(module)
        make = _OF_FUNCTIONS.get(node.target) if node.op in ("call_function", "call_method") else None
        return None if make is None else make(*node.args[1:], **{k: v for k, v in node.kwargs.items() if k != "input"})
    except (InvalidArgument, TypeError):
        return None


def _writes(node, modules):
    """Whether a node may change a tensor that is there already."""
    if node.op == "call_module":
        return bool(getattr(modules[node.target], "inplace", False))
    if node.op not in ("call_function", "call_method"):
        return False
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = isinstance(node.target, type(operator.iadd)) and node.target in (operator.iadd, operator.imul, operator.isub)
    written = name.endswith("_") and not name.endswith("__")
    return in_place or written or name == "setitem" or bool(node.kwargs.get("inplace")) or "out" in node.kwargs


def folded(conv, norm):
    """Weights and bias of a convolution with a batch norm's eval form multiplied in, computed in f64; the bias of half-precision
    layers stays f32, as kernels add it."""
    weight = conv.weight.detach()
    bias = None if conv.bias is None else conv.bias.detach()
    if norm is None:
        return weight, bias
    wide = torch.float64
    factor = (norm.running_var.to(wide) + norm.eps).rsqrt()
    if norm.weight is not None:
        factor = factor * norm.weight.detach().to(wide)
    mean = norm.running_mean.to(wide)
    shift = (0 if bias is None else bias.to(wide)) - mean
    shift = shift * factor + (0 if norm.bias is None else norm.bias.detach().to(wide))
    if isinstance(conv, nn.modules.conv._ConvTransposeNd):
        split = weight.to(wide).reshape(conv.groups, weight.shape[0] // conv.groups, *weight.shape[1:])
        per_group = factor.reshape(conv.groups, 1, weight.shape[1], *[1] * (weight.dim() - 2))
        scaled = (split * per_group).reshape(weight.shape)
    else:
        scaled = weight.to(wide) * factor.reshape(-1, *[1] * (weight.dim() - 1))
    result = torch.empty_like(weight)  # in the memory format of the weights
    result.copy_(scaled)
    return result, shift.to(torch.float32 if weight.dtype in (torch.float16, torch.bfloat16) else weight.dtype)


class _Chain:
    """A convolution's node and those behind it that become one with it."""

    def __init__(self, node, traced, modules, order, prefix, left):
        self.node, self.traced, self.modules, self.order = node, traced, modules, order
        self.prefix, self.left = prefix, left
        self.nodes, self.parts = [node], [type(modules[node.target]).__name__]
        self.norm = self.residual = None
        self.activation = Activation()

    def leave(self, node, reason):
        self.left.append(Left(self.prefix + str(self.node.target), str(node.target if node.op == "call_module" else node.name), reason))

    def between(self, node):
        """The name of a node that may write to memory after the convolution and before `node`; None where there is none."""
        for other in self.order[self.order.index(self.node) + 1 : self.order.index(node)]:
            if other not in self.nodes and _writes(other, self.modules):
                return other.name
        return None

    def take(self, node, part):
        self.nodes.append(node)
        if part:
            self.parts.append(part)

    def norm_of(self, node):
        module = self.modules.get(node.target) if node.op == "call_module" else None
        return module if type(module) in _NORMS and not _own_ways(module) else None

    def take_norm(self, node, module):
        if self.residual is not None or self.norm is not None:
            return self.leave(node, "a batch norm behind another or behind a sum")
        if module.running_mean is None or module.training:
            return self.leave(node, "a batch norm that uses statistics of the batch")
        self.norm = module
        self.take(node, type(module).__name__)
        return True

    def take_sum(self, node):
        others = [one for one in node.args if one is not self.nodes[-1]]
        if len(node.args) != 2 or len(others) != 1 or node.kwargs or not isinstance(others[0], torch.fx.Node):
            return self.leave(node, "a sum of something else than two tensors")
        if self.residual is not None:
            return self.leave(node, "a second sum")
        if node.target in (operator.iadd, "add_") and node.args[0] is others[0]:
            return self.leave(node, "it adds in place to another tensor")
        self.residual = others[0]
        self.take(node, "add")
        return True

    def step(self):
        """Takes the node behind the last; False where the chain ends."""
        last = self.nodes[-1]
        users = list(last.users)
        for user in users if len(users) > 1 else ():
            if self.norm_of(user) is not None or _activation(user, self.modules) is not None:
                self.leave(user, f"{last.name} is used {len(users)} times")
        if len(users) != 1:
            return False
        node = users[0]
        writer = self.between(node)
        module = self.modules.get(node.target) if node.op == "call_module" else None
        if type(module) in _NOTHING and not module.training and not _own_ways(module):
            self.take(node, "")
            return True
        norm, activation = self.norm_of(node), _activation(node, self.modules)
        adds = node.op in ("call_function", "call_method") and node.target in _ADDS
        if norm is None and activation is None and not adds:
            return False
        if writer is not None:
            self.leave(node, f"{writer} writes to memory in between")
            return False
        if norm is not None:
            return bool(self.take_norm(node, norm))
        if adds:
            return bool(self.take_sum(node))
        self.activation = activation
        self.take(node, type(module).__name__ if module is not None else getattr(node.target, "__name__", str(node.target)))
        return False

    def replace(self):
        conv = self.modules[self.node.target]
        weight, bias = folded(conv, self.norm)
        fused = FusedConv(conv, weight, bias, self.activation, " + ".join(self.parts))
        name = str(self.node.target)
        if name in self.traced.polyconv_fused:  # a layer that is called twice, with other things behind it
            name += f"_{len(self.traced.polyconv_fused)}"
        self.traced.polyconv_fused.add(name)
        self.traced.add_submodule(name, fused)
        last = self.nodes[-1]
        with self.traced.graph.inserting_before(last):
            arguments = (self.node.args[0],) + (() if self.residual is None else (self.residual,))
            made = self.traced.graph.call_module(name, arguments)
        last.replace_all_uses_with(made)
        for node in reversed(self.nodes):
            self.traced.graph.erase_node(node)


def _fuse_graph(traced, prefix, left):
    modules = dict(traced.named_modules())
    traced.polyconv_fused = set()
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or type(modules.get(node.target)) not in _CONVS:
            continue
        conv = modules[node.target]
        if len(node.args) != 1 or node.kwargs:
            left.append(Left(prefix + str(node.target), "", "called with more than its input"))
            continue
        if _own_ways(conv):
            left.append(Left(prefix + str(node.target), "", _OWN_WAYS))
            continue
        chain = _Chain(node, traced, modules, list(traced.graph.nodes), prefix, left)
        while chain.step():
            pass
        chain.replace()
    del traced.polyconv_fused
    traced.delete_all_unused_submodules()
    traced.graph.lint()
    traced.recompile()
    return traced


def _fused_copy(module, prefix, left):
    """A copy of a module whose convolutions are fused; modules that cannot be traced are copied, and their children fused."""
    if type(module) in _CONVS and _own_ways(module):
        left.append(Left(prefix.rstrip("."), "", _OWN_WAYS))
        return module
    if type(module) in _CONVS:  # alone: nothing that follows it is in sight
        return FusedConv(module, *folded(module, None), Activation(), type(module).__name__)
    if not any(type(each) in _CONVS for each in module.modules()):
        return module
    try:
        traced = torch.fx.symbolic_trace(module)
    except Exception as error:  # control flow that looks at values, and whatever else tracing cannot do
        reason = str(error).split("\n", 1)[0]
        left.append(Left(prefix.rstrip("."), type(module).__name__, f"not traced as a whole, its children one by one: {reason}"))
        made = copy.copy(module)
        made._modules = {
            name: None if child is None else _fused_copy(child, f"{prefix}{name}.", left) for name, child in module._modules.items()
        }
        return made
    return _with_hooks_of(module, _fuse_graph(traced, prefix, left))


def fuse(model):
    """A copy of an eval model in which each convolution runs as one plan with the batch norm, the added residual and the
    activation behind it (ReLU, ReLU6, LeakyReLU, PReLU, SiLU, GELU, Hardswish, ELU, Sigmoid, Tanh). The model itself stays
    as it is. Weights of the copy are constants with the batch norms multiplied in; those of layers without one share memory
    with the model's.

    The copy runs on polyconv whether or not enable() is on, for inference: where its input wants a gradient the fused layers
    run by PyTorch's operators one by one. Models are traced by torch.fx; of one that it cannot trace, children are, each by itself.
    report(copy) tells what became one plan and what did not, and why; `copy.polyconv_left` has the same as a list."""
    module_of(model)
    training = [name or "the model" for name, module in model.named_modules() if module.training and not isinstance(module, _NOTHING)]
    if training:
        raise InvalidArgument(f"model is in training ({training[0]}), expected an eval model: call model.eval()")
    left = []
    with torch.no_grad():
        fused = _fused_copy(model, "", left)
    fused.eval()
    fused.polyconv_left = left
    return fused
