"""Compiles an Avro schema to a program for the interpreter in avro_scan.py.

There is one program for each writer's schema. It says which values of a record to read, which to skip, and into which
buffers the values go. The compiler resolves the writer's schema against the reader's, as Avro's specification says, and
both against the stream's attributes. A part that cannot be resolved becomes an instruction that rejects the records
that use it; the compilation does not fail.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, auto
from functools import partial
from typing import Any, TypeVar

import numpy as np
import orjson

from sluice.model.avro_schema import (
    Avro,
    AvroError,
    AvroForm,
    Field,
    Node,
    accepts,
    branch_of_default,
    branch_of_type,
    branch_read_by,
    branches_by_name,
    field_for,
    form_of,
    is_of_branches,
    members_of,
    named,
    steps_in,
)
from sluice.model.members import Members, PathTree
from sluice.model.types import BYTES, JSON, BytesType, ListType, MapType, Schema, StructType, Type
from sluice.time_units import nanoseconds

T = TypeVar("T")
#: an attribute or a member of a struct: its type and slot, the number of the attribute, the fields of writer and reader
Member = tuple[Type, "Slot", int, Field | None, Field | None]


class Op(IntEnum):
    """The instructions. Each has two operands, a and b, and the number of an attribute for faults, -1 for none.

    PASS_... instructions skip a value. The others from INT on append a value to a buffer.
    """

    END = 0
    FAULT = auto()  # a: the fault
    JUMP = auto()  # a: target
    CALL = auto()  # a: target
    RETURN = auto()
    BRANCH = auto()  # reads the number of a branch or symbol; a: how many there are; so many JUMPs follow
    BLOCK = auto()  # starts the next block of an array or map; a: target if there are no more blocks
    AGAIN = auto()  # ends an item; a: target if the block has more items, b: the BLOCK
    EMPTY_BLOCKS = auto()  # skips an array whose items take no bytes
    CLOSE = auto()  # ends a list; a: buffer of the list, b: buffer of its items
    CONSTANT = auto()  # appends a constant; a: buffer, b: number of the constant
    PASS_NUMBER = auto()
    PASS_INT = auto()
    PASS_BOOLEAN = auto()
    PASS_ENUM = auto()  # a: number of symbols
    PASS_FIXED = auto()  # a: number of bytes
    PASS_BYTES = auto()
    PASS_TEXT = auto()
    INT = auto()  # a: buffer
    LONG = auto()  # a: buffer
    INT_TIME = auto()  # a: buffer, b: nanoseconds of the unit
    LONG_TIME = auto()  # a: buffer, b: nanoseconds of the unit
    TEXT_TIME = auto()  # a text in ISO 8601; a: buffer
    INT_REAL = auto()  # a: buffer, b: 1 if the reader's type is float (32 bits)
    LONG_REAL = auto()  # like INT_REAL
    FLOAT = auto()  # a: buffer
    DOUBLE = auto()  # a: buffer
    BOOLEAN = auto()  # a: buffer
    TEXT = auto()  # a: buffer
    BYTES = auto()  # a: buffer, b: the most bytes
    FIXED = auto()  # a: buffer, b: number of bytes
    OPEN = auto()  # starts an array whose items are read one by one
    NEXT = auto()  # starts its next item; a: target if it has no more items
    MARK = auto()  # remembers the position
    BACK = auto()  # goes back to the position that was remembered last
    SPAN = auto()  # appends the position, where a value begins; a: buffer
    SHUT = auto()  # sets the end of the last entry to the position; a: buffer
    SEEK = auto()  # begins the search for an entry of a map
    KEY = auto()  # reads the key of an entry, and remembers the position if it is the key that is sought; a: constant
    FOUND = auto()  # goes to the value that was found, and remembers the position; a: target if none was found


class Fault(IntEnum):
    """The reasons why a record cannot be decoded; avro_read.py has their texts."""

    NONE = 0
    CUT = auto()
    BEHIND = auto()
    NUMBER = auto()
    SELECTOR = auto()
    LENGTH = auto()
    TEXT = auto()
    DEPTH = auto()
    NULL = auto()
    MISSING = auto()
    RANGE = auto()
    MISMATCH = auto()
    ABSENT = auto()
    NO_JSON = auto()
    NO_TIME = auto()


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the values of a type go.

    buffer   of a list or map the ends of its items, of an optional type 1 for a value and 0 for null, of others the
             values; a struct has none: -1
    inner    the slots of the types inside: of the parts, or of the values that are not null
    """

    buffer: int
    inner: tuple[Slot, ...] = ()

    def every(self) -> Iterator[int]:
        """The numbers of all buffers."""
        if self.buffer >= 0:
            yield self.buffer
        for slot in self.inner:
            yield from slot.every()


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program.

    code        a row for each instruction: Op, a, b, attribute
    buffers     the number of buffers
    constants   two words for each constant: its value and 0, or for a text ~start and ~end of its bytes in `texts`
    """

    code: np.ndarray
    buffers: int
    #: for each attribute its slot
    kept: tuple[Slot, ...]
    #: the buffers of the items of lists and maps, which may be any number in a record
    items: tuple[int, ...]
    #: buffer of unscaled numbers -> their scale (digits behind the point), TEXTS or VARIABLE
    scales: Mapping[int, int]
    constants: np.ndarray
    texts: bytes
    #: buffer of JSON -> the schema of the values whose places it has; no entry: they are texts
    documents: Mapping[int, Avro] = field(default_factory=dict)


#: in place of a scale: the numbers are texts, or have scales of their own
TEXTS, VARIABLE = -1, -2


@dataclass(slots=True)
class Compiler:
    """Compiles one program.

    A named type that is skipped becomes a subroutine, since a schema may contain itself.
    """

    writer: Avro
    reader: Avro | None
    schema: Schema
    #: the values for attributes that are missing or null: an int, a float, a text, or a list of these
    defaults: Mapping[str, Any]
    members: Members = field(default_factory=dict)
    kept: tuple[Slot, ...] = ()
    code: list[list[int]] = field(default_factory=list)
    constants: list[tuple[int, int]] = field(default_factory=list)
    texts: bytearray = field(default_factory=bytearray)
    calls: list[tuple[int, str]] = field(default_factory=list)
    scales: dict[int, int] = field(default_factory=dict)
    #: buffer of JSON -> the node of its values
    documents: dict[int, Node] = field(default_factory=dict)
    buffers: int = 0
    items: list[int] = field(default_factory=list)
    #: the buffers of unscaled numbers
    numbers: list[int] = field(default_factory=list)
    #: names of types whose values take no bytes; a short array may have any number of such items
    weightless: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.weightless = _weightless(self.writer.names)

    def program(self) -> Program:
        self.kept = kept = tuple(self._slot(type_, in_items=False) for _, type_ in self.schema)
        paths = [(name, member.path if (member := self.members.get(name)) else None) for name, _ in self.schema]
        tree = PathTree.of([steps_in(self.writer, name, path) for name, path in paths])
        self._read(self.writer.root, self.reader.root if self.reader else None, tree)
        self._emit(Op.END)
        self._subroutines()
        texts = dict.fromkeys(self.numbers, TEXTS)
        return Program(
            np.array(self.code, np.int64), self.buffers, kept, tuple(self.items), texts | self.scales,
            np.array(self.constants, np.int64).reshape(-1, 2), bytes(self.texts),
            {buffer: Avro(node, self.writer.names) for buffer, node in self.documents.items() if node != TEXT},
        )  # fmt: skip

    def _slot(self, type_: Type, *, in_items: bool) -> Slot:
        number = -1
        if not isinstance(type_, StructType):
            number = self.buffers
            self.buffers += 1
            self.items += [number] if in_items else []
        if type_.optional:
            return Slot(number, (self._slot(type_.present, in_items=in_items),))
        if not type_.parts and form_of(type_).texts:
            self.numbers.append(number)
        in_items = in_items or not isinstance(type_, StructType)
        return Slot(number, tuple(self._slot(part, in_items=in_items) for part in type_.parts))

    def _fields(self, fields: Sequence[Field], members: Sequence[Member], *, top: bool) -> None:
        """Emits the code of a record: of its fields, in their order, then of the members that it lacks."""
        taken = {theirs.name: (type_, slot, number, ours) for type_, slot, number, theirs, ours in members if theirs}
        for written in fields:
            if written.name in taken:
                type_, slot, number, ours = taken[written.name]
                self._take(written.node, ours.node if ours else None, type_, slot, number, top=top)
            else:
                self._pass(written.node)
        for type_, slot, number, theirs, ours in members:
            if theirs is None:
                self._absent(number, ours, type_, slot, top=top)

    def _emit(self, op: Op, a: int = 0, b: int = 0, attribute: int = -1) -> int:
        """Appends an instruction and returns its position."""
        self.code.append([op, a, b, attribute])
        return len(self.code) - 1

    def _here(self, *instructions: int) -> None:
        """Sets the target of the given instructions to the next instruction."""
        for at in instructions:
            self.code[at][1] = len(self.code)

    def _branch(self, cases: Sequence[T]) -> Iterator[T]:
        """Emits a BRANCH and yields each case in turn; the caller emits the code of the case.

        The code of each case ends with a jump behind the last case.
        """
        self._emit(Op.BRANCH, len(cases))
        jumps = [self._emit(Op.JUMP) for _ in cases]
        ends = []
        for jump, case in zip(jumps, cases, strict=True):
            self._here(jump)
            yield case
            ends.append(self._emit(Op.JUMP))
        self._here(*ends)

    def _cases(self, node: Node) -> Iterator[Node]:
        """As _branch, for the branches of a union; a node that is no union is the only case."""
        node = self.writer.meant(node)
        for branch in self._branch(node.inner) if node.type == "union" else (node,):
            yield self.writer.meant(branch)

    # ---- following paths ----

    def _read(self, node: Node, ours: Node | None, tree: PathTree) -> None:
        """Emits the code that reads a value and the attributes in it. A value of several attributes is read several
        times.
        """
        readings = [partial(self._attribute, node, ours, number) for number in tree.attributes]
        if tree.inner or not readings:
            readings.append(partial(self._enter, node, ours, tree))
        self._from_one_place(readings)

    def _from_one_place(self, readings: Sequence[Callable[[], None]]) -> None:
        """Emits the code of several readings, each of which begins at the present position."""
        for reading in readings[:-1]:
            self._emit(Op.MARK)
            reading()
            self._emit(Op.BACK)
        readings[-1]()

    def _attribute(self, node: Node, ours: Node | None, number: int) -> None:
        self._take(node, ours, self.schema[number][1], self.kept[number], number, top=True)

    def _enter(self, node: Node, ours: Node | None, tree: PathTree) -> None:
        """Emits the code that reads the attributes in a record or an array (PA5)."""
        for branch in self._cases(node):
            self._enter_value(branch, ours, tree)

    def _enter_value(self, node: Node, ours: Node | None, tree: PathTree) -> None:
        meant = branch_of_type(self.reader, ours, node.type)
        is_read = self.reader is None or meant is not None
        records = {step: inner for step, inner in tree.inner.items() if isinstance(step, str)}
        items = {step: inner for step, inner in tree.inner.items() if isinstance(step, int)}
        if node.type == "record" and is_read:
            self._enter_fields(node, meant, records)
            self._nothing(items.values())
        elif node.type == "array" and is_read and items and not self._is_weightless(node.inner[0]):
            self._enter_items(node.inner[0], meant.inner[0] if meant else None, items)
            self._nothing(records.values())
        elif node.type == "map" and is_read and records:
            self._enter_entries(node.inner[0], meant.inner[0] if meant else None, records)
            self._nothing(items.values())
        else:
            self._pass(node)
            self._nothing(tree.inner.values())

    def _enter_fields(self, record: Node, meant: Node | None, trees: Mapping[str, PathTree]) -> None:
        taken: dict[str, tuple[PathTree, Field | None]] = {}
        absent = []
        for name, tree in trees.items():
            theirs, ours = field_for(name, record.fields, meant.fields if meant else None)
            if theirs is None or theirs.name in taken:
                absent.append((tree, ours))
            else:
                taken[theirs.name] = tree, ours
        for written in record.fields:
            if written.name in taken:
                tree, ours = taken[written.name]
                self._read(written.node, ours.node if ours else None, tree)
            else:
                self._pass(written.node)
        for tree, ours in absent:
            self._lacks(tree, ours)

    def _enter_items(self, item: Node, meant: Node | None, trees: Mapping[int, PathTree]) -> None:
        """Emits the code that reads the items of an array up to the last one with attributes, and skips the others."""
        self._emit(Op.OPEN)
        ends = []
        for index in range(max(trees) + 1):
            ends.append(self._emit(Op.NEXT))
            if index in trees:
                self._read(item, meant, trees[index])
            else:
                self._pass(item)
        rest = self._emit(Op.NEXT)
        self._pass(item)
        self._emit(Op.JUMP, rest)
        behind = []
        for index, end in enumerate(ends):
            self._here(end)
            self._nothing(tree for step, tree in trees.items() if step >= index)
            behind.append(self._emit(Op.JUMP))
        self._here(rest, *behind)

    def _enter_entries(self, value: Node, meant: Node | None, trees: Mapping[str, PathTree]) -> None:
        """Emits the code that reads the values of these keys of a map."""
        self._from_one_place([partial(self._enter_entry, value, meant, key, tree) for key, tree in trees.items()])

    def _enter_entry(self, value: Node, meant: Node | None, key: str, tree: PathTree) -> None:
        self._emit(Op.SEEK)
        block = self._emit(Op.BLOCK)
        first = self._emit(Op.KEY, self._known(key))
        self._pass(value)
        self._emit(Op.AGAIN, first, block)
        self._here(block)
        absent = self._emit(Op.FOUND)
        self._read(value, meant, tree)
        self._emit(Op.BACK)
        end = self._emit(Op.JUMP)
        self._here(absent)
        self._nothing([tree])
        self._here(end)

    def _nothing(self, trees: Iterable[PathTree]) -> None:
        """Emits the attributes of these trees for a record in which something on the way is no record or array."""
        for number in (number for tree in trees for number in tree.everything()):
            self._absent(number, None, self.schema[number][1], self.kept[number], top=True, fault=Fault.ABSENT)

    def _lacks(self, tree: PathTree, ours: Field | None) -> None:
        """Emits the attributes of a field that the writer's schema lacks: the defaults in the default of the field."""
        for number in tree.attributes:
            self._absent(number, ours, self.schema[number][1], self.kept[number], top=True)
        for step, inner in tree.inner.items():
            self._lacks(inner, self._default_within(ours, step))

    def _default_within(self, ours: Field | None, step: str | int) -> Field | None:
        """The field of a record, or the entry of a map, that is the default of a field, with its value there; None if
        there is none.
        """
        if ours is None or not isinstance(ours.default, dict):
            return None
        entries = branch_of_type(self.reader, ours.node, "map")
        if entries is not None and step in ours.default:
            return Field(str(step), entries.inner[0], default=ours.default[str(step)], has_default=True)
        record = branch_of_type(self.reader, ours.node, "record")
        field = named(record.fields, [str(step)]) if record else None
        return (
            None
            if field is None
            else replace(field, default=ours.default.get(field.name, field.default), has_default=True)
        )

    # ---- reading a value ----

    def _take(self, node: Node, meant: Node | None, type_: Type, slot: Slot, attribute: int, *, top: bool) -> None:
        avro, read_node = (self.writer, node) if self.reader is None or meant is None else (self.reader, meant)
        if is_of_branches(avro, read_node, type_):
            self._branches(node, meant, type_, slot, attribute, top=top)
        elif type_.present == JSON and any(branch.type != "string" for branch in self.writer.values(node)):
            self._document(node, type_, slot, attribute, top=top)
        else:
            branches = None if avro is self.writer else avro.branches(read_node)
            for branch in self._cases(node):
                self._value(branch, branches, type_, slot, attribute, top=top)

    def _value(
        self, node: Node, branches: tuple[Node, ...] | None, type_: Type, slot: Slot, attribute: int, *, top: bool
    ) -> None:
        """Emits the code that reads a value that is no union. A fault ends the record, so no code follows it."""
        if node.type == "null":
            self._null(type_, slot, attribute, top=top)
            return
        type_, slot = self._present(type_, slot)
        meant = accepts(type_, node, branches)
        if meant is None:
            self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
        elif isinstance(type_, StructType):
            self._struct(node, None if branches is None else meant, type_, slot, attribute)
        elif type_.parts:
            self._items(node, None if branches is None else meant, type_, slot, attribute)
        else:
            self._scalar(node, meant, form_of(type_), slot.buffer, attribute)

    def _null(self, type_: Type, slot: Slot, attribute: int, *, top: bool) -> None:
        name = self.schema[attribute][0]
        if top and name in self.defaults:
            self._constant(self.defaults[name], type_, slot)
        elif type_.optional:
            self._constant(None, type_, slot)
        else:
            self._emit(Op.FAULT, Fault.NULL, 0, attribute)

    def _present(self, type_: Type, slot: Slot) -> tuple[Type, Slot]:
        """The type of a value that is there, and its slot; of an optional type emits that it is there."""
        if not type_.optional:
            return type_, slot
        self._emit(Op.CONSTANT, slot.buffer, self._known(value=True))
        return type_.present, slot.inner[0]

    def _branches(self, node: Node, meant: Node | None, type_: Type, slot: Slot, attribute: int, *, top: bool) -> None:
        """Emits the code of a union as a struct, of which the member of the value's branch is there (AV3)."""
        for branch in self._cases(node):
            if branch.type == "null":
                self._null(type_, slot, attribute, top=top)
            else:
                self._as_member(branch, self._resolved(node, meant, branch), type_, slot, attribute)

    def _resolved(self, node: Node, meant: Node | None, branch: Node) -> tuple[str, Node | None] | None:
        """The name of a branch, and its node in the reader's schema. None if the reader's schema has no such branch."""
        if self.reader is not None and meant is not None:
            return branch_read_by(self.reader, meant, branch)
        return next(
            (name, None) for name, candidate in branches_by_name(self.writer, node).items() if candidate is branch
        )

    def _as_member(
        self, branch: Node, resolved: tuple[str, Node | None] | None, type_: Type, slot: Slot, attribute: int
    ) -> None:
        if resolved is None:
            self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
            return
        name, meant = resolved
        struct, slot = self._present(type_, slot)
        for (member, inner), part in zip(members_of(struct), slot.inner, strict=True):
            if member == name:
                self._value(branch, None if meant is None else (meant,), inner, part, attribute, top=False)
            else:
                self._constant(None, inner, part)
        if name not in dict(members_of(struct)):
            self._pass(branch)

    def _document(self, node: Node, type_: Type, slot: Slot, attribute: int, *, top: bool) -> None:
        """Emits the code that keeps the place of a value, which becomes JSON (AV4)."""
        if all(branch.type != "null" for branch in self.writer.branches(node)):
            self._place(node, type_, slot, attribute)
            return
        self._emit(Op.MARK)
        for branch in self._cases(node):
            self._emit(Op.BACK)
            if branch.type == "null":
                self._pass(node)
                self._null(type_, slot, attribute, top=top)
            else:
                self._place(node, type_, slot, attribute)

    def _place(self, node: Node, type_: Type, slot: Slot, attribute: int) -> None:
        type_, slot = self._present(type_, slot)
        if self.documents.setdefault(slot.buffer, node) != node:
            self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
            return
        self._emit(Op.SPAN, slot.buffer)
        self._pass(node)
        self._emit(Op.SHUT, slot.buffer)

    def _struct(self, node: Node, meant: Node | None, type_: StructType, slot: Slot, attribute: int) -> None:
        """Emits the code of a record, whose fields are found by the names of the members (ST5)."""
        fields = None if meant is None else meant.fields
        members = [
            (inner, part, attribute, *field_for(name, node.fields, fields))
            for (name, inner), part in zip(type_.members, slot.inner, strict=True)
        ]
        self._fields(node.fields, members, top=False)

    def _items(self, node: Node, meant: Node | None, type_: Type, slot: Slot, attribute: int) -> None:
        block = self._emit(Op.BLOCK)
        first = len(self.code)
        if node.type == "map":
            self._emit(Op.TEXT, slot.inner[0].buffer, 0, attribute)
        inner = None if meant is None else meant.inner[0]
        self._take(node.inner[0], inner, type_.parts[-1], slot.inner[-1], attribute, top=False)
        self._emit(Op.AGAIN, first, block)
        self._here(block)
        self._close(slot)

    def _close(self, slot: Slot) -> None:
        """Emits the end of a list or map: the number of items is that of the first buffer that has one entry of each.

        The items of a list of structs have no buffer of their own, so the buffers of their members count.
        """
        self._emit(Op.CLOSE, slot.buffer, next(slot.inner[0].every()))

    def _scalar(self, node: Node, meant: Node, form: AvroForm, buffer: int, attribute: int) -> None:
        if node.variable:
            self._variable(node, buffer, attribute)
        elif node.scaled:
            self._scaled(node, buffer, attribute)
        elif not self._agrees(form, buffer):
            self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
        elif node.type == "enum":
            self._enum(node, meant, buffer, attribute)
        elif form.logical and node.type == "string":
            self._emit(Op.TEXT_TIME, buffer, 0, attribute)
        elif form.logical:
            unit = node.unit or meant.unit
            assert unit is not None  # noqa: S101 - `accepts` refuses types without a unit
            self._emit(Op.INT_TIME if node.type == "int" else Op.LONG_TIME, buffer, unit, attribute)
        elif form.real and node.type in ("int", "long"):
            op = Op.INT_REAL if node.type == "int" else Op.LONG_REAL
            self._emit(op, buffer, int(meant.type == "float"), attribute)
        elif node.type == "fixed":
            self._emit(Op.FIXED, buffer, node.size, attribute)
        elif node.type == "bytes" and "string" not in form.readable:
            self._emit(Op.BYTES, buffer, MOST_BYTES, attribute)
        else:
            self._emit(PLAIN[node.type], buffer, 0, attribute)

    def _agrees(self, form: AvroForm, buffer: int) -> bool:
        """Whether all values of a buffer of numbers or JSON are texts: a buffer has values of one kind."""
        if form.texts:
            return self.scales.setdefault(buffer, TEXTS) == TEXTS
        return form is not JSON_FORM or self.documents.setdefault(buffer, TEXT) == TEXT

    def _scaled(self, node: Node, buffer: int, attribute: int) -> None:
        if self.scales.setdefault(buffer, node.scale) != node.scale:
            self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
        elif node.type == "fixed":
            self._emit(Op.FIXED, buffer, node.size, attribute)
        else:
            bits = (10**node.precision).bit_length() + 1
            self._emit(Op.BYTES, buffer, (bits + 7) // 8, attribute)

    def _variable(self, node: Node, buffer: int, attribute: int) -> None:
        """Emits the code that keeps the place of a number with a scale of its own."""
        if self.scales.setdefault(buffer, VARIABLE) != VARIABLE:
            self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
            return
        self._emit(Op.SPAN, buffer)
        self._pass(node)
        self._emit(Op.SHUT, buffer)

    def _enum(self, node: Node, meant: Node, buffer: int, attribute: int) -> None:
        for symbol in self._branch(node.symbols):
            symbol_read = symbol if meant.type != "enum" or symbol in meant.symbols else meant.fallback
            if symbol_read is None:
                self._emit(Op.FAULT, Fault.MISMATCH, 0, attribute)
            else:
                self._emit(Op.CONSTANT, buffer, self._known(symbol_read))

    # ---- values that are not in the record ----

    def _absent(
        self, attribute: int, ours: Field | None, type_: Type, slot: Slot, *, top: bool, fault: Fault = Fault.MISSING
    ) -> None:
        """Emits what the writer's schema lacks: the default of the pipeline file, else of the reader, else null."""
        name = self.schema[attribute][0]
        if top and name in self.defaults:
            self._constant(self.defaults[name], type_, slot)
        elif ours is not None and ours.has_default:
            self._default(ours, type_, slot, attribute)
        elif type_.optional:
            self._constant(None, type_, slot)
        else:
            self._emit(Op.FAULT, fault, 0, attribute)

    def _default(self, ours: Field, type_: Type, slot: Slot, attribute: int) -> None:
        assert self.reader is not None  # noqa: S101 - the default is the reader's
        try:
            value = default_of(self.reader, ours.node, ours.default, type_)
        except AvroError:
            self._emit(Op.FAULT, Fault.NULL if ours.default is None else Fault.MISMATCH, 0, attribute)
        else:
            self._constant(value, type_, slot)

    def _constant(self, value: Any, type_: Type, slot: Slot) -> None:  # noqa: ANN401
        """Emits a value of the model."""
        if type_.optional:
            self._emit(Op.CONSTANT, slot.buffer, self._known(value=value is not None))
            if value is not None:
                self._constant(value, type_.present, slot.inner[0])
        elif isinstance(type_, StructType):
            for item, part, inner in zip(value, type_.parts, slot.inner, strict=True):
                self._constant(item, part, inner)
        elif type_.parts:
            for item in value if len(type_.parts) > 1 else ((item,) for item in value):
                for part, inner, inner_value in zip(type_.parts, slot.inner, item, strict=True):
                    self._constant(inner_value, part, inner)
            self._close(slot)
        else:
            self._emit(Op.CONSTANT, slot.buffer, self._known(b64decode(value) if type_ == BYTES else value))

    def _known(self, value: Any) -> int:  # noqa: ANN401
        """Adds a constant and returns its number. A text is stored as ~start and ~end, which are negative."""
        if isinstance(value, str | bytes):
            start = len(self.texts)
            self.texts += value.encode() if isinstance(value, str) else value
            words = ~start, ~len(self.texts)
        else:
            words = (int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value)), 0
        self.constants.append(words)
        return len(self.constants) - 1

    # ---- skipping ----

    def _pass(self, node: Node) -> None:  # noqa: C901 - a case for each type
        match node.type:
            case "named" if self._is_weightless(node):
                pass
            case "named":
                self.calls.append((self._emit(Op.CALL), node.name))
            case "union":
                for branch in self._branch(node.inner):
                    self._pass(branch)
            case "array" | "map":
                self._pass_items(node)
            case "record":
                for field in node.fields:
                    self._pass(field.node)
            case "enum":
                self._emit(Op.PASS_ENUM, len(node.symbols))
            case "fixed":
                self._emit(Op.PASS_FIXED, node.size)
            case "null":
                pass
            case leaf:
                op, operand = PASSED[leaf]
                self._emit(op, operand)

    def _pass_items(self, node: Node) -> None:
        if node.type == "array" and self._is_weightless(node.inner[0]):
            self._emit(Op.EMPTY_BLOCKS)
            return
        block = self._emit(Op.BLOCK)
        items = len(self.code)
        if node.type == "map":
            self._emit(Op.PASS_TEXT)
        self._pass(node.inner[0])
        self._emit(Op.AGAIN, items, block)
        self._here(block)

    def _is_weightless(self, node: Node) -> bool:
        return node.name in self.weightless or _takes_nothing(node)

    def _subroutines(self) -> None:
        starts: dict[str, int] = {}
        while self.calls:
            at, name = self.calls.pop()
            if name not in starts:
                starts[name] = len(self.code)
                self._pass(self.writer.names[name])
                self._emit(Op.RETURN)
            self.code[at][1] = starts[name]


