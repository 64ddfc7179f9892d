"""Which attributes of type int64 are times, so that the page shows them as times."""

from __future__ import annotations

from sluice.model.expressions import AggregateCall, Attribute, Expression
from sluice.model.spec import Join, Operator, Pipeline
from sluice.model.types import INT64
from sluice.model.windows.kinds import KINDS

#: by stream: its attributes that are times -> nanoseconds of a unit
Units = dict[str, dict[str, int]]
#: aggregation functions whose result is one of the values
CHOOSING = ("First", "Last", "Any", "Min", "Max")
#: functions that give a time of the window that fires
OF_WINDOW = {
    f.signature.name for kind in KINDS.values() for f in kind.functions if f.describes in {"start", "end", "last"}
}


def time_units(pipeline: Pipeline) -> Units:
    """The event times of streams, and the attributes that operators compute from these."""
    units: Units = {
        stream.name: {stream.event_time.attribute: stream.event_time.tick}
        for stream in pipeline.streams.values()
        if stream.event_time is not None and dict(stream.schema)[stream.event_time.attribute] == INT64
    }
    for operator in pipeline.operators:
        for output in operator.outputs:
            known = {name: _unit(expression, operator, units, pipeline) for name, expression in output.attributes}
            units.setdefault(output.stream, {}).update({name: unit for name, unit in known.items() if unit})
    return units


def _unit(expression: Expression, operator: Operator, units: Units, pipeline: Pipeline) -> int | None:
    """The nanoseconds of a unit, if the expression is a time."""
    match expression:
        case Attribute(name, _, port):
            stream = getattr(operator, port).stream if port and isinstance(operator, Join) else operator.inputs[0]
            return units.get(stream, {}).get(name)
        case AggregateCall(function, (first, *_)) if function in CHOOSING:
            return _unit(first, operator, units, pipeline)
        case AggregateCall(function, _, type_) if function in OF_WINDOW and type_ == INT64:
            of = pipeline.streams[operator.inputs[0]].event_time
            return None if of is None else of.tick
    return None
