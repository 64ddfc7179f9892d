"""Follows the windows of each operator through a replay: by window events or, where there are none, by snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sluice.columns.json_columns import shown_values
from sluice.columns.key_bytes import key_bytes, key_text
from sluice.engine.contents.window_inspection import InspectedWindow
from sluice.engine.graph import Graph, GraphState
from sluice.engine.stream.items import Items
from sluice.model.expressions import Attribute, Expression
from sluice.model.spec import Aggregate, Barrier, Custom, Dedup, Delay, Join, KeyedMap, Operator, Pipeline, Sort, Window
from sluice.model.types import Schema
from sluice.pictures.labels import event_time, label
from sluice.pictures.story import Change, Chip, Port, Scale, WindowId
from sluice.time_units import SECOND

Record = Mapping[str, Any]
#: the numbers of elements of the lists of a partition
Sizes = tuple[int, ...]
#: the lists of partitions in the states of operators
LISTS = ("partitions", "left_lists", "right_lists")


class Follower:
    """Follows the windows of a port, by window events (`traced`) or by the state (`inspected`). The other method of the
    two finds no changes.
    """

    #: whether `inspected` must be called after each event
    inspects = False

    def __init__(self, port: Port, labels: Labels) -> None:
        self.port, self._labels = port, labels

    def traced(self, records: Sequence[Record]) -> Iterator[Change]:
        """The changes of these window events of one moment."""
        del records
        return iter(())

    def inspected(self, snapshots: Snapshots, at: int) -> Iterator[Change]:
        """The changes since the last call, by the state itself. The operator read at most one tuple since then."""
        del snapshots, at
        return iter(())


def ports(pipeline: Pipeline) -> list[Follower]:
    """The followers of the windows of each windowed input, in the order of the operators."""
    followers: list[Follower] = []
    for spec in pipeline.operators:
        match spec:
            case Join(window=window) if window is not None:
                for side, join_side in (("left", spec.left), ("right", spec.right)):
                    port = replace(_port(pipeline, spec.name, side, join_side.stream, window), scale=None)
                    followers.append(Stored(port, _labels(pipeline, join_side.stream, join_side.equality)))
            case Join(table=True):
                port = _port(pipeline, spec.name, "right", spec.right.stream, spec.right.window)
                port = replace(port, clause=f"table {spec.right.stream}: the newest row of each key")
                followers.append(Traced(port, _labels(pipeline, spec.right.stream, ()), joins=True))
            case Join():
                sides = (("left", spec.left), ("right", spec.right))
                followers += [
                    Traced(
                        _port(pipeline, spec.name, side, join_side.stream, join_side.window),
                        _labels(pipeline, join_side.stream, join_side.partition_by),
                        joins=True,
                    )
                    for side, join_side in sides
                ]
            case Aggregate() | Sort() | Custom():
                port = _port(pipeline, spec.name, "", spec.input, spec.window)
                labels = _labels(pipeline, spec.input, spec.partition_by)
                if not spec.window.traced:
                    followers.append(_untraced(spec.window, port, labels))
                elif isinstance(spec, Sort) and spec.window.sliding:
                    followers.append(Stored(port, labels))
                else:
                    quiet = isinstance(spec, Aggregate) and not spec.aggregate_incomplete_windows
                    followers.append(Traced(port, labels, only_full=quiet and spec.window.sliding))
            case Dedup() | Barrier() | KeyedMap() | Delay():
                followers += _holding(pipeline, spec)
            case _:
                pass
    return followers


def _holding(pipeline: Pipeline, spec: Dedup | Barrier | KeyedMap | Delay) -> Iterator[Follower]:
    """The followers of the tuples that an operator without windows stores."""
    if isinstance(spec, Barrier):
        for input_port in spec.ports:
            yield Stored(
                Port(spec.name, input_port.name, f"{input_port.name} waits", None, clears=False),
                _labels(pipeline, input_port.stream, input_port.key),
            )
    elif isinstance(spec, KeyedMap | Delay):
        port = Port(spec.name, "", spec.clauses[0], None, clears=False)
        yield Stored(port, _labels(pipeline, spec.input, getattr(spec, "partition_by", ())))
    elif spec.keep == "last":
        port = Port(spec.name, "", f"keep last, {spec.clause}", None, clears=False)
        yield Stored(port, _labels(pipeline, spec.input, spec.by))


def _untraced(window: Window, port: Port, labels: Labels) -> Follower:
    """What follows a window without window events, by its snapshots."""
    if window.table_key is not None:
        return Stored(port, labels)
    return Sessions(port, labels, final=getattr(window, "emit", "final") == "final")


@dataclass(frozen=True, slots=True)
class Labels:
    """Which attributes of a stream stand for a tuple, and which is its event time."""

    attributes: tuple[str, ...]
    time: str | None
    tick: int
    schema: Schema

    def chip(self, number: int, values: Record) -> Chip:
        time = event_time(values[self.time], self.tick) if self.time is not None and self.time in values else None
        return Chip(number, label([values[name] for name in self.attributes if name in values]), values, time)


def _port(pipeline: Pipeline, operator: str, side: str, stream: str, window: Window) -> Port:
    event_time = pipeline.streams[stream].event_time
    by_clock = bool(window.policies) or event_time is None
    types = dict(pipeline.streams[stream].schema)
    scale = (
        None
        if by_clock or event_time is None
        else Scale(event_time.attribute, str(types[event_time.attribute]), event_time.tick)
    )
    if not window.traced and scale is None:
        scale = Scale("clock (s)", "float64")
    return Port(operator, side, window.clause(), scale, window.tumbling)


def _labels(pipeline: Pipeline, stream: str, partition_by: tuple[Expression, ...]) -> Labels:
    source = pipeline.streams[stream]
    keys = {expression.name for expression in partition_by if isinstance(expression, Attribute)}
    time = source.event_time.attribute if source.event_time is not None else None
    names = [name for name, _ in source.schema]
    labels = [name for name in names if name not in keys and name != time] or names
    return Labels(tuple(labels), time, source.event_time.tick if source.event_time is not None else 1, source.schema)


# ---- from window events ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Draft:
    inside: list[Chip]
    entered: list[Chip] = field(default_factory=list)
    left: list[Chip] = field(default_factory=list)
    fired: list[tuple[Chip, ...]] = field(default_factory=list)
    full: bool = False
    ended: str = ""
    late: list[Chip] = field(default_factory=list)


class Traced(Follower):
    """Follows the windows of a port by the window events that `sluice replay --trace` prints."""

    def __init__(self, port: Port, labels: Labels, *, only_full: bool = False, joins: bool = False) -> None:
        """`only_full`: a window that was never full has no firing. `joins`: triggers mean nothing, as in a join."""
        super().__init__(port, labels)
        self._only_full, self._joins = only_full, joins
        self._contents: dict[WindowId, list[Chip]] = {}
        self._full: set[WindowId] = set()
        self._chips: dict[int, Chip] = {}

    def traced(self, records: Sequence[Record]) -> Iterator[Change]:
        drafts: dict[WindowId, _Draft] = {}
        for record in records:
            if (record["operator"], record.get("side", "")) == self.port.id:
                self._happened(record, drafts)
        for window, draft in drafts.items():
            if draft.entered or draft.left or draft.fired or draft.ended or draft.late:
                yield Change(
                    window, tuple(draft.inside), tuple(draft.entered), tuple(draft.left), tuple(draft.fired),
                    draft.full, draft.ended, tuple(draft.late),
                )  # fmt: skip

    def _happened(self, record: Record, drafts: dict[WindowId, _Draft]) -> None:
        window = self._window(record)
        draft = drafts.setdefault(window, _Draft(list(self._contents.get(window, ()))))
        chips = draft.inside
        match record["window_event"]:
            case "after_insertion":
                chip = self._chip(record["tuple"])
                chips.append(chip)
                draft.entered.append(chip)
            case "after_eviction":
                chip = self._chip(record["tuple"])
                chips.remove(chip)
                draft.left.append(chip)
            case "initial_full":
                draft.full = True
                self._full.add(window)
            case "trigger":
                self._fires(window, draft, record["content"])
            case "partition_eviction":
                draft.ended, draft.left = "evicted", [*draft.left, *chips]
                self._full.discard(window)
                chips.clear()
            case "pane_close":
                draft.ended = "closed"
                chips.clear()
            case "late":
                draft.late.append(self._chip(record["tuple"]))
        self._contents[window] = list(chips)
        if not chips:
            del self._contents[window]

    def _fires(self, window: WindowId, draft: _Draft, content: Sequence[Record]) -> None:
        if self._joins or (self._only_full and window not in self._full):
            return
        draft.fired.append(tuple(self._chip(row) for row in content))
        if self.port.clears:
            draft.inside.clear()

    def _window(self, record: Record) -> WindowId:
        scale = self.port.scale
        start, end = (
            record[name] * scale.tick if scale is not None and name in record else None for name in ("start", "end")
        )
        return WindowId(self.port.operator, self.port.side, record.get("key", ""), start, end)

    def _chip(self, values: Record) -> Chip:
        """The chip of a tuple. The library of window events shows a tuple as the same object each time."""
        chip = self._chips.get(id(values))
        if chip is None or chip.values is not values:
            chip = self._chips[id(values)] = self._labels.chip(len(self._chips), values)
        return chip


# ---- from snapshots --------------------------------------------------------------------------------------------------


class Snapshots:
    """The snapshots of operators after a step. Each is made once, and only of partitions that may have changed."""

    def __init__(self, graph: Graph, state: GraphState, arrived: Mapping[str, Sequence[Items]]) -> None:
        """`arrived` has by operator the items that its ports read in this step."""
        self._operators = {
            runner.spec.name: (runner, operator_state)
            for runner, operator_state in zip(graph.operators, state.operators, strict=True)
        }
        self._arrived = arrived
        self._made: dict[tuple[str, str], list[InspectedWindow]] = {}

    def of(self, operator: str, before: Mapping[str, Sizes]) -> Iterator[tuple[str, Sizes, list[InspectedWindow]]]:
        """The key, the size and the snapshots of each partition that read a tuple or has another size than `before`, in
        the order in which the keys came. Nothing else changes what a partition holds.
        """
        runner, state = self._operators[operator]
        # every windowed state has the keys of its partitions
        keys = state.keys  # type: ignore[union-attr]
        names = [key_text(name) for name in keys.take(np.arange(keys.count)).to_pylist()] if keys.count else [""]
        read = self._read(operator)
        for name, size in zip(names, _sizes(state, len(names)), strict=True):
            if read is None or name in read or not name or before.get(name, size) != size:
                if (operator, name) not in self._made:
                    self._made[operator, name] = list(runner.inspect(state, name))
                yield name, size, self._made[operator, name]

    def _read(self, operator: str) -> set[str] | None:
        """The keys of the tuples that the operator read; None if they are not simply attributes."""
        keys: set[str] = set()
        ports = zip(_keys(self._operators[operator][0].spec), self._arrived.get(operator, ()), strict=False)
        for expressions, items in ports:
            if not all(isinstance(expression, Attribute) for expression in expressions):
                return None
            if expressions and items.tuples.num_rows:
                columns = [
                    items.tuples.column(expression.name)
                    for expression in expressions
                    if isinstance(expression, Attribute)
                ]
                keys |= {key_text(key) for key in key_bytes(columns).to_pylist()}
        return keys

    def tuple_of(self, operator: str, schema: Schema) -> Record | None:
        """The tuple that the first port of the operator read in this step."""
        items = self._arrived.get(operator, ())
        if not items or not items[0].tuples.num_rows:
            return None
        last = items[0].tuples.slice(items[0].tuples.num_rows - 1)
        return {name: shown_values(last.column(name), type_)[0] for name, type_ in schema}


def _sizes(state: Any, count: int) -> list[Sizes]:  # noqa: ANN401 - of any operator
    """The numbers of tuples, sessions or periods of the first partitions, for each of the lists of a partition."""
    lists = [getattr(state, name)["size"][:count] for name in LISTS if hasattr(state, name)]
    return [*zip(*(np.pad(sizes, (0, count - len(sizes))).tolist() for sizes in lists), strict=True)]


def _keys(spec: Operator) -> tuple[tuple[Expression, ...], ...]:
    """The expressions of the key of each port of an operator."""
    match spec:
        case Join():
            return spec.left.equality, spec.right.equality
        case Dedup():
            return (spec.by,)
        case Barrier():
            return tuple(port.key for port in spec.ports)
        case _:
            return (getattr(spec, "partition_by", ()),)


class Stored(Follower):
    """Follows the windows of an operator without window events by the tuples that its snapshots show."""

    inspects = True

    def __init__(self, port: Port, labels: Labels) -> None:
        super().__init__(port, labels)
        self._contents: dict[WindowId, list[Chip]] = {}
        self._sizes: dict[str, Sizes] = {}
        self._count = 0

    def inspected(self, snapshots: Snapshots, at: int) -> Iterator[Change]:
        del at
        port = self.port
        for key, size, windows in snapshots.of(port.operator, self._sizes):
            self._sizes[key] = size
            rows = [row for window in windows if window.side == port.side for row in window.held]
            yield from self._changed(WindowId(port.operator, port.side, key), rows)

    def _changed(self, window: WindowId, rows: Sequence[Record]) -> Iterator[Change]:
        """The change of a window to these tuples, if it is one."""
        left, content, entered = self._contents.pop(window, []), [], []
        for row in rows:
            chip = next((chip for chip in left if chip.values == row), None)
            if chip is None:
                chip = self._new(row)
                entered.append(chip)
            else:
                left.remove(chip)
            content.append(chip)
        if content:
            self._contents[window] = content
        if entered or left:
            yield Change(window, tuple(content), tuple(entered), tuple(left))

    def _new(self, row: Record) -> Chip:
        self._count += 1
        return self._labels.chip(self._count, row)


class Sessions(Follower):
    """Follows sessions by the bounds and numbers of tuples that snapshots show."""

    inspects = True

    def __init__(self, port: Port, labels: Labels, *, final: bool) -> None:
        """`final`: a session comes out when it is over, not whenever it changes."""
        super().__init__(port, labels)
        self._final = final
        self._open: dict[WindowId, list[Chip]] = {}
        self._sizes: dict[WindowId, int] = {}
        self._partitions: dict[str, Sizes] = {}
        self._count = 0

    def inspected(self, snapshots: Snapshots, at: int) -> Iterator[Change]:
        """The sessions that are new or larger, with the tuple that came, and the sessions that are over or merged."""
        sizes = self._sessions(snapshots)
        arrived = snapshots.tuple_of(self.port.operator, self._labels.schema)
        chip = self._chip(arrived, at) if arrived is not None else None
        before, self._sizes = self._sizes, sizes
        grown = {window: n for window, n in sizes.items() if before.get(window) != n}
        parts = {window: [old for old in before if old not in sizes and _within(old, window)] for window in grown}
        joined = {old for olds in parts.values() for old in olds}
        for old in [old for old in before if old not in sizes and old not in joined]:
            chips = tuple(self._open.pop(old))
            yield Change(old, (), fired=(chips,) if self._final else (), ended="closed")
        for window, number in grown.items():
            inside = [part for old in parts[window] for part in self._open.pop(old)] or self._open.pop(window, [])
            entered = [chip] if chip is not None and number > len(inside) else []
            self._open[window] = inside + entered
            fired = () if self._final else (tuple(inside + entered),)
            yield Change(window, tuple(inside + entered), tuple(entered), fired=fired, replaces=tuple(parts[window]))

    def _sessions(self, snapshots: Snapshots) -> dict[WindowId, int]:
        """The numbers of tuples of all open sessions."""
        partitions = {key: (size, windows) for key, size, windows in snapshots.of(self.port.operator, self._partitions)}
        self._partitions |= {key: size for key, (size, _) in partitions.items()}
        sizes = {window: count for window, count in self._sizes.items() if window.key not in partitions}
        for key, (_, snapshot) in partitions.items():
            for open_session in (session for inspected in snapshot for session in inspected.policy["sessions"]):
                start, end = (round(open_session[name] * SECOND) for name in ("start", "end"))
                sizes[WindowId(self.port.operator, key=key, start=start, end=end)] = open_session["tuples"]
        return sizes

    def _chip(self, arrived: Record, at: int) -> Chip:
        self._count += 1
        chip = self._labels.chip(self._count, arrived)
        return chip if chip.time is not None else Chip(chip.number, chip.label, chip.values, at)


def _within(inner: WindowId, outer: WindowId) -> bool:
    """Whether a session lies within the bounds of another one of its key."""
    if None in (inner.start, inner.end, outer.start, outer.end):
        return False
    return inner.key == outer.key and outer.start <= inner.start and inner.end <= outer.end  # type: ignore[operator]
