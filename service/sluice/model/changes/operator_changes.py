"""Compares two definitions of a pipeline: for each operator, what becomes of its state.

The comparison is a function of the two pipelines alone. `Changes` is what `sluice upgrade` shows, and what a start
decides by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluice.model.changes.operator_data import (
    EarlierNames,
    EventTimeData,
    earlier_names,
    event_time_of,
    parts_of,
    provenance_of,
)
from sluice.model.expressions import Expression
from sluice.model.spec import Aggregate, InWords, Join, KeyedMap, Operator, Order, Pipeline, Sort, Union, Window
from sluice.model.types import Type
from sluice.model.unparse import expression, seconds
from sluice.model.windows.policies.policy import Resizing

#: the settings that no change of state can follow
FIXED_SETTINGS = ("clock", "clock_origin", "merge")


class StateOutcome(StrEnum):
    """The outcome of a change for the state of an operator.

    KEPT      the operator continues with it
    NEW       the operator is new: it begins with the state that it has before its first tuple
    TRIMMED   its windows are smaller: the newest tuples stay
    FILLING   its windows are larger: all tuples stay; tuples that had left the smaller windows are missing
    REBUILT   the old state does not fit the changed operator: the state is computed from inputs that are read again
    EMPTIED   the old state does not fit the changed operator: the operator begins like a new one
    REMOVED   the operator is not in the file any more, and its state is removed
    REFUSED   the service cannot continue with the change, also with --accept
    """

    KEPT = "kept"
    NEW = "new"
    TRIMMED = "trimmed"
    FILLING = "filling"
    REBUILT = "rebuilt"
    EMPTIED = "emptied"
    REMOVED = "removed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome for the state of one operator; with REFUSED also for a setting, or for a stream."""

    name: str
    word: StateOutcome
    reason: str = ""
    #: whether a state is lost, so that results will differ from those without the change
    loses: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The outcomes for the states of a pipeline: operators in the order of the new file, then the removed ones."""

    all: tuple[Change, ...]

    @property
    def refused(self) -> bool:
        return any(change.word is StateOutcome.REFUSED for change in self.all)

    @property
    def loses(self) -> bool:
        """Whether the state of an operator is lost, or a part of it."""
        return any(change.loses for change in self.all)

    def named(self, *words: StateOutcome) -> frozenset[str]:
        """The names of the operators with one of these words."""
        return frozenset(change.name for change in self.all if change.word in words)


@dataclass(frozen=True, slots=True)
class Kept:
    """The names of what the changed pipeline keeps.

    operators  operators with their states
    resized    of these the aggregates whose tuples move to windows of another size
    progress   streams with their watermarks, by name: the earlier name
    finals     input streams whose topic partitions stay final, likewise
    buffers    input streams with the tuples that wait for an aligned mark, likewise
    aligned    input streams with the marks that wait for those of other topic partitions, likewise
    """

    operators: frozenset[str]
    resized: frozenset[str]
    progress: Mapping[str, str]
    finals: Mapping[str, str]
    buffers: Mapping[str, str]
    aligned: Mapping[str, str]


def changes_of(old: Pipeline, new: Pipeline) -> Changes:
    """The outcome for the state of each operator if the pipeline `old` continues as `new`."""
    before = {operator.name: operator for operator in old.operators}
    new_names = {operator.name for operator in new.operators}
    earlier = earlier_names(old, new)
    changes = [*_settings(old, new), *_buffers(old, new)]
    operators = [operator for operator in new.operators if not isinstance(operator, Union)]
    changed = (_changed(before.get(operator.name), old, operator, new, earlier) for operator in operators)
    changes += [_with_its_table(change, new) for change in changed]
    removed = [
        operator for operator in old.operators if operator.name not in new_names and not isinstance(operator, Union)
    ]
    changes += [_gone(operator, old, new, earlier) for operator in removed]
    return Changes(tuple(changes))


def _settings(old: Pipeline, new: Pipeline) -> Iterator[Change]:
    for name in FIXED_SETTINGS:
        before, now = (getattr(pipeline.settings, name) for pipeline in (old, new))
        if before != now:
            why = f"`{name}` was {before} and is {now}: it decides the times and the order of all tuples"
            yield Change(name, StateOutcome.REFUSED, why)


def _buffers(old: Pipeline, new: Pipeline) -> Iterator[Change]:
    """The streams whose tuples that wait for an aligned mark would be lost."""
    kept = set(_kept_buffers(old, new).values())
    for stream in old.inputs:
        if stream.marks_in == "aligned" and stream.name not in kept:
            why = "tuples that wait for a mark (marks_in: aligned) are lost"
            yield Change(stream.name, StateOutcome.EMPTIED, why, loses=True)


def kept_of(old: Pipeline, new: Pipeline) -> Kept:
    """The names of what is kept if the pipeline `old` continues as `new`."""
    changes = changes_of(old, new)
    sized = changes.named(StateOutcome.TRIMMED, StateOutcome.FILLING)
    earlier = _earlier_names(old, new)
    return Kept(
        operators=changes.named(StateOutcome.KEPT) | sized,
        resized=frozenset(
            operator.name for operator in new.operators if operator.name in sized and counts_tuples(operator)
        ),
        progress={now: was for now, was in earlier.items() if event_time_of(old, was) == event_time_of(new, now)},
        finals={stream.name: earlier[stream.name] for stream in new.inputs if stream.name in earlier},
        buffers=_kept_buffers(old, new),
        aligned=_aligned(old, new),
    )


def _kept_buffers(old: Pipeline, new: Pipeline) -> dict[str, str]:
    """The input streams, with their earlier names, whose buffered tuples can continue to wait for an aligned mark."""
    aligned = _aligned(old, new).items()
    return {now: was for now, was in aligned if old.streams[was].schema == new.streams[now].schema}


def _aligned(old: Pipeline, new: Pipeline) -> dict[str, str]:
    """The input streams whose marks are aligned in both pipelines, with their earlier names."""
    names = _earlier_names(old, new).items()
    return {now: was for now, was in names if old.streams[was].marks_in == new.streams[now].marks_in == "aligned"}


def _earlier_names(old: Pipeline, new: Pipeline) -> dict[str, str]:
    """The earlier name of each stream that both pipelines use. An input is the same stream if it has the same topic,
    another stream if the same operator writes it, perhaps under another name. A union also has the same inputs.
    """
    inputs = {stream.topic: stream.name for stream in old.inputs}
    names = {stream.name: inputs[stream.topic] for stream in new.inputs if stream.topic in inputs}
    renamed = earlier_names(old, new)
    for name in new.streams:
        earlier = renamed.streams.get(name, name)
        was, now = old.writer_of(earlier), new.writer_of(name)
        if was and now and was.name == now.name and provenance_of(old, earlier) == provenance_of(new, name, renamed):
            names[name] = earlier
    return names


def _changed(before: Operator | None, old: Pipeline, now: Operator, new: Pipeline, earlier: EarlierNames) -> Change:
    if before is None:
        return Change(now.name, StateOutcome.NEW)
    had, has = parts_of(before, old), parts_of(now, new, earlier)
    if type(before) is not type(now):
        kinds = f"it was {_kind(before)}, and is {_kind(now)}"
        return Change(now.name, StateOutcome.EMPTIED if had else StateOutcome.NEW, kinds, loses=bool(had))
    differing = [part for part in has if part not in had or had[part] != has[part]]
    differing += [part for part in had if part not in has]
    if not differing:
        return Change(now.name, StateOutcome.KEPT, "" if has else "it has no state")
    in_both = [part for part in differing if part in had and part in has]
    why = ", ".join(reason(part, had.get(part), has.get(part)) for part in in_both or differing)
    sizes = [resizing(now, part, had.get(part), has.get(part)) for part in differing]
    if Resizing.NONE in sizes:
        return Change(now.name, StateOutcome.EMPTIED, why, loses=True)
    return Change(
        now.name, StateOutcome.TRIMMED if Resizing.SMALLER in sizes else StateOutcome.FILLING, why, loses=True
    )


def _with_its_table(change: Change, new: Pipeline) -> Change:
    """The change of an operator, which is refused if its table would have no rows: these are not read again."""
    inputs = (name for operator in new.operators if operator.name == change.name for name in operator.inputs)
    tables = any(new.streams[name].table for name in inputs)
    if not tables or change.word not in (StateOutcome.NEW, StateOutcome.EMPTIED):
        return change
    why = "its table would have no rows, because the first batch of a checkpoint loads tables"
    return Change(change.name, StateOutcome.REFUSED, "; ".join(filter(None, [change.reason, why])))


def _gone(before: Operator, old: Pipeline, new: Pipeline, earlier: EarlierNames) -> Change:
    parts = parts_of(before, old)
    why = "the file has no operator of this name" + ("" if parts else "; it had no state")
    names = {operator.name for operator in old.operators}
    candidates = [
        operator.name for operator in new.operators if operator.name not in names and type(operator) is type(before)
    ]
    unchanged = (
        operator.name
        for operator in new.operators
        if operator.name in candidates and parts_of(operator, new, earlier) == parts
    )
    other = next(unchanged, None)
    if parts and other is not None:
        why += f"; {other} is the same under another name, and would keep the state under this one"
    return Change(before.name, StateOutcome.REMOVED, why, loses=bool(parts))


def kind_of(operator: Operator) -> str:
    """The key of the pipeline file that gives the operator its kind."""
    return operator.word if isinstance(operator, InWords) else type(operator).__name__.lower()


def _kind(operator: Operator) -> str:
    with_earlier = " with previous()" if isinstance(operator, KeyedMap) else ""
    word = kind_of(operator)
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}{with_earlier}"


def resizing(operator: Operator, part: str, before: object, now: object) -> Resizing:
    """How a part of an operator has changed (`operator_data.parts_of`): sliding windows that differ in nothing but the
    count or the time after which they evict.

    A Sort emits the tuples that it evicts, one with each arrival, and so does not become smaller. A window of a Join
    that evicts by count does not become smaller, because it evicts one tuple with each arrival.
    """
    named = isinstance(operator, Aggregate | Sort) and part == "window"
    of_side = isinstance(operator, Join) and part in ("window_left", "window_right")
    if not (named or of_side) or not isinstance(before, Window):
        return Resizing.NONE
    return before.resized(now, one_by_one=not isinstance(operator, Aggregate))


def counts_tuples(operator: Operator) -> bool:
    """Whether it is an Aggregate over a sliding window that evicts by count: its tables depend on the count."""
    evict = operator.window.roles.evict if isinstance(operator, Aggregate) else None
    return evict is not None and evict.tuples is not None


def reason(part: str, before: object, now: object) -> str:
    """The change of a part of an operator (`operator_data.parts_of`), in words. A missing part is None."""
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
        size, unit = value
        return f"`{'eventTime' if unit == 'event_time' else 'time'}({seconds(size)})`"
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