def _weightless(names: Mapping[str, Node]) -> frozenset[str]:
    """The names of the types whose values take no bytes."""
    weightless = frozenset(names)
    while True:
        left = frozenset(
            name
            for name in weightless
            if _takes_nothing(names[name])
            or (
                names[name].type == "record"
                and all(_takes_nothing(f.node) or f.node.name in weightless for f in names[name].fields)
            )
        )
        if left == weightless:
            return weightless
        weightless = left


def _takes_nothing(node: Node) -> bool:
    return node.type == "null" or (node.type == "fixed" and node.size == 0)


def default_of(avro: Avro, node: Node, value: Any, type_: Type) -> Any:  # noqa: ANN401 - JSON
    """Converts the default of a field from JSON to a constant. Raises AvroError if it does not fit the type."""
    _, branch = branch_of_default(avro, node, value)
    if value is None and type_.optional:
        return None
    if is_of_branches(avro, node, type_):
        return _default_branch(avro, node, branch, value, type_)
    type_ = type_.present
    if accepts(type_, branch, None) is None or branch.scaled or (branch.variable and form_of(type_).exact):
        raise AvroError(f"a default that gives {type_}")
    if type_.parts:
        return _default_inside(avro, branch, value, type_)
    if isinstance(type_, BytesType):
        return b64encode(value.encode("latin-1")).decode()  # the specification: each character is one byte
    return orjson.dumps(value).decode() if type_ == JSON else _default_scalar(branch, value, form_of(type_))


