"""Classes of `Custom` that compute all windows that fired at once, over arrays of Arrow (FN6 to FN8)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.aggregates.custom_functions import _of_all
from sluice.model.types import FLOAT64, optional_of
from sluice.testing import run_case
from tests.spec.custom_classes import Range

SCHEMA = {"k": "string", "f": "float64", "g": "float64?"}
ROWS = [{"k": "ab"[n % 2], "f": float(n * n % 7), "g": None if n % 3 else float(n)} for n in range(20)]


class Spread:
    """The largest value minus the smallest one."""

    signature = "float64 -> float64"
    calls: ClassVar[list[int]] = []

    def results(self, offsets: np.ndarray, values: pa.Array) -> np.ndarray:
        self.calls.append(len(offsets) - 1)
        numbers, starts = values.to_numpy(), offsets[:-1]
        return np.maximum.reduceat(numbers, starts) - np.minimum.reduceat(numbers, starts)


class Strict(Spread):
    """Fails for windows with a value above 5."""

    def results(self, offsets: np.ndarray, values: pa.Array) -> np.ndarray:
        if values.to_numpy().max() > 5:
            raise ArithmeticError(values)
        return super().results(offsets, values)


class Short(Spread):
    def results(self, offsets: np.ndarray, values: pa.Array) -> np.ndarray:
        return super().results(offsets, values)[:-1]


class Nulls:
    """How many values are null; null without one."""

    signature = "float64?, string -> int64?"

    def results(self, offsets: np.ndarray, values: pa.Array, names: pa.Array) -> pa.Array:
        assert names.type == pa.string()
        found = np.add.reduceat(values.is_null().to_numpy(zero_copy_only=False).astype(np.int64), offsets[:-1])
        return pa.array(found, mask=found == 0)


def outputs(call: str, window: str, *, cuts: list[int] | None = None) -> list[Any]:
    operator = {
        "window": window, "partition_by": ["k"], "schema": SCHEMA, "aggregate_incomplete_windows": "sliding" in window,
        "output": {"k": "k", "out": call},
    }  # fmt: skip
    case = {"operator": operator, "input": [{"at": float(n), "tuple": row} for n, row in enumerate(ROWS)]}
    return [record["tuple"]["out"] for record in run_case(case, cuts) if "tuple" in record]


def of(name: str, *arguments: str) -> str:
    return f'Custom("{__name__}:{name}", {", ".join(arguments)})'


@pytest.mark.parametrize("cuts", [None, [1] * 20, [7, 0, 9]])
@pytest.mark.parametrize("window", ["sliding, count(4), count(1), partitioned", "tumbling, count(3), partitioned"])
def test_a_class_over_arrays_gives_what_a_class_over_tuples_gives(window: str, cuts: list[int] | None):
    by_tuples = f'Custom("{Range.__module__}:Range", f)'
    assert outputs(of("Spread", "f"), window, cuts=cuts) == outputs(by_tuples, window)


def test_one_call_for_all_windows():
    Spread.calls.clear()
    assert len(outputs(of("Spread", "f"), "tumbling, count(2), partitioned", cuts=[20])) == 10
    assert Spread.calls == [10]


def test_null_in_and_out():
    found = outputs(of("Nulls", "g", "k"), "tumbling, count(1), partitioned")
    assert found == [None if n % 3 == 0 else 1 for n in range(20)]


def test_a_condition():
    """FN1: the windows of the part alone; null for a window without such tuples."""
    found = outputs(of("Spread", "f", "where: f > 100.0"), "tumbling, count(3), partitioned")
    assert found == [None] * 6


@pytest.mark.parametrize("name", ["Strict", "Short"])
def test_a_failing_window_is_a_dead_letter(name: str):
    made = {"Strict": Strict, "Short": Short}[name]
    values = pa.array([1.0, 3.0, 6.0, 2.0, 5.0])
    found = _of_all(made, np.array([2, 1, 2]), [values], FLOAT64)
    expected = [2.0, None, 3.0] if name == "Strict" else [None] * 3
    assert found.values.to_pylist() == expected
    assert found.failed.tolist() == [value is None for value in expected]
    assert _of_all(Nulls, np.array([1]), [values[:1], pa.array(["a"])], optional_of(FLOAT64)).failed.tolist() == [False]


def test_the_log_has_one_exception_of_a_call(caplog: pytest.LogCaptureFixture):
    """Also of a class that fails for each window."""
    _of_all(Short, np.ones(1000, np.int64), [pa.array(np.arange(1000.0))], FLOAT64)
    (record,) = caplog.records
    assert record.getMessage().startswith("1000 of 1000 values of ")
    assert record.exc_info is not None


def test_the_cost_of_a_tuple():
    """At most 50 ns above numpy, in processor time, for a million tuples in 10,000 windows."""
    values, sizes = pa.array(np.arange(1_000_000.0)), np.full(10_000, 100)
    offsets = np.arange(10_001) * 100
    Spread().results(offsets, values)
    start = time.process_time()
    Spread().results(offsets, values)
    alone = time.process_time()
    _of_all(Spread, sizes, [values], FLOAT64)
    assert (time.process_time() - alone) - (alone - start) < 1_000_000 * 50e-9


MODULE = """
class Mean:
    signature = "float64 -> float64"

    def results(self, offsets, values):
        import numpy as np

        return np.add.reduceat(values.to_numpy(), offsets[:-1]) / np.diff(offsets)
"""
FILE = """
pipeline: beside
streams:
  readings: {topic: readings, schema: {value: float64}}
  means: {topic: means}
operators:
  - name: means
    aggregate: readings
    window: tumbling, count(2)
    output: {means: {mean: 'Custom("module_beside_a_file:Mean", value)'}}
"""
EVENTS = '{"at": 0, "tuple": {"value": 1.0}}\n{"at": 1, "tuple": {"value": 4.0}}\n'


def test_a_module_beside_the_pipeline_file(tmp_path: Path):
    """Without PYTHONPATH, from another folder."""
    (tmp_path / "module_beside_a_file.py").write_text(MODULE)
    (tmp_path / "beside.yaml").write_text(FILE)
    (tmp_path / "events.jsonl").write_text(EVENTS)
    command = [sys.executable, "-m", "sluice", "replay", str(tmp_path / "beside.yaml"), str(tmp_path / "events.jsonl")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    assert '{"mean":2.5}' in found.stdout
