"""Checks where the watermarks of windows over event time come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sluice.config.syntax.problem_report import Report
from sluice.model.spec import Join, Pipeline, Windowed


def check_watermark_sources(pipeline: Pipeline, report: Report) -> None:
    """Warns of each stream from Kafka without `lag` whose watermarks a window needs.

    Such a window fires only if the producers of the stream send watermarks, which the file does not show.
    """
    needing: dict[str, list[str]] = defaultdict(list)
    for operator in pipeline.operators:
        joins = isinstance(operator, Join) and operator.window is not None
        if joins or (isinstance(operator, Windowed) and operator.window.fires_at_watermarks):
            for stream in dict.fromkeys(source for name in operator.inputs for source in _sources(pipeline, name)):
                needing[stream].append(operator.name)
    for stream, operators in needing.items():
        windows = f"{' and '.join(operators)} {'fires' if len(operators) == 1 else 'fire'} at watermarks only"
        text = f"{windows}, and without lag these come only from the producers of {stream} (rule E3); "
        report.caution(("streams", stream, "event_time"), f"{text}with `lag: 5s` they are made from the tuples")


def _sources(pipeline: Pipeline, stream: str) -> Iterator[str]:
    """The streams from Kafka from which the watermarks of a stream come, if their producers must send them."""
    of = pipeline.streams[stream].event_time
    if of is not None and of.lag is not None:
        return
    writer = pipeline.writer_of(stream)
    if writer is None:
        if of is not None:
            yield stream
        return
    for source in writer.inputs:
        yield from _sources(pipeline, source)
