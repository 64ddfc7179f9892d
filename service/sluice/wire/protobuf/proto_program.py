"""Compiles a message of Protocol Buffers to a program for the interpreter in proto_scan.py.

A record is read into *slots*. A slot holds one value for each row of its *table*: table 0 has a row for each record,
and each repeated field that is read has a table of its own with a row for each item. A message within a message is no
table: its fields are slots beside those around it, so a message that occurs twice is merged, as Protocol Buffers says.

A *scope* is a message at its place. It has a *step* for each field that is read: where the value goes. Fields without
a step are skipped, whatever their value.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any, NamedTuple

import numpy as np

from sluice.model.members import NO_MEMBERS, Members, Steps, paths_of
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_fit import (
    SCALED,
    SPAN,
    TIME,
    attribute_type,
    check_field,
    entry_of,
    field_at,
    key_of,
    kind_of,
    wrapped,
)
from sluice.model.protobuf.proto_schema import Protobuf, ProtoField, ProtoMessage
from sluice.model.types import BytesType, Float64Type, MapType, Schema, StructType, Type, list_of, optional_of
from sluice.time_units import SECOND

#: the deepest nesting of messages that are read
MAX_DEPTH = 60
NO = -1
#: the second word of a time that is not from a record: a record's nanoseconds are not merged with it
NO_TIME = -2 * SECOND


class SharedFieldError(ProtobufError):
    """Another attribute reads the field in another way, for which the program has one step."""

    def __init__(self, attribute: int, field: ProtoField) -> None:
        super().__init__(f"one attribute that reads the field {field.name}")
        self.attribute = attribute


class Op(IntEnum):
    """How the value of a field is read."""

    SKIP = 0  # a member of a oneof that is not read: the others are no longer set
    MESSAGE = auto()
    GROUP = auto()
    INT64 = auto()
    INT32 = auto()
    UINT64 = auto()
    UINT32 = auto()
    SINT64 = auto()
    SINT32 = auto()
    BOOL = auto()
    ENUM = auto()
    FIXED32 = auto()
    SFIXED32 = auto()
    FLOAT = auto()
    FIXED64 = auto()
    SFIXED64 = auto()
    DOUBLE = auto()
    TEXT = auto()
    BYTES = auto()  # bytes, or a message as it is
    TIME = auto()
    SPAN = auto()


class Fault(IntEnum):
    """The reasons why a record cannot be decoded; proto_read.py has their texts."""

    NONE = 0
    CUT = auto()
    TAG = auto()
    NUMBER = auto()
    TEXT = auto()
    DEPTH = auto()
    GROUP = auto()
    WIRE = auto()
    MISSING = auto()
    RANGE = auto()


OPS = {
    "int64": Op.INT64, "int32": Op.INT32, "uint64": Op.UINT64, "uint32": Op.UINT32, "sint64": Op.SINT64,
    "sint32": Op.SINT32, "bool": Op.BOOL, "enum": Op.ENUM, "fixed32": Op.FIXED32, "sfixed32": Op.SFIXED32,
    "float": Op.FLOAT, "fixed64": Op.FIXED64, "sfixed64": Op.SFIXED64, "double": Op.DOUBLE, "string": Op.TEXT,
    "bytes": Op.TEXT, "message": Op.BYTES, SCALED: Op.BYTES, TIME: Op.TIME, SPAN: Op.SPAN,
}  # fmt: skip


#: kinds of messages that are one value
OPAQUE = frozenset({TIME, SPAN, SCALED, "message"})


class Program(NamedTuple):
    """A compiled program, as arrays for the interpreter.

    steps      a row for each step, those of a scope together, by number: number of the field, Op, slot (NO: none),
               scope of the message (of a repeated number or text: the slot of its list), table of the items (NO: not
               repeated), attribute, whether a whole number becomes a float64, first and last place in `known` of a
               closed enum (both the same: open), first and last place in `cleared`
    scopes     a row for each scope: its first step and the step behind its last one, first and last place in `implied`
    implied    the slots that have their default once the message of the scope is there
    cleared    the slots of the other members of a oneof
    known      the numbers of closed enums, ascending within each
    slots      a row for each slot: its table, its table of items (NO: no list), whether it is present in a new row, its
               two words in a new row, its two words when its message is there
    own        the slots of each table: first and last place in `listed`
    listed     slots, by table
    checks     a row for each value that must be present: its table, its slot, the slot of the struct around it (NO:
               none), attribute
    below      for each pair of tables whether the second one has items within a row of the first one
    """

    steps: np.ndarray
    scopes: np.ndarray
    implied: np.ndarray
    cleared: np.ndarray
    known: np.ndarray
    slots: np.ndarray
    own: np.ndarray
    listed: np.ndarray
    checks: np.ndarray
    below: np.ndarray


class Leaf(NamedTuple):
    """One value for each row: its slot, and the field that it is read from (of the items, if that is repeated)."""

    slot: int
    type: Type
    field: ProtoField


class Items(NamedTuple):
    """A list for each row: the slot of its end, the table of its items, what an item is, and whether it may be null."""

    slot: int
    table: int
    type: Type
    item: Shape


class Entries(NamedTuple):
    """A map for each row: the slot of its end, the table of its entries, its type, the shapes of keys and values."""

    slot: int
    table: int
    type: Type
    key: Shape
    value: Shape


class Struct(NamedTuple):
    """A struct for each row: the slot that says whether it is there, its table, and its members."""

    slot: int
    table: int
    type: Type
    members: tuple[Shape, ...]


class Picked(NamedTuple):
    """One value of the items of a list or of the entries of a map, for each row: the item at an index, or the value of
    a key.

    slot, table  those of the list or map
    type         the type of the value, which is optional
    keys         the keys of the entries; None: it is a list
    wanted       the key, as a value of its type, or the index
    item         what an item or the value of an entry is
    """

    slot: int
    table: int
    type: Type
    keys: Shape
    wanted: str | int | bool
    item: Shape


#: how the column of an attribute is made from slots. None: no record has the attribute
Shape = Leaf | Items | Entries | Struct | Picked | None


@dataclass(slots=True)
class _Step:
    field: ProtoField
    op: Op
    slot: int = NO
    scope: int = NO
    table: int = NO
    attribute: int = NO
    real: bool = False
    shape: Shape = None


@dataclass(slots=True)
class _Scope:
    message: ProtoMessage
    table: int
    #: the steps from table 0 to this scope: scope and name of the field of each
    path: tuple[tuple[int, str], ...] = ()
    steps: dict[str, _Step] = field(default_factory=dict)
    implied: list[int] = field(default_factory=list)
    #: whether its fields without presence are there in each row: it is the message of a row, or the value of a map
    is_row: bool = False
    #: the slot of the struct that it is; NO: it is none
    struct: int = NO


@dataclass(slots=True)
class _Slot:
    table: int
    path: tuple[tuple[int, str], ...]
    items: int = NO
    present: bool = False
    new: tuple[int, int] = (0, 0)
    there: tuple[int, int] = (0, 0)


class Compiler:
    """Compiles one program. `defaults` has the values for attributes that a record lacks."""

    def __init__(
        self, proto: Protobuf, message: ProtoMessage, schema: Schema, defaults: Mapping[str, Any],
        members: Members = NO_MEMBERS,
    ) -> None:  # fmt: skip
        self.proto, self.schema, self.defaults, self.paths = proto, schema, defaults, paths_of(schema, members)
        self.parents = [NO]
        self.scopes = [_Scope(message, 0, is_row=True)]
        self.slots: list[_Slot] = []
        self.checks: list[tuple[int, int, int, int]] = []
        self.texts = bytearray()

    def compile(self) -> tuple[Program, tuple[Shape, ...]]:
        """The program, and for each attribute how its column is made. Raises ProtobufError, and SharedFieldError for an
        attribute that needs a program of its own.
        """
        shapes: dict[int, Shape] = {}
        for number in sorted(range(len(self.schema)), key=self._is_picked):  # `_again` takes an optional type later
            shapes[number] = self._at(0, self.paths[number], self.schema[number][1], number)
        self._oneofs()
        return self._program(), tuple(shapes[number] for number in range(len(self.schema)))

    # ---- attributes ----

    def _is_picked(self, number: int) -> bool:
        """Whether the path leads through a list or a map, or nowhere."""
        try:
            field_at(self.proto, self.scopes[0].message, self.paths[number])
        except ProtobufError:
            return True
        return False

    def _at(self, scope: int, path: Steps, type_: Type, number: int) -> Shape:
        """Reads the field at this path (PB23). None if the message has no such field."""
        field = self.scopes[scope].message.named(path[0]) if path and isinstance(path[0], str) else None
        if field is None:
            return None
        if len(path) == 1:
            is_needed = not type_.optional or self.schema[number][0] in self.defaults
            if is_needed and self.scopes[scope].struct != NO:
                raise SharedFieldError(number, field)  # a member may be missing where the struct is
            return self._field(scope, field, type_, number)
        if field.repeated:
            return self._picked(scope, field, path[1:], optional_of(type_), number)
        return self._at(self._enter(scope, field, number), path[1:], type_, number)

    def _picked(self, scope: int, field: ProtoField, path: Steps, type_: Type, number: int) -> Shape:
        """Reads what the path finds in an item of a list or in the value of an entry of a map."""
        entry, key = entry_of(self.proto, field), key_of(self.proto, field, path[0])
        if entry is None and len(path) == 1:
            items = self._field(scope, field, list_of(type_.present), number)
            assert isinstance(items, Items)  # noqa: S101 - by its type
            return Picked(items.slot, items.table, type_, None, key, items.item)
        step, keys, inner = self._rows(scope, field, number), None, path[1:]
        if entry is not None:
            keys = self._field(step.scope, entry[0], attribute_type(self.proto, entry[0]).present, number)
            inner = (entry[1].name, *inner)
        item = self._at(step.scope, inner, type_, number)
        return None if item is None else Picked(step.slot, step.table, type_, keys, key, item)

    def _rows(self, scope: int, field: ProtoField, attribute: int) -> _Step:
        """The step of a repeated message, whose items have a scope of their own."""
        where = self.scopes[scope]
        if field.kind != "message":
            raise ProtobufError(f"a message, which the field {field.name} ({field.shown}) is not")
        if field.name not in where.steps:
            slot, table = self._list(scope, field)
            where.steps[field.name] = step = _Step(
                field, Op.GROUP if field.group else Op.MESSAGE, slot, NO, table, attribute
            )
            self._open(scope, step)
        return self._message_step(where, field, attribute)

    def _message_step(self, where: _Scope, field: ProtoField, attribute: int) -> _Step:
        """The step of a message with a scope. Raises SharedFieldError if the step reads the message as one value."""
        step = where.steps[field.name]
        if step.op not in {Op.MESSAGE, Op.GROUP}:
            raise SharedFieldError(attribute, field)
        return step

    def _field(self, scope: int, field: ProtoField, type_: Type, attribute: int) -> Shape:
        check_field(self.proto, field, type_)
        if isinstance(type_.present, StructType):
            return self._struct(scope, field, type_, attribute)
        if field.name in self.scopes[scope].steps:
            return self._again(self.scopes[scope].steps[field.name], type_, attribute)
        if field.repeated:
            return self._repeated(scope, field, type_, attribute)
        inner = wrapped(self.proto, field)
        if inner is not field:
            return self._field(self._enter(scope, field, attribute), inner, type_, attribute)
        return self._leaf(scope, field, type_, attribute)

    def _again(self, step: _Step, type_: Type, attribute: int) -> Shape:
        """The shape of a field that another attribute reads, too."""
        shape = step.shape
        if isinstance(shape, Items | Entries) and shape.type.present == type_.present:  # a list is never null
            return shape
        if isinstance(shape, Leaf) and (type_.optional or not shape.type.optional):
            names = {self.schema[number][0] for number in (step.attribute, attribute)}
            shared = self.slots[shape.slot].table != 0 or names.isdisjoint(self.defaults)
            shared &= type_.optional == shape.type.optional or not step.field.declared  # PB12: null, or the default
            if shared and self._way(step.field, type_) == (step.op, step.real):
                return Leaf(shape.slot, type_, step.field)
        raise SharedFieldError(attribute, step.field)

    def _leaf(self, scope: int, field: ProtoField, type_: Type, attribute: int) -> Leaf:
        """Implements PB11 and PB12 of the reference."""
        where, name = self.scopes[scope], self.schema[attribute][0]
        declared = self._declared(field, type_.present) if kind_of(self.proto, field) not in OPAQUE else (0, 0)
        implied = not field.presence or where.message.map_entry or (field.declared and not type_.optional)
        slot = self._slot(scope, field.name)
        entry = self.slots[slot]
        entry.new = entry.there = declared
        entry.present = implied and where.is_row
        if implied and not where.is_row:
            where.implied.append(slot)
        if not entry.present and name in self.defaults and where.struct == NO and where.table == 0:
            entry.present, entry.new = True, self._default(field, self.defaults[name], type_.present)
        elif not entry.present and not type_.optional:
            self.checks.append((where.table, slot, where.struct, attribute))
        shape = Leaf(slot, type_, field)
        self._read(scope, _Step(field, Op.SKIP, slot, NO, NO, attribute, shape=shape), type_)
        return shape

    def _repeated(self, scope: int, field: ProtoField, type_: Type, attribute: int) -> Shape:
        slot, table = self._list(scope, field)
        element = type_.present.parts[-1]
        if (
            wrapped(self.proto, field) is not field
            or isinstance(type_.present, MapType)
            or isinstance(element.present, StructType)
        ):
            step = _Step(field, Op.GROUP if field.group else Op.MESSAGE, slot, NO, table, attribute)
            return self._messages(scope, step, type_)
        item = self._slot(scope, field.name, table)
        shape = Items(slot, table, type_, Leaf(item, element, field))
        self._read(scope, _Step(field, Op.SKIP, item, slot, table, attribute, shape=shape), element)
        return shape

    def _list(self, scope: int, field: ProtoField) -> tuple[int, int]:
        """The slot of a list or map, and the new table of its items."""
        slot, table = self._slot(scope, field.name), len(self.parents)
        self.parents.append(self.scopes[scope].table)
        self.slots[slot].items, self.slots[slot].present = table, True
        return slot, table

    def _open(self, scope: int, step: _Step) -> None:
        """Gives the items of a repeated message a scope."""
        step.scope, path = len(self.scopes), (*self.scopes[scope].path, (scope, step.field.name))
        self.scopes.append(_Scope(self.proto.message_of(step.field), step.table, path, is_row=True))

    def _messages(self, scope: int, step: _Step, type_: Type) -> Shape:
        """Reads a repeated message: each is an entry of a map, a struct, or the value of its only field (PB6)."""
        field, attribute = step.field, step.attribute
        self._open(scope, step)
        present, element = type_.present, type_.present.parts[-1]
        match present:
            case MapType(key, value):
                fields = self.proto.message_of(field).fields
                parts = [self._field(step.scope, *part, attribute) for part in zip(fields, (key, value), strict=True)]
                step.shape = Entries(step.slot, step.table, type_, *parts)
            case _ if isinstance(element.present, StructType):
                members = self._members(step.scope, element.present, attribute)
                step.shape = Items(step.slot, step.table, type_, Struct(NO, step.table, element, members))
            case _:
                item = self._field(step.scope, wrapped(self.proto, field), element, attribute)
                step.shape = Items(step.slot, step.table, type_, item)
        self.scopes[scope].steps[field.name] = step
        return step.shape

    def _struct(self, scope: int, field: ProtoField, type_: Type, attribute: int) -> Struct:
        """Reads a message as a struct."""
        where = self.scopes[scope]
        inner = self._enter(scope, field, attribute)
        slot = where.steps[field.name].slot
        self.scopes[inner].struct = slot
        if not (type_.optional or where.message.map_entry):
            self.checks.append((where.table, slot, where.struct, attribute))
        assert isinstance(type_.present, StructType)  # noqa: S101 - by the caller
        return Struct(slot, where.table, type_, self._members(inner, type_.present, attribute))

    def _members(self, scope: int, type_: StructType, attribute: int) -> tuple[Shape, ...]:
        fields = [(self.scopes[scope].message.named(name), member) for name, member in type_.members]
        return tuple(
            None if field is None else self._field(scope, field, member, attribute) for field, member in fields
        )

    def _enter(self, scope: int, field: ProtoField, attribute: int) -> int:
        """The scope of the message in this field, which is not repeated. Raises ProtobufError."""
        where = self.scopes[scope]
        if field.name in where.steps:
            return self._message_step(where, field, attribute).scope
        if field.kind != "message" or field.repeated:
            raise ProtobufError(f"a message, which the field {field.name} ({field.shown}) is not")
        path = (*where.path, (scope, field.name))
        if len(path) >= MAX_DEPTH:
            raise ProtobufError(f"a path of less than {MAX_DEPTH} names")
        self.scopes.append(_Scope(self.proto.message_of(field), where.table, path))
        op = Op.GROUP if field.group else Op.MESSAGE
        step = _Step(field, op, self._slot(scope, field.name), len(self.scopes) - 1, NO, attribute)
        where.steps[field.name] = step
        if (
            where.message.map_entry and wrapped(self.proto, field) is field
        ):  # a value that is not there is an empty message
            self.slots[step.slot].present = self.scopes[step.scope].is_row = True
        return step.scope

    # ---- slots and steps ----

    def _slot(self, scope: int, name: str, table: int = NO) -> int:
        where = self.scopes[scope]
        self.slots.append(_Slot(where.table if table == NO else table, (*where.path, (scope, name))))
        return len(self.slots) - 1

    def _read(self, scope: int, step: _Step, type_: Type) -> None:
        """Adds a step that reads a value of this type."""
        step.op, step.real = self._way(step.field, type_)
        self.scopes[scope].steps[step.field.name] = step

    def _way(self, field: ProtoField, type_: Type) -> tuple[Op, bool]:
        """How a value of this type is read, and whether a whole number becomes a float64."""
        kind = kind_of(self.proto, field)
        real = isinstance(type_.present, Float64Type) and kind not in ("float", "double", SPAN)
        return Op.BYTES if isinstance(type_.present, BytesType) else OPS[kind], real

    def _words(self, value: Any, type_: Type) -> tuple[int, int]:  # noqa: ANN401
        """The words of a constant. A text is stored as ~start and ~end of its bytes, which are negative."""
        if isinstance(value, str) and isinstance(type_, BytesType):
            value = b64decode(value)
        if isinstance(value, str | bytes):
            start = len(self.texts)
            self.texts += value.encode() if isinstance(value, str) else value
            return ~start, ~len(self.texts)
        if isinstance(type_, Float64Type):
            return int(np.float64(value).view(np.int64)), 0
        return int(value), 0

    def _declared(self, field: ProtoField, type_: Type) -> tuple[int, int]:
        """The words of the default of the schema, whose bytes are the characters of a text."""
        value = field.default
        if isinstance(value, str) and isinstance(type_, BytesType):
            value = b64encode(value.encode("latin-1", "replace")).decode()
        return self._words(value, type_)

    def _default(self, field: ProtoField, value: Any, type_: Type) -> tuple[int, int]:  # noqa: ANN401
        """The words of a value of the pipeline file. The text of an enum need not be one of its names."""
        if kind_of(self.proto, field) in (TIME, SPAN):
            return round(value * SECOND) if isinstance(value, float) else value, NO_TIME
        return self._words(value, type_)

    def _oneofs(self) -> None:
        """Adds steps for the members of a oneof that are not read, if another member is."""
        for scope in self.scopes:
            read = {step.field.oneof for step in scope.steps.values()} - {""}
            for member in scope.message.fields:
                if member.oneof in read and member.name not in scope.steps:
                    scope.steps[member.name] = _Step(member, Op.SKIP)

    def _others(self, number: int, step: _Step) -> list[int]:
        """The slots below the other members of the oneof of this step."""
        if not step.field.oneof:
            return []
        members = self.scopes[number].message.fields
        others = {
            (number, field.name)
            for field in members
            if field.oneof == step.field.oneof and field.name != step.field.name
        }
        table = self.scopes[number].table
        return [at for at, slot in enumerate(self.slots) if slot.table == table and others.intersection(slot.path)]

    # ---- arrays ----

    def _program(self) -> Program:
        steps: list[tuple[int, ...]] = []
        scopes: list[tuple[int, ...]] = []
        implied: list[int] = []
        cleared: list[int] = []
        closed: list[int] = []
        for number, scope in enumerate(self.scopes):
            scopes.append((len(steps), len(steps) + len(scope.steps), len(implied), len(implied) + len(scope.implied)))
            implied += scope.implied
            for step in sorted(scope.steps.values(), key=lambda step: step.field.number):
                numbers, others = self._closed(step), self._others(number, step)
                steps.append((
                    step.field.number, step.op, step.slot, step.scope, step.table, step.attribute, step.real,
                    len(closed), len(closed) + len(numbers), len(cleared), len(cleared) + len(others),
                ))  # fmt: skip
                closed += numbers
                cleared += others
        slots = [(slot.table, slot.items, slot.present, *slot.new, *slot.there) for slot in self.slots]
        listed = [[at for at, slot in enumerate(self.slots) if slot.table == table] for table in self._tables]
        ends = np.cumsum([0, *map(len, listed)])
        return Program(
            _table(steps, 11), _table(scopes, 4), _list(implied), _list(cleared), _list(closed), _table(slots, 7),
            np.stack([ends[:-1], ends[1:]], axis=1), _list([at for slots in listed for at in slots]),
            _table(self.checks, 4), np.array([[self._is_below(a, b) for b in self._tables] for a in self._tables]),
        )  # fmt: skip

    @property
    def _tables(self) -> range:
        return range(len(self.parents))

    def _closed(self, step: _Step) -> list[int]:
        """The numbers of a closed enum that is read, none of an open one."""
        enum = self.proto.enums.get(step.field.type_name) if step.op == Op.ENUM else None
        return sorted({number for _, number in enum.values}) if enum is not None and enum.closed else []

    def _is_below(self, above: int, below: int) -> bool:
        while below != NO and (below := self.parents[below]) != above:
            pass
        return below == above


def _table(rows: list[Any], columns: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, columns)


def _list(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)
