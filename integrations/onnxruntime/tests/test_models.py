"""Real models from PyPI with and without the provider: the same text, the same decisions."""

import importlib.util
import os

import numpy as np
import onnxruntime
import pytest

from conftest import DEVICE, with_provider, without


def page():
    """A page of printed text, drawn with OpenCV's own letters."""
    cv2 = pytest.importorskip("cv2")
    image = np.full((260, 720, 3), 255, np.uint8)
    for line, text in enumerate(["Convolution on whatever the machine has", "A layer is planned once and runs often", "Total 1234.50"]):
        cv2.putText(image, text, (20, 60 + 80 * line), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (0, 0, 0), 2, cv2.LINE_AA)
    return image


def test_text_is_the_same(monkeypatch):
    """rapidocr: detection, direction and recognition, of which every session is made with the provider."""
    rapidocr = pytest.importorskip("rapidocr_onnxruntime")
    image = page()
    plain = rapidocr.RapidOCR()(image)[0]
    made = []
    original = onnxruntime.InferenceSession

    def session(path, sess_options=None, **_):
        import polyconv_onnxruntime
        made.append(path)
        return original(path, polyconv_onnxruntime.options(sess_options, device=DEVICE))

    import rapidocr_onnxruntime.utils.infer_engine as engine
    monkeypatch.setattr(engine, "InferenceSession", session)
    ours = rapidocr.RapidOCR()(image)[0]
    assert len(made) == 3
    assert plain and [entry[1] for entry in ours] == [entry[1] for entry in plain]
    assert "1234.50" in ours[-1][1]


def test_voice_is_the_same():
    """silero-vad: the probability of speech, piece by piece, of a hum that begins and ends. Its model alone is needed: the
    package would import PyTorch."""
    found = importlib.util.find_spec("silero_vad")
    if not found:
        pytest.skip("no silero-vad")
    compare_voice(os.path.join(os.path.dirname(found.origin), "data", "silero_vad.onnx"))


def compare_voice(path):
    rng, rate = np.random.default_rng(3), 16000
    time = np.arange(rate) / rate
    voice = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12)) * (1 + np.sin(2 * np.pi * 4 * time)) * .1
    sound = np.concatenate([np.zeros(rate // 2), voice, np.zeros(rate // 2)]).astype(np.float32)
    sound += rng.standard_normal(sound.size).astype(np.float32) * 1e-3
    answers = []
    for session in (without(path), with_provider(path)):
        state, context, probabilities = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), []
        for begin in range(0, sound.size - 511, 512):
            piece = np.concatenate([context, sound[None, begin:begin + 512]], axis=1)
            probability, state = session.run(None, {"input": piece, "state": state, "sr": np.array(rate, np.int64)})
            context = piece[:, -64:]
            probabilities.append(float(probability[0, 0]))
        answers.append(np.array(probabilities))
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-4)
    assert ((answers[0] > .5) == (answers[1] > .5)).all()
