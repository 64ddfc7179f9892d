"""Checks where the watermarks of windows over event time come from, whether a window uses an event time, and whether
the tuples can be in several buckets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sluice.config.syntax.problem_report import Report
from sluice.model.spec import Custom, Join, Operator, Pipeline, Windowed
from sluice.model.spreading import layout
from sluice.model.stages import stages


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
    event_time = pipeline.streams[stream].event_time
    if event_time is not None and (event_time.lag is not None or event_time.per_key is not None):
        return
    writer = pipeline.writer_of(stream)
    if writer is None:
        if event_time is not None:
            yield stream
        return
    for source in writer.inputs:
        yield from _sources(pipeline, source)


def check_unused_event_times(pipeline: Pipeline, report: Report) -> None:
    """Warns of each input whose watermarks are made from its tuples, but used by no operator.

    Its windows then follow the operator clock or count tuples, which may not be intended.
    """
    for stream in pipeline.inputs:
        event_time = stream.event_time
        if event_time is None or event_time.lag is None or event_time.max_future is not None:
            continue
        readers = list(_downstream(pipeline, stream.name))
        if any(_uses_event_time(operator, pipeline) for operator in readers):
            continue
        by_clock = [
            operator.name
            for operator in readers
            if isinstance(operator, Windowed) and any(policy.by_clock for policy in operator.window.policies)
        ]
        verb = "follows" if len(by_clock) == 1 else "follow"
        clock = f"; time(...) of {' and '.join(by_clock)} {verb} the operator clock" if by_clock else ""
        kinds = "Windows over event time are timeInterval, slidingTime and session"
        text = f"no operator uses this event time{clock}. {kinds}"
        report.caution(("streams", stream.name, "event_time"), text)


def check_buckets(pipeline: Pipeline, report: Report) -> None:
    """Warns of each stage that needs one bucket though the file asks for several."""
    if (pipeline.settings.buckets or 1) == 1:
        return
    for stage in stages(pipeline):
        placing = layout(stage)
        if placing.keys is None:
            instead = f"; {' and '.join(placing.instead)}" if placing.instead else ""
            report.caution(("buckets",), f"{stage.name} runs in one bucket: {'; '.join(placing.why)}{instead}")


def _downstream(pipeline: Pipeline, stream: str) -> Iterator[Operator]:
    """The operators that read the stream, and those that read what these write; a cycle is walked once."""
    seen, streams = set(), [stream]
    while streams:
        name = streams.pop()
        for operator in pipeline.operators:
            if name in operator.inputs and operator.name not in seen:
                seen.add(operator.name)
                yield operator
                streams += [output.stream for output in operator.outputs]


def _uses_event_time(operator: Operator, pipeline: Pipeline) -> bool:
    """Whether the operator reads event times or watermarks, or writes watermarks to a topic. Code of a user may."""
    if any(pipeline.streams[output.stream].watermarks for output in operator.outputs):
        return True
    return isinstance(operator, Custom) or operator.accepts is not None
