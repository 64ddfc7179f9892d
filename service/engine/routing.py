"""By what the tuples of an input stream may be spread over buckets, so that nobody can tell one bucket from many."""

from __future__ import annotations

from service.pipeline.expressions import AggregateCall, Attribute, Expression
from service.pipeline.spec import Aggregate, Map, Operator, Pipeline, Punct

Keys = tuple[Expression, ...]


def spread_by(pipeline: Pipeline) -> dict[str, Keys] | None:
    """The expressions by which each input stream's tuples are spread; None where everything must be in one bucket.

    Tuples that meet in a window partition of any operator must agree in these expressions. An aggregate's partitions
    meet nobody else, so its `partition_by` serves; behind another operator it must say the same of the input stream.
    """
    keys: dict[str, Keys] = {}
    for stream in pipeline.inputs:
        wanted = [_wanted(pipeline, operator) for operator in _readers(pipeline, stream.name)]
        needed = {key for found in wanted for key in found}
        if len(needed) > 1 or () in needed:
            return None
        keys[stream.name] = needed.pop() if needed else ()
    return keys


def _wanted(pipeline: Pipeline, operator: Operator, *, made: bool = False) -> set[Keys]:
    """What `operator` and all behind it want the tuples that it reads to be spread by.

    `made`: a windowed operator is before it. Each of its marks closes what all keys have sent, so a punct() window
    behind it must see them all.
    """
    windowed = isinstance(operator, Aggregate)
    behind = {
        _through(operator, output.stream, key)
        for output in operator.outputs
        for reader in _readers(pipeline, output.stream)
        for key in _wanted(pipeline, reader, made=made or windowed)
    }
    if not isinstance(operator, Aggregate):
        return behind
    return behind | {() if made and isinstance(operator.window.eviction, Punct) else operator.partition_by}


def _through(operator: Operator, stream: str, key: Keys) -> Keys:
    """A key over the attributes of an output, over those of the operator's input; () where that cannot be said.

    An attribute of an aggregate's output can be traced where it is a partition attribute, which all of its tuples
    share.
    """
    attributes = dict(next(output.attributes for output in operator.outputs if output.stream == stream))
    traced = tuple(_source(operator, attributes[e.name]) for e in key if isinstance(e, Attribute))
    return () if len(traced) < len(key) or None in traced else tuple(e for e in traced if e is not None)


def _source(operator: Operator, expression: Expression) -> Expression | None:
    if isinstance(operator, Map):
        return expression
    match expression:
        case AggregateCall(("First" | "Last" | "Any" | "Min" | "Max"), (argument,)) if (
            argument in operator.partition_by
        ):
            return argument
    return None


def _readers(pipeline: Pipeline, stream: str) -> list[Operator]:
    return [operator for operator in pipeline.operators if operator.input == stream]
