"""The recipe with a model in ONNX (examples/onnx), whose runtime is an extra: `make test-onnx` installs it.

Its pipeline file ends in .yml, because the lab and other tests load each .yaml of the examples without an extra.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sluice
from sluice.config.load import load
from sluice.files import project_file

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed; make test-onnx installs it")

FOLDER = project_file("examples/onnx")


def events(count: int) -> list[dict]:
    """A sensor with a straight line, and one with noise, one reading each."""
    noise = np.random.default_rng(7).normal(20.0, 3.0, count)
    values = {"line": [5.0 + n / 4 for n in range(count)], "noise": noise.tolist()}
    return [
        {"at": float(n), "stream": "readings", "tuple": {"sensor": sensor, "value": values[sensor][n]}}
        for n in range(count)
        for sensor in values
    ]


@pytest.mark.parametrize("batch", [1, 37, 10_000])
def test_each_reading_has_the_forecast_of_the_line_through_the_last_100(batch: int):
    given = events(130)
    outputs = [
        record["tuple"] for record in sluice.replay(load(FOLDER / "forecast.yml"), given, batch=batch)
        if "tuple" in record
    ]  # fmt: skip
    assert len(outputs) == len(given)
    for number, output in enumerate(outputs):
        before = [e["tuple"]["value"] for e in given[: number + 1] if e["tuple"]["sensor"] == output["sensor"]][-100:]
        if len(before) < 100:
            assert output["next"] is None
        else:
            assert output["next"] == pytest.approx(np.polyval(np.polyfit(np.arange(100), before, 1), 100), rel=1e-4)
    assert sum(output["next"] is not None for output in outputs) == 62


def test_the_model_is_what_its_program_writes(tmp_path: Path):
    pytest.importorskip("onnx", reason="the package onnx is not installed; make test-onnx installs it")
    program = tmp_path / "write_model.py"
    program.write_bytes((FOLDER / "write_model.py").read_bytes())
    exec(compile(program.read_text(), program, "exec"), {"__file__": str(program), "__name__": "__main__"})  # noqa: S102
    assert (tmp_path / "forecast.onnx").read_bytes() == (FOLDER / "forecast.onnx").read_bytes()
