"""The whole demo, as a user starts it: real broker, real Spark."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict, deque
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
import pytest

from sluice_demo.flights import AIRPORTS, load

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SECONDS = 5


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """All that the demo, its broker and its service leave behind would be below `folder`, or run with it as TMPDIR."""
    return subprocess.Popen(
        [sys.executable, "-m", "sluice_demo", "run", *options],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(folder: Path) -> list[str]:
    """Files, and processes that have `folder` in their environment, after processes that are ending had ten seconds."""
    deadline = time.monotonic() + 10
    while (found := [*map(str, folder.iterdir()), *processes(folder)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def processes(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def flights_page(address: str) -> dict[str, Any]:
    """What the page shows of the pipeline, as JSON, as soon as flights were read."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with urlopen(f"{address}api/pipelines/flights", timeout=60) as answer:  # noqa: S310 - an address of this machine
            found: dict[str, Any] = json.loads(answer.read())
        if found["read"]:
            return found
        time.sleep(0.1)
    raise AssertionError(found)


def summary(printed: str) -> list[int]:
    numbers = re.findall(r"^[ a-z]+ ([\d,]+) (?:tuples|marks|dead)", printed, re.MULTILINE)
    return [int(number.replace(",", "")) for number in numbers]


def test_it_plays_some_days_says_what_came_back_and_leaves_nothing(tmp_path: Path) -> None:
    last: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=100))
    departures = 0
    for day in islice(load(), SECONDS):
        departures += len(day.departures)
        for departure in day.departures:
            last[departure.origin].append(orjson.loads(departure.value)["dep_delay"])

    page = {}
    with start(tmp_path, "--seconds", str(SECONDS)) as demo:
        assert demo.stdout is not None
        printed = ""
        for line in demo.stdout:
            printed += line
            if found := re.fullmatch(r"The page of the service is at (http://localhost:\d+/)\n", line):
                page = flights_page(found[1])

    assert demo.returncode == 0, printed
    (stage,) = page["stages"]
    assert {one["stream"] for one in stage["inputs"]} == {"flights"}
    assert sum(one["partitions"] for one in stage["operators"] if one["partitions"]) >= len(AIRPORTS)
    topic_partitions, airports = 4, len(AIRPORTS)
    marks, days = SECONDS * topic_partitions, SECONDS * airports
    assert summary(printed) == [departures, marks, departures, days, days, 0], printed
    averages = [line for line in printed.splitlines() if "average delay of the last 100" in line]
    assert "  ".join(f"{name} {sum(last[name]) / 100:.1f}" for name in AIRPORTS) in averages[-1]
    assert re.search(r"^2013-01-0\d  EWR: \d+ departures, .* worst \d+ min \(\w\w \d+\)", printed, re.MULTILINE)
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once_with_its_summary(tmp_path: Path) -> None:
    with start(tmp_path, "--seconds", "600") as demo:
        assert demo.stdout
        seen = next((line for line in demo.stdout if "average delay of the last 100" in line), "")
        demo.send_signal(signal.SIGINT)
        stopped = time.monotonic()
        printed = demo.communicate(timeout=60)[0]
    assert seen
    assert time.monotonic() - stopped < 5
    assert demo.returncode == 0, printed
    assert "Interrupted." in printed
    assert left_behind(tmp_path) == []


def test_a_service_that_cannot_start_ends_it_with_the_log(tmp_path: Path) -> None:
    with start(tmp_path, "--seconds", "600") as demo:
        assert demo.stdout
        said = list(takewhile(lambda line: "Starting the service" not in line, demo.stdout))
        assert demo.poll() is None, "".join(said)
        time.sleep(0.5)
        for process in Path("/proc").glob("[0-9]*"):
            if process.name != str(demo.pid) and is_service(process, tmp_path):
                os.kill(int(process.name), signal.SIGKILL)
        printed = demo.communicate(timeout=60)[0]
    assert demo.returncode == 1, printed
    assert "the service ended with exit code -9; its log:" in printed
    assert left_behind(tmp_path) == []


def is_service(process: Path, folder: Path) -> bool:
    """False of a process that has ended since it was listed."""
    with suppress(OSError):
        command = (process / "cmdline").read_bytes().split(b"\0")
        return b"run" in command and str(folder).encode() in (process / "environ").read_bytes()
    return False
