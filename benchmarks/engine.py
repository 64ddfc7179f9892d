"""`make bench-engine`: tuples per second through the engine alone, on one core: no Spark, no Kafka, no JSON.

Batches hold string keys that are dictionary-encoded already; outputs are Arrow columns in memory.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import yaml
from numba.core.dispatcher import Dispatcher

from benchmarks.machine import machine
from benchmarks.results_page import write
from sluice.config.load import load_text
from sluice.engine.graph import Clock, Graph, GraphState
from sluice.engine.stream.items import TUPLE, Items
from sluice.model.spec import DELETES
from sluice.replayer.player import with_origin

SECOND = 1_000_000_000
HEAD = (
    "| case | tuples/s | aim | kernels alone | outputs/s | in batches of 1,000 | cost |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)

#: the streams' items of one batch
Inputs = dict[str, Items]
Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class Case:
    """`columns(first, count)` makes the attributes of the tuples number `first` ...; they come every `step` ns.

    filling   tuples that come before the clock is looked at
    """

    title: str
    aim: str
    cost: str
    operator: dict[str, Any]
    columns: Callable[[int, int], Columns]
    filling: int
    step: int = 1000
    measured: int = 4_000_000
    streams: tuple[str, ...] = ("in",)
    schema: dict[str, str] = field(default_factory=lambda: {"k": "string", "v": "float64"})
    #: of the streams
    event_time: dict[str, Any] | None = None
    #: the key of the streams if they are tables
    table_key: tuple[str, ...] = ()

    def graph(self) -> Graph:
        own = {"schema": self.schema} | ({"event_time": self.event_time} if self.event_time else {})
        if self.table_key:
            own |= {"table": True, "key": {"attributes": [*self.table_key], "format": "json"}}
        streams = {name: {"topic": name, **own} for name in self.streams}
        file = {
            "pipeline": "bench",
            "streams": streams | {"out": {"topic": "out"}},
            "operators": [{"name": "measured", **self.operator}],
        }
        pipeline = with_origin(load_text(yaml.safe_dump(file), "bench"), None)
        return Graph(pipeline, dict.fromkeys(self.streams, 1))

    def batches(self, first: int, count: int, size: int) -> list[Inputs]:
        """`count` tuples from number `first` on, in turns over the streams."""
        return [self._inputs(start, min(size, first + count - start)) for start in range(first, first + count, size)]

    def _inputs(self, first: int, count: int) -> Inputs:
        several = len(self.streams)
        inputs = {}
        for port, stream in enumerate(self.streams):
            number = np.arange(first + (port - first) % several, first + count, several)
            tuples = pa.record_batch(self.columns(int(number[0]), len(number)))
            inputs[stream] = Items(
                number - first, number * self.step, np.full(len(number), TUPLE, np.int8),
                np.zeros(len(number), np.int32), np.full(len(number), -1, np.int32), pa.array([], pa.binary()), tuples,
            )  # fmt: skip
        return inputs


def keyed(keys: int) -> Callable[[int, int], Columns]:
    """Keys in a fixed random order, a value that goes up and down."""
    names = pa.array([f"key-{key}" for key in range(keys)])
    order = np.random.default_rng(1).permutation(max(keys, 1_000_003) // keys * keys) % keys

    def columns(first: int, count: int) -> Columns:
        number = np.arange(first, first + count)
        codes = pa.array(order[number % len(order)].astype(np.int32))
        return {"k": pa.DictionaryArray.from_arrays(codes, names), "v": pa.array((number * 7919 % 1000) / 10)}

    return columns


CALLS = {"n": "Count()", "s": "Sum(v)", "m": "Max(v)"}


def aggregate(window: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"aggregate": "in", "window": window, "partition_by": ["k"], "output": {"out": CALLS}, **more}


def sliding(size: int, keys: int) -> Case:
    """All windows are as full as 12 million tuples make them, and where they are full are filled anew once."""
    held = min(size * keys, 12_000_000)
    return Case(
        f"sliding, count({size:,}), count(1), {keys:,} keys", "8 M", "O(1)",
        aggregate(f"sliding, count({size}), count(1), partitioned", aggregate_incomplete_windows=True),
        keyed(keys), filling=held, measured=max(4_000_000, held),
    )  # fmt: skip


def timed(keys: int, step: int, late: float = 0.0) -> Callable[[int, int], Columns]:
    """With an event time `t`, `step` ns from one tuple to the next; a share of them comes up to five seconds late."""
    plain, chance = keyed(keys), np.random.default_rng(2)
    behind = np.where(chance.random(1_000_003) < late, chance.integers(0, 5 * SECOND, 1_000_003), 0)

    def columns(first: int, count: int) -> Columns:
        number = np.arange(first, first + count)
        time_ = 1_000_000 * SECOND + number * step - behind[number % len(behind)]
        return plain(first, count) | {"t": pa.array(time_).cast(pa.timestamp("ns", "UTC"))}

    return columns


TIMED = {"k": "string", "v": "float64", "t": "timestamp"}


def rows(keys: int, corrections: float) -> Callable[[int, int], Columns]:
    """Rows of a table with the key `id`; a share of them corrects one of the last 50 rows of its window partition."""
    plain, chance = keyed(keys), np.random.default_rng(3)
    back = np.where(chance.random(1_000_003) < corrections, keys * chance.integers(1, 50, 1_000_003), 0)

    def columns(first: int, count: int) -> Columns:
        number = np.arange(first, first + count)
        row = np.maximum(number - back[number % len(back)], number % keys)
        names = pa.array((row % keys).astype(np.int64))
        made = {"id": pa.array(row), "k": names, "v": plain(first, count)["v"]}
        return made | {DELETES: pa.array(np.zeros(count, np.bool_))}

    return columns


def corrected(corrections: float) -> Case:
    return Case(
        f"sliding, count(100), count(1) over a table, 100 keys, {corrections:.0%} corrections", "1 M", "O(log n)",
        aggregate("sliding, count(100), count(1), partitioned", aggregate_incomplete_windows=True),
        rows(100, corrections), filling=20_000, measured=1_000_000,
        schema={"id": "int64", "k": "int64", "v": "float64"}, table_key=("id",),
    )  # fmt: skip


def panes(per_slice: int) -> Case:
    """Ten panes hold each tuple; a key has so many tuples in the second from one pane's start to the next."""
    step = SECOND // (1000 * per_slice)
    return Case(
        f"timeInterval, 10 panes a tuple, 1,000 keys, {per_slice} tuples a key and slice", "5 M", "O(1)",
        aggregate("timeInterval, intervalDuration(10.0), creationPeriod(1.0), partitioned"),
        timed(1000, step), filling=200_000, step=step, schema=TIMED, event_time={"attribute": "t", "lag": 1.0},
    )  # fmt: skip


