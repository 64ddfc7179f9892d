# ruff: noqa: ANN001, ANN201 - as users write it
"""A model in ONNX over the last 100 readings: the value that the line through them has next (forecast.onnx).

`examples/onnx/write_model.py` writes the model. Any model that gets a row of numbers for each window is called like it.
"""

from pathlib import Path

import numpy as np
import onnxruntime

LENGTH = 100
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = 1  # each bucket is a process with its own processor
SESSION = onnxruntime.InferenceSession(Path(__file__).with_name("forecast.onnx"), OPTIONS)


class Forecast:
    """The forecast of each window; null for a window of fewer than 100 readings."""

    signature = "float64 -> float64?"
    version = 1

    def results(self, offsets, values):
        full = np.flatnonzero(np.diff(offsets) == LENGTH)
        places = offsets[full, None] + np.arange(LENGTH)
        (forecasts,) = SESSION.run(None, {"readings": values.to_numpy()[places].astype(np.float32)})
        results = np.full(len(offsets) - 1, None, object)
        results[full] = forecasts[:, 0].astype(float)
        return np.array(results)
