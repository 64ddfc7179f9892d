"""Reads a pipeline from its definition, the JSON data that `fingerprint.plain` makes of a pipeline.

A checkpoint keeps the definition of the pipeline that made it. The operators of that pipeline are needed once more when
the file has changed: to compute the state after the last batch, and to compare them with the new operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sluice.model import expressions, members, spec
from sluice.model.errors import SluiceError
from sluice.model.fingerprint import plain
from sluice.model.spec import Coding, Join, Pipeline, Settings, Side, Stream
from sluice.model.types import Schema, parse_type
from sluice.model.windows import kinds
from sluice.model.windows.join_windows import JOIN_WINDOWS
from sluice.model.windows.policies.partition_policies import PARTITION_EVICTIONS
from sluice.model.windows.policies.policy_table import POLICIES

#: name of a class -> the class, for all values that a pipeline consists of
CLASSES: Mapping[str, type] = {
    class_.__name__: class_
    for class_ in [
        *(value for module in (spec, expressions, members) for value in vars(module).values()),
        *kinds.KINDS.values(),
        *JOIN_WINDOWS.values(),
        *POLICIES.values(),
        *PARTITION_EVICTIONS.values(),
    ]
    if isinstance(class_, type) and is_dataclass(class_)
}


class DefinitionError(SluiceError):
    """A definition that this version of the service cannot read."""

    exit_code = 4


def pipeline_of(definition: Mapping[str, Any], settings: Settings) -> Pipeline:
    """The pipeline with this definition. What the definition does not contain is taken from `settings`.

    The definition has no settings on which neither state nor outputs depend. The options of formats are not read, so
    the pipeline cannot decode records. Raises DefinitionError if a later or a much earlier version wrote the
    definition.
    """
    try:
        pipeline: Pipeline = _read({**definition, "settings": _settings(definition["settings"], settings)})
        streams = {name: _with_defaults(stream) for name, stream in pipeline.streams.items()}
        operators = tuple(_with_default_tuples(operator, streams) for operator in pipeline.operators)
        pipeline = replace(pipeline, streams=streams, operators=operators)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the definition of the pipeline in the checkpoint cannot be read by this version ({error!r})"
        raise DefinitionError(message) from error
    if _without_codings(plain(pipeline)) != _without_codings(definition):
        message = "the definition of the pipeline in the checkpoint has parts that this version does not know"
        raise DefinitionError(message)
    return pipeline


def _settings(definition: Mapping[str, Any], settings: Settings) -> Settings:
    """`settings`, with the values of the definition where state or outputs depend on them."""
    base: dict[str, Any] = {field.name: field.default for field in fields(Settings) if field.name in _KEPT_SETTINGS}
    values = {name: value for name, value in definition.items() if name != "is"}
    return replace(settings, **(base | values))


#: the settings that a definition has
_KEPT_SETTINGS = ("clock", "clock_origin", "merge", "max_future", "buckets")


def _read(value: Any) -> Any:  # noqa: ANN401 - JSON, and any value of the model
    if isinstance(value, list):
        return tuple(map(_read, value))
    if not isinstance(value, Mapping):
        return value
    if "is" not in value:
        return {name: _read(inner) for name, inner in value.items()}
    class_ = CLASSES[value["is"]]
    if class_ is Coding:
        return Coding(value.get("format", Coding().format))
    values = {
        name: _READERS.get((class_.__name__, name), _read)(inner) for name, inner in value.items() if name != "is"
    }
    if class_ is expressions.Literal:
        values["value"] = values["type"].from_definition(values["value"])
    return class_(**values)


def _schema(value: list[list[str]]) -> Schema:
    return tuple((name, parse_type(kind)) for name, kind in value)


def _real(value: Any) -> Any:  # noqa: ANN401 - JSON, and any value of the model
    return float(value) if isinstance(value, str) else _read(value)


#: class and field -> how its value is read, where JSON does not show the type
_READERS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    **{(node, "type"): parse_type for node in ("Literal", "Attribute", "Call", "AggregateCall")},
    ("Stream", "schema"): _schema,
    **{(policy.__name__, name): _real for policy in POLICIES.values() for name in policy.reals},
}


def _with_defaults(stream: Stream) -> Stream:
    types = dict(stream.schema)
    defaults = tuple((name, types[name].from_definition(value)) for name, value in stream.defaults)
    return replace(stream, defaults=defaults)


def _with_default_tuples(operator: spec.Operator, streams: Mapping[str, Stream]) -> spec.Operator:
    if not isinstance(operator, Join):
        return operator

    def whole(side: Side) -> Side:
        pairs = zip(streams[side.stream].schema, side.default, strict=False)
        return replace(side, default=tuple(kind.from_definition(value) for (_, kind), value in pairs))

    return replace(operator, left=whole(operator.left), right=whole(operator.right))


def _without_codings(definition: Any) -> Any:  # noqa: ANN401 - JSON
    """The definition without the options of formats, which `pipeline_of` does not read."""
    if isinstance(definition, Mapping):
        if definition.get("is") == "Coding":
            return {name: definition[name] for name in ("is", "format") if name in definition}
        return {name: _without_codings(inner) for name, inner in definition.items()}
    return [_without_codings(item) for item in definition] if isinstance(definition, list) else definition
