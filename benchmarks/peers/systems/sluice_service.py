"""Sluice itself: `sluice run` with a pipeline file, as a user starts it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import yaml

from benchmarks.peers.system import System, Task
from benchmarks.peers.workload import LAST, SPAN, START

TOTALS = {"n": "Count()", "s": "Sum(v)", "m": "Max(v)"}
SECONDS = SPAN / 1000
WINDOWS = {
    "tumble": f"tumbling, time({SECONDS}), partitioned",
    "count": f"tumbling, count({LAST}), partitioned",
    "slide": f"sliding, count({LAST}), count(1), partitioned",
    "slidetime": f"sliding, time({SECONDS}), count(1), partitioned",
}


class Sluice(System):
    """`delivery` and `latency` are those of the pipeline file; `http` is the port of the metrics, 0: none."""

    def __init__(self, delivery: str = "exactly_once", latency: str = "balanced", http: int = 0) -> None:
        self._settings = {"delivery": delivery, "latency": latency}
        self._http = ["--http-port", str(http)] if http else ["--no-http"]
        self.guarantee = delivery.replace("_", " ")
        self.name = "Sluice" if delivery == "exactly_once" else f"Sluice, {self.guarantee}"
        self.settings = "lz4; the clock follows the records"

    def install(self) -> None:
        """`make setup` has installed it."""

    def command(self, task: Task) -> Sequence[str]:
        file = task.folder / "pipeline.yaml"
        file.write_text(yaml.safe_dump(_pipeline(task, self._settings)))
        options = [*self._http, "--checkpoint", str(task.folder / "checkpoint")]
        kafka = ["--kafka", f"bootstrap.servers={task.bootstrap}", "--kafka", "compression.type=lz4"]
        return [sys.executable, "-m", "sluice", "run", str(file), *options, *kafka]

    def first_record(self, output: str) -> bool:
        return "message=running" in output

    ready = first_record


def _pipeline(task: Task, settings: dict[str, Any]) -> dict[str, Any]:
    schema = {"k": "string", "v": "float64", "ts": "int64", **({"w": "float64"} if task.live else {})}
    source = {"format": "json", "schema": schema}
    streams = {
        "records": {"topic": task.inputs[0], **source},
        "results": {"topic": task.output, "format": "json", "marks": "none"},
        "dead": {"topic": f"{task.run}-dead"},
    }
    pipeline: dict[str, Any] = {
        "pipeline": task.run,
        "clock": "records",
        "streams": streams,
        "operators": [{"name": "measured", **_operator(task, schema)}],
        "dead_letters": "dead",
        **settings,
    }
    if not task.live:
        pipeline["clock_origin"] = START // 1000
    if task.workload == "join":
        streams["others"] = {"topic": task.inputs[1], **source}
        # A record waits for later ones of all topic partitions. The clock of the day ends the wait of the last one.
        pipeline |= {"merge": "timestamp", "clock": "processing", "merge_wait": 1}
    return pipeline


def _operator(task: Task, schema: dict[str, str]) -> dict[str, Any]:
    if task.workload == "pass":
        return {"map": "records", "output": {"results": {name: name for name in schema}}}
    if task.workload == "join":
        window = f"sliding, time({SECONDS})"
        pair = {"k": "left.k", "v": "left.v", "u": "right.v", "ts": "left.ts"}
        return {
            "join": {"left": "records", "right": "others"},
            "window_left": window, "window_right": window, "equality_left": ["k"], "equality_right": ["k"],
            "output": {"results": pair},
        }  # fmt: skip
    sent = {"w": "Last(w)"} if task.live else {}
    window = WINDOWS[task.workload]
    incomplete = {"aggregate_incomplete_windows": True} if window.startswith("sliding") else {}
    return {
        "aggregate": "records", "window": window, "partition_by": ["k"], **incomplete,
        "output": {"results": {**TOTALS, **sent}},
    }  # fmt: skip