CASES = [
    Case(
        "tumbling, count(100), 1,000 keys", "20 M", "O(1)",
        aggregate("tumbling, count(100), partitioned"), keyed(1000), filling=200_000,
    ),
    *(sliding(size, keys) for size in (10, 1000, 100_000) for keys in (1, 10_000)),
    corrected(0.0),
    corrected(0.1),
    Case(
        "sliding, time(10), count(1), 1,000 live tuples a key", "8 M", "O(1)",
        aggregate("sliding, time(10.0), count(1), partitioned"), keyed(100), filling=200_000, step=SECOND // 10_000,
    ),
    Case(
        "sliding, delta(v, 50), count(1), unordered, about 1,000 tuples a key", "3 M", "O(log n)",
        aggregate("sliding, delta(v, 50.0), count(1), partitioned", aggregate_incomplete_windows=True),
        keyed(100), filling=200_000, measured=200_000,
    ),
    *(panes(per_slice) for per_slice in (1, 10, 1000)),
    *(
        Case(
            f"slidingTime, {keys:,} keys, 1,000 live tuples a key, 5 % out of order", "3 M", "O(log n)",
            aggregate("slidingTime, timeDifference(10.0), grace(5.0)"),
            timed(keys, SECOND // 100 // keys, 0.05), filling=1500 * keys, step=SECOND // 100 // keys, schema=TIMED,
            event_time={"attribute": "t"}, measured=2_000_000,
        )
        for keys in (10, 1000)
    ),
    Case(
        "join, time(10) on both sides, 10 matches a tuple, 10,000 keys", "1 M, 10 M out", "O(matches)",
        {
            "join": {"left": "in", "right": "other"},
            "window_left": "sliding, time(10.0)", "window_right": "sliding, time(10.0)",
            "equality_left": ["k"], "equality_right": ["k"],
            "output": {"out": {"k": "left.k", "v": "left.v", "w": "right.v"}},
        },
        keyed(10_000), filling=300_000, step=SECOND // 20_000, streams=("in", "other"), measured=1_000_000,
    ),
    *(
        Case(
            f"join, {window}, {matches}, 10,000 keys, 5 % out of order", "1 M", "O(log n + matches)",
            {
                "join": {"left": "in", "right": "other"}, "window": window,
                "equality_left": ["k"], "equality_right": ["k"],
                "output": {"out": {"k": "left.k", "v": "left.v", "w": "right.v"}},
            },
            timed(10_000, SECOND // 20_000, 0.05), filling=300_000, step=SECOND // 20_000, streams=("in", "other"),
            schema=TIMED, event_time={"attribute": "t", "lag": 5.0}, measured=1_000_000,
        )
        for window, matches in (
            ("interval, before(10.0), after(10.0)", "10 matches a tuple"), ("asOf", "one match a left tuple"),
        )
    ),
]  # fmt: skip


@dataclass(slots=True)
class Rate:
    """Over a second, tuples that come in and go out; `kernels`: those that would come in if all else took no time."""

    tuples: float
    outputs: float
    kernels: float


def rate(case: Case, size: int, measured: int) -> Rate:
    graph = case.graph()
    state = graph.initial()
    for inputs in case.batches(0, case.filling, 100_000):
        feed(graph, state, inputs)
    spent, made = 0.0, 0
    with watched_kernels() as kernels:
        # What comes in is made ahead, and not all.
        for start in range(case.filling, case.filling + measured, 1_000_000):
            batches = case.batches(start, min(1_000_000, case.filling + measured - start), size)
            begin = time.perf_counter()
            made += sum(feed(graph, state, inputs) for inputs in batches)
            spent += time.perf_counter() - begin
    return Rate(measured / spent, made / spent, measured / sum(kernels))


@contextmanager
def watched_kernels() -> Iterator[list[float]]:
    """The seconds of each call of a compiled function from Python."""
    seconds: list[float] = []

    def timed(kernel: Dispatcher) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401
            begin = time.perf_counter()
            result = kernel(*arguments)
            seconds.append(time.perf_counter() - begin)
            return result

        return call

    with ExitStack() as stack:
        for module in [module for name, module in sys.modules.items() if name.startswith("sluice.engine")]:
            kernels = {name: timed(found) for name, found in vars(module).items() if _is_kernel(found)}
            if kernels:
                stack.enter_context(patch.multiple(module, **kernels))
        yield seconds


def _is_kernel(found: object) -> bool:
    """Python calls it; those that only kernels call are left as they are, for one may yet be compiled."""
    return isinstance(found, Dispatcher) and not found.targetoptions.get("forceinline")


def feed(graph: Graph, state: GraphState, inputs: Inputs) -> int:
    """Tuples that came out."""
    start = min(int(items.at[0]) for items in inputs.values())
    end = max(int(items.at[-1]) for items in inputs.values())
    return graph.feed(state, inputs, Clock(start, end))["out"].tuples.num_rows


def memory(keys: int, size: int) -> str:
    """Bytes that a key takes beyond its tuples' two attributes, when as many have left its window as it holds."""
    case = Case(
        "", "", "", aggregate(f"sliding, count({size}), count(1), partitioned", output={"out": {
            "n": "Count()", "s": "Sum(v)", "t": "Sum(w)",
        }}),
        _with_second(keyed(keys)), 0, schema={"k": "string", "v": "float64", "w": "float64"},
    )  # fmt: skip
    graph = case.graph()
    state = graph.initial()
    for inputs in case.batches(0, 2 * keys * size, 100_000):
        feed(graph, state, inputs)
    held = graph.size(state)
    own = 16 * size
    more = f"{held / keys - own:,.0f} bytes a key above the tuples' own {own:,} ({held / 1e6:,.0f} MB)"
    return f"{keys:,} keys, sliding, count({size:,}), two float64 attributes: {more}."


def _with_second(columns: Callable[[int, int], Columns]) -> Callable[[int, int], Columns]:
    return lambda first, count: (made := columns(first, count)) | {"w": made["v"]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-engine", description=__doc__)
    parser.add_argument("--only", default="", help="run the cases whose title has this")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    here = machine()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    said = [f"{here}, one core used, on {datetime.now(UTC):%Y-%m-%d}.", "", HEAD]
    print("\n".join(said), flush=True)
    for line in lines(options.only):
        print(line, flush=True)
        said.append(line)
    if not options.only:
        for windows in ((1_000_000, 10), (10_000, 1_000)):
            said += ["", memory(*windows)]
            print("\n".join(said[-2:]), flush=True)
    if options.write:
        write("engine", said)


def lines(only: str) -> Iterator[str]:
    for case in CASES:
        if only in case.title:
            fast = rate(case, 100_000, case.measured)
            slow = rate(case, 1000, case.measured // 4)
            yield (
                f"| {case.title} | {fast.tuples / 1e6:.1f} M | {case.aim} | {fast.kernels / 1e6:.1f} M "
                f"| {fast.outputs / 1e6:.1f} M | {fast.tuples / slow.tuples:.1f} times the cost | {case.cost} |"
            )


if __name__ == "__main__":
    main()
