"""Sluice: a service that reads Kafka topics, computes windows with punctuation over them, and writes Kafka topics.

This module has the public Python names: `replay` and `WindowHandler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def replay(
    pipeline: Any,  # noqa: ANN401 - a Pipeline, which is imported only when the function is called
    events: str | Path | Iterable[Mapping[str, Any]],
    *,
    clock_origin: str | float | None = None,
    batch: int = 10_000,
    trace: bool = False,
    at: str | None = None,
    stream: str | None = None,
    partitions: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Runs a pipeline over events, without Spark and Kafka, and yields the records that `sluice replay` prints.

    `pipeline` is the path of a pipeline file or a loaded Pipeline. `events` is the path of a file with one JSON object
    per line, or an iterable of the events themselves. `clock_origin` is the time from which timers count: seconds, an
    ISO 8601 text, or "first" for the time of the first event. None means the value in the pipeline file; if there is
    none, the first event for times that are texts, else 0. `batch` is the number of events that are handled at a time;
    it does not change the outputs. With `trace`, window events are among the records (docs/window-events.md).

    With `at` the file has plain records of the input `stream`, one JSON object per line, with their time in `at`.
    `partitions` is the number of topic partitions over which events are spread by their keys (docs/replay.md).

    >>> for record in replay("examples/moving_average.yaml", "examples/moving_average.jsonl"):
    ...     print(record)  # doctest: +SKIP
    {'after': 0, 'stream': 'averages', 'tuple': {'symbol': 'A', 'price': 10.0, 'trades': 1}}
    ...
    """
    if isinstance(pipeline, str | Path):
        pipeline = import_module("sluice.config.load").load(pipeline, environment=None)
    events = Path(events) if isinstance(events, str) else events
    run = import_module("sluice.replayer.player").replay
    records: Iterator[dict[str, Any]] = run(
        pipeline, events, clock_origin=clock_origin, batch=batch, trace=trace, at=at, stream=stream,
        partitions=partitions,
    )  # fmt: skip
    return records


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """`sluice.WindowHandler`, whose module is imported at the first access."""
    if name == "WindowHandler":
        return import_module("sluice.api.handler").WindowHandler
    raise AttributeError(name)
