"""Writes forecast.onnx: the value that the least squares line through 100 readings has next. Needs the package onnx."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

LENGTH = 100

lines = np.stack([np.ones(LENGTH), np.arange(LENGTH)], axis=1)
weights = np.array([1.0, LENGTH]) @ np.linalg.pinv(lines)
graph = helper.make_graph(
    [helper.make_node("MatMul", ["readings", "weights"], ["forecasts"])],
    "forecast",
    [helper.make_tensor_value_info("readings", TensorProto.FLOAT, ["windows", LENGTH])],
    [helper.make_tensor_value_info("forecasts", TensorProto.FLOAT, ["windows", 1])],
    [numpy_helper.from_array(weights.astype(np.float32)[:, None], "weights")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
checker.check_model(model)
save(model, Path(__file__).with_name("forecast.onnx"))
