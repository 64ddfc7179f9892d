"""What has changed in an operator, in words: the reasons that `sluice upgrade` prints."""

from __future__ import annotations

from typing import Any

from sluice.model.changes.operator_data import EventTimeData
from sluice.model.expressions import Expression
from sluice.model.spec import Order
from sluice.model.types import Type
from sluice.model.unparse import expression, seconds


def reason(part: str, before: object, now: object) -> str:
    """What has changed in a part of an operator (`operator_data.parts_of`). A missing part is None."""
    if isinstance(before, EventTimeData) and isinstance(now, EventTimeData):
        return f"{part}: {_of_event_time(before, now)}"
    if _are_attributes(before) and _are_attributes(now):
        return f"{part}: {_of_attributes(before, now)}"
    texts = [_shown(value, part) for value in (before, now)]
    if texts[0] == texts[1]:
        return f"{part}: {texts[0]}, of attributes with other types"
    return f"{part}: {texts[0]} became {texts[1]}"


def _shown(value: Any, part: str) -> str:  # noqa: ANN401 - any part of an operator
    """The value as the pipeline file spells it, if it has a spelling."""
    if value is None or value == ():
        return "nothing"
    if part == "within":
        size, over = value
        return f"`{'eventTime' if over == 'event_time' else 'time'}({seconds(size)})`"
    if hasattr(value, "clause"):
        return f"`{value.clause() if callable(value.clause) else value.clause}`"
    text = ", ".join(map(_text, value)) if isinstance(value, tuple) else _text(value)
    first = value[0] if isinstance(value, tuple) else value
    return f"`{text}`" if isinstance(first, Expression | Order) else text


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Order():
            nulls = " nulls first" if value.nulls_first else ""
            return f"{expression(value.key)} {'desc' if value.descending else 'asc'}{nulls}"
        case EventTimeData():
            return value.attribute
    return expression(value) if isinstance(value, Expression) else str(value)


def _of_event_time(before: EventTimeData, now: EventTimeData) -> str:
    fields = zip(EventTimeData._fields, before, now, strict=True)
    differences = {name: f"{name} was {_text(was)} and is {_text(has)}" for name, was, has in fields if was != has}
    if "sources" in differences:
        differences["sources"] = "its watermarks come from other event times"
    return ", ".join(differences.values())


def _are_attributes(value: Any) -> bool:  # noqa: ANN401 - any part of an operator
    """Whether the value is the names and the types of attributes."""
    return isinstance(value, tuple) and all(isinstance(pair, tuple) and isinstance(pair[-1], Type) for pair in value)


def _of_attributes(before: Any, now: Any) -> str:  # noqa: ANN401 - names and types
    was, has = dict(before), dict(now)
    differences = [f"`{name}` is new" for name in has if name not in was]
    differences += [f"`{name}` is gone" for name in was if name not in has]
    differences += [
        f"`{name}` was {was[name]} and is {has[name]}" for name in has if was.get(name, has[name]) != has[name]
    ]
    return ", ".join(differences) or "their order has changed"
