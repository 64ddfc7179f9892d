"""A class that hangs ends its batch (FN14)."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sluice.api import call_limit
from sluice.api.call_limit import CallTimeoutError
from sluice.api.handler import WindowHandler
from sluice.replayer.player import replay
from sluice.testing import pipeline_of
from sluice.time_units import SECOND

#: in nanoseconds
SHORT = SECOND // 20
SCHEMA = {"f": "float64"}
EVENTS = [{"at": float(n), "tuple": {"f": float(n)}} for n in range(4)]


def hang() -> None:
    while True:
        pass


class ByTuple:
    signature = "float64 -> float64"

    def init(self) -> None:
        """No state."""

    def add(self, value: float) -> None:
        if value == 3:
            hang()

    def result(self) -> float:
        return 1.0


class OverArrays:
    signature = "float64 -> float64"

    def results(self, offsets: np.ndarray, values: pa.Array) -> np.ndarray:
        time.sleep(1000)
        return offsets[1:]


class Lifted:
    signature = "float64 -> float64"
    combine = ("sum",)

    def lift(self, values: pa.Array) -> list[pa.Array]:
        threading.Event().wait()
        return [values]

    def result(self, sums: np.ndarray) -> np.ndarray:
        return sums


class Stubborn(OverArrays):
    """Catches everything once."""

    caught: ClassVar[list[BaseException]] = []

    def results(self, offsets: np.ndarray, values: pa.Array) -> np.ndarray:
        try:
            hang()
        except BaseException as error:  # noqa: BLE001
            self.caught.append(error)
        return super().results(offsets, values)


class Handler(WindowHandler):
    output: ClassVar = {"f": "float64"}

    def after_insertion(self, window: Any, row: Any) -> Any:
        yield {"f": row["f"]}
        if row["f"] == 2:
            hang()


@pytest.fixture(autouse=True)
def _timer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(call_limit, "AGAIN_S", 0.05)
    monkeypatch.setattr(call_limit, "KILL", 1000)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    call_limit.limit("", 0.0)
    call_limit.Calls.timed = 0


def run(name: str, **settings: int) -> list[dict[str, Any]]:
    operator: dict[str, Any] = {"output": {"r": f'Custom("{__name__}:{name}", f)'}}
    if name == "Handler":
        operator = {"kind": "custom", "handler": f"{__name__}:Handler"}
    pipeline = pipeline_of({"operator": {"window": "tumbling, count(4)", "schema": SCHEMA} | operator, "input": EVENTS})
    return list(replay(replace(pipeline, settings=replace(pipeline.settings, **settings)), EVENTS))


@pytest.mark.parametrize("name", ["ByTuple", "OverArrays", "Lifted", "Stubborn", "Handler"])
def test_a_call_that_does_not_return_ends_the_batch(name: str):
    with pytest.raises(CallTimeoutError) as caught:
        run(name, class_timeout=SHORT)
    assert f"operator case: a call of the class {__name__}:{name} did not return within 0.05 s" in str(caught.value)
    assert caught.value.exit_code == 6


def test_a_class_that_catches_everything_is_interrupted_again():
    Stubborn.caught.clear()
    with pytest.raises(CallTimeoutError):
        run("Stubborn", class_timeout=SHORT)
    assert [type(error).__name__ for error in Stubborn.caught] == ["Overdue"]


def test_the_message_names_the_batch():
    call_limit.limit("o", 0.05)
    message = r"^batch 7, operator o: a call of the class C did not return within 0.05 s \(class_timeout\)"
    with pytest.raises(CallTimeoutError, match=message), call_limit.of_batch(7):
        call_limit.call("C", hang)


def test_the_time_between_calls_does_not_count():
    """The timer of an early call rings in a later one, which has its own time."""
    call_limit.limit("o", 30.0)
    assert call_limit.call("C", int, 5) == 5
    signal.setitimer(signal.ITIMER_REAL, 1e-6)
    assert call_limit.call("C", after_the_ring) == "done"


def after_the_ring() -> str:
    while signal.getitimer(signal.ITIMER_REAL)[0] < 1.0:  # set anew by the ring
        pass
    return "done"


def test_no_limit_in_other_threads_and_beside_another_user_of_the_signal():
    call_limit.limit("o", 0.05)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(call_limit.call, "C", signal.getitimer, signal.ITIMER_REAL).result() == (0.0, 0.0)
    signal.signal(signal.SIGALRM, lambda *_: None)
    assert call_limit.call("C", signal.getitimer, signal.ITIMER_REAL) == (0.0, 0.0)


IN_C = """
import ctypes
from sluice.api import call_limit

def hang_in_c():
    lock = ctypes.create_string_buffer(64)
    program = ctypes.PyDLL(None)
    program.pthread_mutex_lock(lock)
    program.pthread_mutex_lock(lock)

call_limit.limit("o", 0.1)
call_limit.call_over_arrays("C", hang_in_c)
"""


def test_code_in_c_that_does_not_return_ends_the_process():
    ended = subprocess.run([sys.executable, "-c", IN_C], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "in hang_in_c" in ended.stderr


def test_the_cost_of_a_call():
    """A class tuple by tuple takes some microseconds for each window; the limit adds less than one."""
    call_limit.limit("o", 60.0)
    call_limit.call("C", int)
    start = time.process_time()
    for _ in range(20_000):
        call_limit.call("C", int)
    assert time.process_time() - start < 20_000 * 2e-6
