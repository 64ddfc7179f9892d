"""Checks the operators that read a stream whose keys have times of their own (KT1 to KT8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path
from sluice.model.spec import Aggregate, Dedup, Join, Operator, Pipeline, Union, Windowed
from sluice.model.spreading import described, sees_all


def check_key_times(pipeline: Pipeline, paths: Sequence[Path], report: Report) -> None:
    """Reports each operator that needs a watermark of the whole stream, which such a stream has not (KT6, KT7)."""
    operators = (operator for operator in pipeline.operators if not isinstance(operator, Union))
    for operator, path in zip(operators, paths, strict=True):
        keyed = [name for name in operator.inputs if _keyed(pipeline, name)]
        for why in _problems(operator) if keyed else ():
            expected = f"no stream whose keys have times of their own ({keyed[0]}): {why}"
            report.problem((*path, "join" if isinstance(operator, Join) else type(operator).__name__.lower()), expected)
    for name, stream in pipeline.streams.items():
        if stream.watermarks and not stream.exchange and _keyed(pipeline, name) and pipeline.writer_of(name):
            expected = "false, as each key has a time of its own, and the stream has no watermark (rule KT1)"
            report.problem(("streams", name, "watermarks"), expected)


def _keyed(pipeline: Pipeline, stream: str) -> bool:
    event_time = pipeline.streams[stream].event_time
    return event_time is not None and event_time.per_key is not None


def _problems(operator: Operator) -> Iterator[str]:
    """Why the operator cannot read such a stream."""
    if isinstance(operator, Join) and operator.window is not None:
        yield (
            "a join over event time waits for both of its sides, and a key with tuples on one side alone has no "
            "watermark on the other (rule KT6)"
        )
    elif isinstance(operator, Dedup) and operator.over == "event_time":
        yield "the few tuples of a key of `by` would end no period; use within: time(...) (rule KT6)"
    elif isinstance(operator, Windowed) and operator.accepts is not None:
        yield from _of_window(operator)


def _of_window(operator: Windowed) -> Iterator[str]:
    window = operator.window
    if window.timed_by_topic_partition:
        yield (
            f"{window.word} has the stream time of a topic partition (KIP T2); a timeInterval with a creationPeriod "
            "has panes of each key that overlap (rule KT6)"
        )
    if not operator.partition_by:
        yield "a key is what partition_by names, and the operator has none; without it leave out per: key (rule KT1)"
    if sees_all(operator):
        yield "CountAll() counts the tuples of all keys in a pane, which fires for each key at another time (rule KT7)"
    indexed = window.needs_one_bucket(described=described(operator), behind_window=False)
    if isinstance(operator, Aggregate) and indexed:
        yield "paneIndex() and paneTiming() count the firings of a pane over all keys (rule KT7)"
