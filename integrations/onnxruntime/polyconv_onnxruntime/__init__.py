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


def register():
    """Makes the provider known to ONNX Runtime, once a process, and returns its devices. A runtime older than 1.24 is refused."""
    import onnxruntime
    global _registered
    if not _registered:
        onnxruntime.register_execution_provider_library(NAME, library())
        _registered = True
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]


def options(session_options=None, **provider_options):
    """`session_options` (None: new ones) with the provider in them. Keywords are the provider's options, see
    docs/onnxruntime.md: options(report="report.txt", profile=1). A wrong one makes the session's creation fail."""
    import onnxruntime
    devices = register()
    if not devices:
        raise RuntimeError("polyconv: ONNX Runtime offers the provider no CPU device")
    if session_options is None:
        session_options = onnxruntime.SessionOptions()
    words = {key: str(int(value)) if isinstance(value, bool) else str(value) for key, value in provider_options.items()}
    session_options.add_provider_for_devices(devices[:1], words)
    return session_options