def _default_inside(avro: Avro, branch: Node, value: Any, type_: Type) -> Any:  # noqa: ANN401 - JSON
    match type_:
        case ListType():
            return [default_of(avro, branch.inner[0], item, type_.element) for item in value]
        case MapType():
            return sorted((key, default_of(avro, branch.inner[0], item, type_.value)) for key, item in value.items())
    return [_default_member(avro, branch, value, name, inner) for name, inner in members_of(type_)]


def _default_scalar(branch: Node, value: Any, form: AvroForm) -> Any:  # noqa: ANN401 - JSON
    if form.logical:
        value = _time_of_default(value) if isinstance(value, str) else value * (branch.unit or 1)
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise AvroError("a default within 64 bits")
    return float(value) if form.real else value


def _time_of_default(text: str) -> int:
    try:
        return nanoseconds(text)
    except ValueError:
        raise AvroError("a default that is a time in ISO 8601") from None


def _default_branch(avro: Avro, node: Node, branch: Node, value: Any, type_: Type) -> list[Any]:  # noqa: ANN401 - JSON
    names = [name for name, candidate in branches_by_name(avro, node).items() if candidate is branch]
    return [default_of(avro, branch, value, inner) if name in names else None for name, inner in members_of(type_)]


def _default_member(avro: Avro, node: Node, value: Mapping[str, Any], name: str, type_: Type) -> Any:  # noqa: ANN401 - JSON
    _, field = field_for(name, (), node.fields)
    assert field is not None  # noqa: S101 - else field_of_record raised
    if name not in value and not field.has_default:
        raise AvroError(f"a default with the field {name}")
    return default_of(avro, field.node, value.get(name, field.default), type_)


#: in place of the node of a document: the JSON is a text
TEXT = Node("string")
JSON_FORM = form_of(JSON)
#: the most bytes of a value
MOST_BYTES = 2**62
PLAIN = {
    "int": Op.INT, "long": Op.LONG, "float": Op.FLOAT, "double": Op.DOUBLE, "boolean": Op.BOOLEAN,
    "string": Op.TEXT, "bytes": Op.TEXT,
}  # fmt: skip
PASSED = {
    "int": (Op.PASS_INT, 0), "long": (Op.PASS_NUMBER, 0), "float": (Op.PASS_FIXED, 4), "double": (Op.PASS_FIXED, 8),
    "boolean": (Op.PASS_BOOLEAN, 0), "string": (Op.PASS_TEXT, 0), "bytes": (Op.PASS_BYTES, 0),
}  # fmt: skip
