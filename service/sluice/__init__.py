"""Sluice: windows with punctuation between Kafka topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def replay(
    pipeline: Any,  # noqa: ANN401 - a Pipeline, whose import this function puts off
    events: str | Path | Iterable[Mapping[str, Any]],
    *,
    clock_origin: str | float | None = None,
    batch: int = 10_000,
    trace: bool = False,
) -> Iterator[dict[str, Any]]:
    """What comes out of a pipeline for these events, record by record, as `sluice replay` prints it.

    `pipeline` is a file or a loaded Pipeline, `events` a file of JSON lines or the events themselves. Timers count from
    `clock_origin`: a number of seconds, or "first" for the time of the first event; None: as the pipeline says, or 0.
    With `trace` the events of the windows are among the records (docs/window-events.md).

    >>> for record in replay("examples/moving_average.yaml", "examples/moving_average.jsonl"):
    ...     print(record)  # doctest: +SKIP
    {'after': 0, 'stream': 'averages', 'tuple': {'symbol': 'A', 'price': 10.0, 'trades': 1}}
    ...
    """
    if isinstance(pipeline, str | Path):
        pipeline = import_module("sluice.config.load").load(pipeline, environment=None)
    events = Path(events) if isinstance(events, str) else events
    run = import_module("sluice.replayer.player").replay
    records: Iterator[dict[str, Any]] = run(pipeline, events, clock_origin=clock_origin, batch=batch, trace=trace)
    return records


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attribute
    """`service.WindowHandler`, which is imported when it is asked for."""
    if name == "WindowHandler":
        return import_module("sluice.api.handler").WindowHandler
    raise AttributeError(name)
