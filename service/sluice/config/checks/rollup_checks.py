"""Warns of results that are seldom what is meant: of an operator over panes or sessions whose results get an event time
that is wrong for the next window (E39, G6), and of a function whose int64 result lacks its fraction (A20).

Such event times are the start of a pane, which is behind the watermark when the pane fires, and the end of a pane,
which may be in the next pane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.config.syntax.problem_report import Report
from sluice.model.errors import Path
from sluice.model.expressions import AggregateCall, Attribute, Expression, walk
from sluice.model.functions import AGGREGATES
from sluice.model.spec import Aggregate, EventTime, Operator, Stream, TimeInterval, Union, Windowed
from sluice.model.types import FLOAT64, INT64, Type, list_of
from sluice.model.unparse import expression, number
from sluice.model.windows.session_window import Session

#: what is wrong with the event time of a result, by the function that gives it
WRONG = {
    "intervalStart": "is behind the watermark when the pane fires, so the result is late",
    "intervalEnd": "may be in the next pane",
    "Last": "is behind the watermark if the last tuple did not come in order, so the result is late",
}
#: what is wrong with any of these times of a session
LATE = "is behind the watermark when the session is over, so the result is late"
#: the functions whose int64 results lack their fractions
CUTTING = {function.name for function in AGGREGATES.values() if function.cuts}


def check_rollups(
    operators: tuple[Operator, ...], streams: Mapping[str, Stream], paths: Sequence[Path], report: Report
) -> None:
    """`paths` has the path of each operator in the file, which has no unions."""
    for path, operator in zip(paths, (one for one in operators if not isinstance(one, Union)), strict=True):
        if not isinstance(operator, Aggregate) or not isinstance(operator.window, TimeInterval | Session):
            continue
        for output in operator.outputs:
            event_time = streams[output.stream].event_time
            if event_time is None or not _over_event_time(operators, output.stream):
                continue
            function = _function(dict(output.attributes).get(event_time.attribute), streams[operator.input].event_time)
            if function is not None:
                wrong, right = _advice(operator.window, function, streams[output.stream], event_time.attribute)
                text = f"{function} {wrong}, where a window reads {output.stream}; {right}"
                report.caution((*path, "output", output.stream, event_time.attribute), text)


def check_cut_results(operators: tuple[Operator, ...], paths: Sequence[Path], report: Report) -> None:
    """`paths` as in `check_rollups`. `int64(Average(float64(x)))` is the same result on purpose."""
    for path, operator in zip(paths, (one for one in operators if not isinstance(one, Union)), strict=True):
        for output in operator.outputs if isinstance(operator, Aggregate) else ():
            for name, given in output.attributes:
                for call in walk(given):
                    if isinstance(call, AggregateCall) and call.function in CUTTING and _is_whole(call.type):
                        report.caution((*path, "output", output.stream, name), _about_cut(call))


def _is_whole(type_: Type) -> bool:
    return INT64 in (type_, type_.element)


def _about_cut(call: AggregateCall) -> str:
    argument = expression(call.arguments[0])
    whole = f"{call.function}({argument}) of {call.arguments[0].type} is cut to whole numbers, as in SPL (rule A20)"
    if call.type == INT64:
        return f"{whole}; {call.function}(float64({argument})) has the fraction"
    return f"{whole}; of {list_of(FLOAT64)} it has the fraction"


def _advice(window: TimeInterval | Session, function: str, stream: Stream, attribute: str) -> tuple[str, str]:
    """What is wrong with the event time, and what is right."""
    if isinstance(window, TimeInterval):
        return WRONG[function], "intervalLast() is right (E39)"
    if not isinstance(window.gap, int):
        return LATE, "sessionEnd() plus the longest gap and the grace is not (G6)"
    tick = stream.event_time.tick if stream.event_time is not None else 1
    whole = dict(stream.schema)[attribute] == INT64
    longest = window.gap + window.grace
    return LATE, f"sessionEnd() + {longest // tick if whole else number(longest)} is not (G6)"


def _function(expression: Expression | None, event_time: EventTime | None) -> str | None:
    """The function that gives a wrong event time. `Last` is one only if its argument is the event time of the input."""
    match expression:
        case AggregateCall(("intervalStart" | "intervalEnd" | "sessionStart" | "sessionEnd") as function):
            return function
        case AggregateCall("Last", (Attribute(name),)) if event_time is not None and name == event_time.attribute:
            return "Last"
    return None


def _over_event_time(operators: tuple[Operator, ...], stream: str) -> bool:
    """Whether a window over event time reads the stream, by itself or among others."""
    unions = (one.name for one in operators if isinstance(one, Union) and stream in one.inputs)
    names = {stream, *unions}
    readers = (one for one in operators if isinstance(one, Windowed) and one.input in names)
    return any(reader.window.needs_event_time or not reader.window.policies for reader in readers)
