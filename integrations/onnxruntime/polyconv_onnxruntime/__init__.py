"""polyconv as an execution provider of ONNX Runtime: the convolutions of any model run on polyconv, the rest as before.

    import onnxruntime, polyconv_onnxruntime
    session = onnxruntime.InferenceSession("model.onnx", polyconv_onnxruntime.options())
"""

import os

NAME = "PolyconvExecutionProvider"
_registered = False


def library():
    """The path of the provider's library: POLYCONV_ONNXRUNTIME_LIBRARY, or the one that the package carries."""
    return os.environ.get("POLYCONV_ONNXRUNTIME_LIBRARY") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "lib", "libpolyconv_onnxruntime.so")


def _load_plugins():
    """The CUDA plug-ins of the package polyconv-cuda13, where it is installed: polyconv searches beside itself alone."""
    import ctypes
    import glob
    import importlib.util
    found = importlib.util.find_spec("polyconv_cuda13")
    core = os.path.join(os.path.dirname(library()), "libpolyconv.so.0")
    if found is None or not os.path.exists(core):
        return
    load = ctypes.CDLL(core).polyconv_backend_load
    for folder in found.submodule_search_locations or []:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "backends", "libpolyconv_*.so"))):
            load(path.encode())  # one that does not load is listed with its reason: no driver, say


def register():
    """Makes the provider known to ONNX Runtime, once a process, and returns its devices. A runtime older than 1.24 is refused."""
    import onnxruntime
    global _registered
    if not _registered:
        _load_plugins()
        onnxruntime.register_execution_provider_library(NAME, library())
        _registered = True
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]


def devices():
    """What a session can be on: "cpu", and "cuda:0", "cuda:1", ... where polyconv finds GPUs."""
    return [device.ep_metadata["device"] for device in register()]


def options(session_options=None, device="cpu", **provider_options):
    """`session_options` (None: new ones) with the provider on `device` ("cpu", "cuda" for the first GPU, "cuda:1") in
    them. Further keywords are the provider's options, see docs/onnxruntime.md: options(report="report.txt", profile=1). A
    wrong one makes the session's creation fail. `threads` is the session's intra_op_num_threads where that is set, which ONNX
    Runtime shows nobody but this: set it before."""
    import onnxruntime
    wanted = "cuda:0" if device == "cuda" else device
    offered = {each.ep_metadata["device"]: each for each in register()}
    if wanted not in offered:
        raise RuntimeError("polyconv: device is %r, expected one of %s" % (device, ", ".join(sorted(offered)) or "none: ONNX Runtime offers no device"))
    if session_options is None:
        session_options = onnxruntime.SessionOptions()
    if session_options.intra_op_num_threads > 0:
        provider_options.setdefault("threads", session_options.intra_op_num_threads)
    words = {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in provider_options.items()}
    session_options.add_provider_for_devices([offered[wanted]], words)
    return session_options
