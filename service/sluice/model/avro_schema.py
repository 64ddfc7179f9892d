"""Avro schemas: parses them, derives attributes from them, and checks whether fields fit attributes.

Schemas are interpreted as the specification of Avro 1.11 defines them, with one exception: the names of records are not
compared, because the pipeline file itself says which schema belongs to a topic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from sluice.model.errors import did_you_mean
from sluice.model.members import CONNECT_TIMES, NO_MEMBERS, Members, PathTree, Steps, paths_of, text_of
from sluice.model.members import UNITS as NANOSECONDS
from sluice.model.types import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT64,
    JSON,
    STRING,
    TIMESTAMP,
    BooleanType,
    BytesType,
    Float64Type,
    Int64Type,
    JsonType,
    ListType,
    MapType,
    OptionalType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    Type,
    list_of,
    map_of,
    optional_of,
)
from sluice.model.types.decimal_type import MOST_DIGITS, DecimalType

DAY = NANOSECONDS["d"]
#: where Kafka Connect has the name of its logical type: beside the type, in place of a logical type of Avro (AV8)
CONNECT_NAME = "connect.name"
#: logical type of a number -> nanoseconds in one of its units
UNITS = {
    "timestamp-millis": 1_000_000, "timestamp-micros": 1000, "timestamp-nanos": 1,
    "local-timestamp-millis": 1_000_000, "local-timestamp-micros": 1000, "local-timestamp-nanos": 1, "date": DAY,
    **{name: NANOSECONDS[unit] for name, unit in CONNECT_TIMES.items()},
}  # fmt: skip
#: maximum precision (number of digits) of a decimal
MAX_PRECISION = 1000
#: the types that each logical type annotates; a logical type on another type is invalid, and is ignored
ANNOTATED = {
    **{name: {"int"} if unit == DAY else {"long"} for name, unit in UNITS.items()},
    "time-millis": {"int"}, "time-micros": {"long"},
    "decimal": {"bytes", "fixed"}, "big-decimal": {"bytes"}, "uuid": {"string", "fixed"}, "duration": {"fixed"},
}  # fmt: skip
#: logical type of a fixed -> its number of bytes
SIZES = {"uuid": 16, "duration": 12}
#: the name under which fastavro does not see a logical type: it refuses a schema with an invalid one
HIDDEN = "sluice.logicalType"

#: the name of Debezium's record for a number without a fixed scale: its scale, and the bytes of the unscaled number
VARIABLE = "io.debezium.data.VariableScaleDecimal"
#: the types that have a name
NAMED = frozenset({"record", "enum", "fixed"})
PRIMITIVES = {
    "boolean": BOOLEAN, "int": INT64, "long": INT64, "float": FLOAT64, "double": FLOAT64, "string": STRING,
    "enum": STRING, "bytes": BYTES, "fixed": BYTES,
}  # fmt: skip
#: type in the reader's schema -> types in the writer's schema that Avro promotes to it
PROMOTED = {
    "long": {"int", "long"}, "float": {"int", "long", "float"}, "double": {"int", "long", "float", "double"},
    "string": {"string", "bytes"}, "bytes": {"string", "bytes"},
}  # fmt: skip


class AvroError(ValueError):
    """A schema is wrong or does not fit. The message says what was expected."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a schema. `type` is the name of an Avro type, `union`, or `named`, a reference to the type `name`."""

    type: str
    name: str = ""
    logical: str | None = None
    #: the branches of a union, the items of an array, or the values of a map
    inner: tuple[Node, ...] = ()
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    #: the default of an enum: the symbol that a reader takes for an unknown symbol
    fallback: str | None = None
    size: int = 0
    precision: int = 0
    scale: int = 0
    #: other names of a named type
    aliases: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The name of a named type without its namespace; of others the type."""
        return _short(self.name) if self.type in NAMED else self.type

    @property
    def unit(self) -> int | None:
        """Nanoseconds in one unit if the node is a time since 1970, else None."""
        return UNITS.get(self.logical or "")

    @property
    def variable(self) -> bool:
        """Whether it is a number without a fixed scale."""
        return self.type == "record" and self.name == VARIABLE

    @property
    def digits(self) -> tuple[int, int]:
        """The digits of an unscaled number, and how many of them are behind the point."""
        return (self.precision, self.scale)

    @property
    def scaled(self) -> bool:
        """Whether it is the unscaled number of a decimal: the value times 10 ** scale."""
        return self.logical == "decimal" and self.type in ("bytes", "fixed")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    #: the default in its JSON form; `has_default` distinguishes the default null from no default
    default: Any = None
    has_default: bool = False


@dataclass(frozen=True)
class Avro:
    """A parsed schema, with the definitions of all named types that it refers to."""

    root: Node
    names: Mapping[str, Node] = field(default_factory=dict)

    def meant(self, node: Node) -> Node:
        return self.names[node.name] if node.type == "named" else node

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the record. A schema of another type has one field, whose name is empty."""
        root = self.meant(self.root)
        return root.fields if root.type == "record" else (Field("", root),)

    def branches(self, node: Node) -> tuple[Node, ...]:
        node = self.meant(node)
        return tuple(map(self.meant, node.inner)) if node.type == "union" else (node,)

    def values(self, node: Node) -> tuple[Node, ...]:
        """The branches of a node that are not null."""
        return tuple(branch for branch in self.branches(node) if branch.type != "null")


def _short(name: str) -> str:
    return name.rpartition(".")[2]


# ---- from JSON -------------------------------------------------------------------------------------------------------


def parse(text: str, references: tuple[str, ...] = ()) -> Avro:
    """The schema in a JSON text. `references` are schemas that define named types for it. Raises AvroError."""
    named: dict[str, Any] = {}
    names: dict[str, Node] = {}
    try:
        for reference in references:
            _node(parse_schema(_hidden(json.loads(reference)), named), names)
        return Avro(_node(parse_schema(_hidden(json.loads(text)), named), names), names)
    except UnknownType as error:
        raise AvroError(f"an Avro schema without the unknown type {error.name}") from None
    except RecursionError:
        raise AvroError("an Avro schema of less depth") from None
    except (SchemaParseException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise AvroError(f"an Avro schema ({error})") from None


def _node(schema: Any, names: dict[str, Node]) -> Node:  # noqa: ANN401, C901, PLR0911 - JSON, a case for each type
    """The node of a schema that fastavro has parsed: all names are full names, and each is defined once."""
    if isinstance(schema, list):
        return Node("union", inner=tuple(_node(branch, names) for branch in schema))
    if isinstance(schema, str):
        return Node(schema) if schema in LEAVES else Node("named", schema)
    match schema["type"]:
        case "record" | "error":
            fields = tuple(_field(field, names) for field in schema["fields"])
            if len({field.name for field in fields}) < len(fields):
                raise AvroError(f"fields of different names in {schema['name']}")
            names[schema["name"]] = Node("record", schema["name"], fields=fields, aliases=_aliases(schema))
            return Node("named", schema["name"])
        case "enum":
            names[schema["name"]] = Node(
                "enum", schema["name"], symbols=tuple(schema["symbols"]), fallback=schema.get("default"),
                aliases=_aliases(schema),
            )  # fmt: skip
            return Node("named", schema["name"])
        case "fixed":
            if type(schema["size"]) is not int or schema["size"] < 0:
                raise AvroError(f"a size of {schema['name']} that is a number of bytes")
            names[schema["name"]] = Node(
                "fixed", schema["name"], size=schema["size"], aliases=_aliases(schema), **_logical(schema)
            )
            return Node("named", schema["name"])
        case "array":
            return Node("array", inner=(_node(schema["items"], names),))
        case "map":
            return Node("map", inner=(_node(schema["values"], names),))
        case str(word) if word in LEAVES:
            return Node(word, **_logical(schema))
        case inner:
            return _node(inner, names)


def _field(schema: Mapping[str, Any], names: dict[str, Node]) -> Field:
    return Field(
        schema["name"], _node(schema["type"], names), _aliases(schema), schema.get("default"), "default" in schema
    )


def _aliases(schema: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(schema.get("aliases", ()))


def _hidden(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """The schema with each of its logical types under the name HIDDEN. Defaults are values, and stay as they are."""
    if isinstance(schema, list):
        return [_hidden(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {HIDDEN if name == "logicalType" else name: _hidden_in(name, value) for name, value in schema.items()}


def _hidden_in(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if name == "fields" and isinstance(value, list):
        return [_hidden_in_field(field) if isinstance(field, dict) else field for field in value]
    return _hidden(value) if name in ("type", "items", "values") else value


def _hidden_in_field(field: dict[str, Any]) -> dict[str, Any]:
    return field | {"type": _hidden(field["type"])} if "type" in field else field


def _logical(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The logical type as arguments of Node; none for an invalid or unknown one, which the specification ignores."""
    logical, size = _logical_name(schema), schema["size"] if schema["type"] == "fixed" else None
    if schema["type"] not in ANNOTATED.get(logical, ()):
        return {}
    if logical == "decimal":
        return _decimal(schema.get("precision"), schema.get("scale", 0), size)
    return {"logical": logical} if size in (None, SIZES.get(logical)) else {}


def _logical_name(schema: Mapping[str, Any]) -> str:
    """The name of the logical type; empty if there is none. Connect has its logical types in `connect.name` (AV8)."""
    logical, connect = schema.get(HIDDEN), schema.get(CONNECT_NAME)
    if HIDDEN not in schema and isinstance(connect, str) and connect in CONNECT_TIMES:
        return connect
    return logical if isinstance(logical, str) and logical not in CONNECT_TIMES else ""


def _decimal(precision: object, scale: object, size: int | None) -> dict[str, Any]:
    """As _logical, for a decimal. `size` is the number of bytes of a fixed, None for bytes."""
    if type(precision) is not int or type(scale) is not int:
        return {}
    if not 0 <= scale <= precision or not 0 < precision <= MAX_PRECISION:
        return {}
    if size is not None and (size > MAX_PRECISION or 10**precision >= 2 ** (8 * size - 1)):
        return {}
    return {"logical": "decimal", "precision": precision, "scale": scale}


LEAVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

# ---- attributes ------------------------------------------------------------------------------------------------------


def attributes_of(avro: Avro) -> Schema:
    """The attributes that the fields of a record give. Raises AvroError for a field that fits no type of attributes."""
    if avro.meant(avro.root).type != "record":
        raise AvroError("an Avro schema of a record")
    return tuple((field.name, attribute_type(avro, field.node, field.name)) for field in avro.fields)


def attribute_type(avro: Avro, node: Node, name: str, around: tuple[str, ...] = ()) -> Type:
    """The type of an attribute that the field `name` gives: optional if it may be null, a struct of its branches if it
    has several others. Raises AvroError if it fits no type of attributes.

    `around` are the names of the records in which the node stands; a record inside of itself is JSON.

    Implements AV1 of the reference.
    """
    values = avro.values(node)
    if len(values) > 1:
        members = tuple(
            (branch, optional_of(_type_of(avro, value, name, around)))
            for branch, value in branches_by_name(avro, node).items()
        )
        type_: Type = StructType(members)
    elif values:
        type_ = _type_of(avro, values[0], name, around)
    else:
        raise _no_type(name, "null")
    return optional_of(type_) if len(values) < len(avro.branches(node)) else type_


def _type_of(avro: Avro, value: Node, name: str, around: tuple[str, ...]) -> Type:
    """The type for a node that is no union."""
    if value.unit:
        return TIMESTAMP
    if value.type == "array":
        return list_of(attribute_type(avro, value.inner[0], name, around))
    if value.type == "map":
        return map_of(STRING, attribute_type(avro, value.inner[0], name, around))
    if value.type == "record":
        return _struct_of(avro, value, (*around, value.name)) if value.fields and value.name not in around else JSON
    if value.scaled and value.precision <= MOST_DIGITS:
        return DecimalType(value.precision, value.scale)
    if value.type in PRIMITIVES and not value.scaled:
        return PRIMITIVES[value.type]
    raise _no_type(name, shown(value))


def _struct_of(avro: Avro, record: Node, around: tuple[str, ...]) -> Type:
    return StructType(
        tuple((field.name, attribute_type(avro, field.node, field.name, around)) for field in record.fields)
    )


def _no_type(name: str, described: str) -> AvroError:
    why = f"the field {name} ({described}) stands for none"
    return AvroError(f"a schema that names the attributes and their types, as {why}")


def branches_by_name(avro: Avro, node: Node) -> dict[str, Node]:
    """The branches that are not null, by the names that members of a struct have for them: of a record, an enum or a
    fixed its name without the namespace, or with it if several have the same, else the name of the type.

    Implements AV2 of the reference.
    """
    branches = avro.values(node)
    names = [branch.short for branch in branches]
    whole = [re.sub(r"\W", "_", branch.name) for branch in branches]
    return {
        name if names.count(name) == 1 else full: branch
        for name, full, branch in zip(names, whole, branches, strict=True)
    }


def is_of_branches(avro: Avro, node: Node, type_: Type) -> bool:
    """Whether a value of the type is read from the branches of the node: a struct whose members are all optional, and
    of which one has the name of a branch. A record alone is read by the names of its fields if it has one of them.

    Implements AV3 of the reference.
    """
    struct = type_.present
    if not isinstance(struct, StructType) or not all(inner.optional for inner in struct.parts):
        return False
    branches, names = branches_by_name(avro, node), {name for name, _ in struct.members}
    if names.isdisjoint(branches):
        return False
    return len(branches) > 1 or names.isdisjoint(field.name for branch in branches.values() for field in branch.fields)


def branch_read_by(avro: Avro, node: Node, written: Node) -> tuple[str, Node] | None:
    """The name and the node of the branch of the reader's schema that a value of the writer's branch is resolved to.

    The names of records, enums and fixeds are compared if there are several branches of the type.
    """
    branches = branches_by_name(avro, node)
    of_type = [branch for branch in branches.values() if branch.type == written.type and written.type in NAMED]
    of_name = [branch for branch in of_type if written.short in {branch.short, *map(_short, branch.aliases)}]
    fitting = of_name or (of_type if len(of_type) == 1 else [])
    if written.type not in NAMED:
        fitting = [branch for branch in branches.values() if _promotes(written, branch)]
    return next(((name, branch) for name, branch in branches.items() if fitting and branch is fitting[0]), None)


def shown(node: Node) -> str:
    return f"{node.logical} ({node.type})" if node.logical else node.type


# ---- types of attributes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AvroForm:
    """How Avro holds the values of a type.

    readable    the Avro types from which a value can be read: Avro's promotions, and some more
    written     the Avro type that holds each value without loss, which a generated schema has
    logical     the logical type in a generated schema: the values are times, and what is read or written has a unit
    real        whether a whole number becomes a float64
    scaled      whether an unscaled number gives a value
    texts       whether a text is read as a number
    exact       whether the values are numbers of at most so many digits, which are written as unscaled numbers (DE19)
    some        the Avro type that holds some of the values: a tuple with another one cannot be written (AV6)
    """

    readable: frozenset[str]
    written: str
    logical: str = ""
    real: bool = False
    scaled: bool = False
    texts: bool = False
    exact: bool = False
    some: str = ""

    def gives(self, written: Node, meant: Node, type_: Type) -> bool:
        """Whether a value of the node `written`, read as the node `meant`, gives a value of the type (DE19)."""
        if written.scaled or meant.scaled:
            equal_decimals = written.scaled and (written.scale, written.precision) == (meant.scale, meant.precision)
            return equal_decimals and self.scaled and (not self.exact or _holds(type_.digits, written.digits))
        if self.exact and written.variable:
            return meant.variable
        if self.logical and not (written.unit or meant.unit or written.type == "string"):
            return False
        return {written.type, meant.type} <= self.readable

    def takes(self, node: Node, type_: Type) -> bool:
        """Whether the node holds each value of the type without loss."""
        if self.exact:
            return node.scaled and _holds(node.digits, type_.digits)
        fits = bool(node.unit) == bool(self.logical) or node.logical in CONNECT_TIMES
        return node.type == self.written and not node.scaled and fits

    def takes_some(self, node: Node, type_: Type) -> bool:
        """Whether the node holds some values of the type."""
        return node.type == self.some and not node.scaled

    def generated(self, type_: Type, name: str) -> Any:  # noqa: ANN401 - JSON
        """The type in a generated schema. `name` is that of a record."""
        if type_.optional:
            return [self.written, form_of(type_.present).generated(type_.present, name)]
        if isinstance(type_, StructType):
            return {"type": self.written, "name": name, "fields": fields_of(type_.members, name)}
        if type_.parts:
            inner = type_.parts[-1]
            word = "items" if self.written == "array" else "values"
            return {"type": self.written, word: form_of(inner).generated(inner, name)}
        if self.exact:
            precision, scale = type_.digits
            return {"type": self.written, "logicalType": "decimal", "precision": precision, "scale": scale}
        return {"type": self.written, "logicalType": self.logical} if self.logical else self.written


def fields_of(members: Schema, name: str) -> list[dict[str, Any]]:
    """The fields of a record of a generated schema. `name` is that of the record; a record inside has it in front."""
    types = [(member, type_, form_of(type_).generated(type_, f"{name}_{member}")) for member, type_ in members]
    return [
        {"name": member, "type": avro_type, "default": None} if type_.optional else {"name": member, "type": avro_type}
        for member, type_, avro_type in types
    ]


def _holds(digits: Sequence[int], inner: Sequence[int]) -> bool:
    """Whether numbers with so many digits, of which the second are behind the point, have all `inner` digits."""
    return inner[1] <= digits[1] and inner[0] - inner[1] <= digits[0] - digits[1]


#: Avro type -> Python types of its values in JSON
IN_JSON: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),), "boolean": (bool,), "int": (int,), "long": (int,), "float": (int, float),
    "double": (int, float), "bytes": (str,), "string": (str,), "fixed": (str,), "enum": (str,), "array": (list,),
    "map": (dict,), "record": (dict,),
}  # fmt: skip

#: the table of the types for Avro
FORMS: Mapping[type[Type], AvroForm] = {
    BooleanType: AvroForm(frozenset({"boolean"}), "boolean"),
    Int64Type: AvroForm(frozenset({"int", "long"}), "long"),
    Float64Type: AvroForm(frozenset({"int", "long", "float", "double"}), "double", real=True, scaled=True),
    StringType: AvroForm(frozenset({"string", "bytes", "enum"}), "string", scaled=True, some="enum"),
    TimestampType: AvroForm(frozenset({"int", "long", "string"}), "long", "timestamp-micros"),
    ListType: AvroForm(frozenset({"array"}), "array"),
    OptionalType: AvroForm(frozenset({"null"}), "null"),
    BytesType: AvroForm(frozenset({"bytes", "fixed"}), "bytes", some="fixed"),
    JsonType: AvroForm(frozenset(IN_JSON), "string", scaled=True),
    MapType: AvroForm(frozenset({"map"}), "map"),
    StructType: AvroForm(frozenset({"record"}), "record"),
    DecimalType: AvroForm(frozenset({"string"}), "bytes", scaled=True, texts=True, exact=True),
}


def form_of(type_: Type) -> AvroForm:
    return FORMS[type(type_)]


# ---- reading ---------------------------------------------------------------------------------------------------------


def steps_in(avro: Avro, name: str, path: Steps | None) -> Steps:
    """The path of an attribute in values of the schema, if the file gives it `path`. A schema that is no record is one
    attribute of any name.
    """
    if path is not None:
        return path
    return (name,) if avro.meant(avro.root).type == "record" else ()


def field_for(name: str, writer: Iterable[Field], reader: Iterable[Field] | None) -> tuple[Field | None, Field | None]:
    """The field `name` of a record in the writer's schema and in the reader's schema; None where there is none.

    Raises AvroError if the reader's schema lacks the field.
    """
    if reader is None:
        return named(writer, [name]), None
    theirs = named(reader, [name])
    if theirs is None:
        raise AvroError(f"a field {name}{did_you_mean(name, [field.name for field in reader])}")
    return named(writer, [theirs.name, *theirs.aliases]), theirs


def branch_of_type(avro: Avro | None, node: Node | None, word: str) -> Node | None:
    """The first branch of the node that has this Avro type; None if none has."""
    if avro is None or node is None:
        return None
    return next((branch for branch in avro.branches(node) if branch.type == word), None)


def named(fields: Iterable[Field], names: Iterable[str]) -> Field | None:
    by_name = {field.name: field for field in fields}
    return next((by_name[name] for name in names if name in by_name), None)


def accepts(type_: Type, written: Node, meant: tuple[Node, ...] | None) -> Node | None:
    """The node of the reader's schema that converts a value written by the node `written` into an attribute's type.

    Returns None if no node does. `meant` are the branches of the reader's schema; None means that the reader's schema
    is the writer's.
    """
    type_ = type_.present
    form = form_of(type_)
    if meant is None:
        return written if form.gives(written, written, type_) else None
    return next((node for node in meant if _promotes(written, node) and form.gives(written, node, type_)), None)


def _promotes(written: Node, meant: Node) -> bool:
    same = written.type == meant.type
    if same and written.type == "fixed":
        return written.size == meant.size
    return same or written.type in PROMOTED.get(meant.type, ())


def check_reading(
    writer: Avro, reader: Avro, name: str, type_: Type, *, has_default: bool, path: Steps | None = None
) -> None:
    """Raises AvroError if records of the writer's schema do not give the attribute, and no default replaces it."""
    node, meant = writer.root, reader.root
    for number, step in enumerate(steps := steps_in(writer, name, path)):
        inside = _inside(writer, node, step, steps[:number], READ)
        ours = _inside(reader, meant, step, steps[:number], (inside.type,))
        if inside.inner:
            node, meant = inside.inner[0], ours.inner[0]
            continue
        theirs, reader_field = field_for(str(step), inside.fields, ours.fields)
        assert reader_field is not None  # noqa: S101 - else field_for raised
        if theirs is None and (has_default or reader_field.has_default or type_.optional):
            return
        if theirs is None:
            raise AvroError(f"a default of the field {reader_field.name}, which the records do not have")
        node, meant = theirs.node, reader_field.node
    _check_reading(writer, node, None if reader is writer else reader, meant, type_)


#: the types into which a name leads in a schema from which records are read, and into which they are written
READ, WRITTEN = ("record", "map"), ("record",)


def _inside(avro: Avro, node: Node, step: str | int, path: Steps, named_types: Sequence[str]) -> Node:
    """The branch of the node into which a step of a path leads (PA5). Raises AvroError if there is none."""
    words = ("array",) if isinstance(step, int) else named_types
    branches = [branch_of_type(avro, node, word) for word in words]
    inside = next((branch for branch in branches if branch is not None), None)
    if inside is None:
        expected = f"{'an' if words[0] == 'array' else 'a'} {' or a '.join(words)}"
        raise AvroError(f"{expected} at {text_of(path) or 'its top'}, where {spelled(avro, node)} is")
    return inside


def _check_reading(writer: Avro, node: Node, reader: Avro | None, meant: Node, type_: Type) -> None:
    if is_of_branches(reader or writer, meant, type_):
        _check_branches(writer, node, reader, meant, type_)
        return
    branches = None if reader is None else reader.branches(meant)
    fitting = [(branch, accepted) for branch in writer.branches(node) if (accepted := accepts(type_, branch, branches))]
    if not fitting:
        raise AvroError(f"{type_}, which {spelled(writer, node)} does not give")
    check_key(type_.present)
    for branch, accepted in fitting:
        if isinstance(type_.present, StructType):
            for name, inner in type_.present.members:
                _check_member(writer, branch, reader, accepted, (name, inner))
        elif type_.parts:
            _check_reading(writer, branch.inner[0], reader, accepted.inner[0], type_.parts[-1])


def _check_branches(writer: Avro, node: Node, reader: Avro | None, meant: Node, type_: Type) -> None:
    """As _check_reading, for a struct of branches."""
    branches = branches_by_name(reader or writer, meant)
    for name, inner in members_of(type_):
        if name not in branches:
            raise AvroError(f"a branch {name}, of {', '.join(branches)}")
        if reader is None:
            _check_reading(writer, branches[name], None, branches[name], inner)
    types = dict(members_of(type_))
    for branch in writer.values(node) if reader is not None else ():
        ours = branch_read_by(reader or writer, meant, branch)
        if ours is not None and ours[0] in types:
            _check_reading(writer, branch, reader, ours[1], types[ours[0]])


def members_of(struct: Type) -> Schema:
    """The members of a struct, which may be optional."""
    assert isinstance(struct.present, StructType)  # noqa: S101 - by the caller
    return struct.present.members


def _check_member(writer: Avro, written: Node, reader: Avro | None, meant: Node, member: tuple[str, Type]) -> None:
    name, type_ = member
    theirs, ours = field_for(name, written.fields, meant.fields)
    assert ours is not None  # noqa: S101 - else field_for raised
    if theirs is not None:
        _check_reading(writer, theirs.node, reader, ours.node, type_)
    elif not ours.has_default and not type_.optional:
        raise AvroError(f"a default of the field {ours.name}, which the records do not have")


def check_key(type_: Type) -> None:
    """Raises AvroError for a map whose keys are no strings: Avro has no other maps."""
    if isinstance(type_, MapType) and type_.key != STRING:
        raise AvroError(f"{map_of(STRING, type_.value)}, as the keys of Avro's maps are strings, not {type_}")


def spelled(avro: Avro, node: Node) -> str:
    return " or ".join(shown(branch) for branch in avro.branches(node))


# ---- defaults --------------------------------------------------------------------------------------------------------


def branch_of_default(avro: Avro, node: Node, value: object) -> tuple[int, Node]:
    """The number and the node of the first branch that the default fits. Raises AvroError if it fits none."""
    for number, branch in enumerate(avro.branches(node)):
        if type(value) in IN_JSON[branch.type] and (branch.type != "enum" or value in branch.symbols):
            return number, branch
    raise AvroError(f"a default of the type {spelled(avro, node)}")


# ---- writing ---------------------------------------------------------------------------------------------------------


def check_holding(avro: Avro, node: Node, type_: Type) -> None:
    """Raises AvroError if values of the node cannot hold each value of the type without loss."""
    if not is_of_branches(avro, node, type_):
        branch_for(avro, node, type_)
        return
    if type_.optional:
        null_branch(avro, node)
    branches = branches_by_name(avro, node)
    for name, inner in members_of(type_):
        if name not in branches:
            raise AvroError(f"a branch {name}, of {', '.join(branches)}")
        branch_for(avro, branches[name], inner.present)


def branch_for(avro: Avro, node: Node, type_: Type) -> tuple[int, Node]:
    """The number and the node of the branch that a value of the type is written as: the first one that holds each value
    without loss, else the first one that holds some. Raises AvroError if none fits.
    """
    check_key(type_)
    if type_.optional:
        null_branch(avro, node)
        return branch_for(avro, node, type_.present)
    form, branches = form_of(type_), list(enumerate(avro.branches(node)))
    for holds in (form.takes, form.takes_some):
        for number, branch in branches:
            if holds(branch, type_):
                _check_inside(avro, branch, type_)
                return number, branch
    raise AvroError(f"{type_}, which {spelled(avro, node)} does not hold without loss")


def null_branch(avro: Avro, node: Node) -> int:
    """The number of the branch null. Raises AvroError if the node has none."""
    for number, branch in enumerate(avro.branches(node)):
        if branch.type == "null":
            return number
    raise AvroError(f"a union with null, as the values may be null, not {spelled(avro, node)}")


def _check_inside(avro: Avro, node: Node, type_: Type) -> None:
    if isinstance(type_, StructType):
        for name, inner in type_.members:
            ours = named(node.fields, [name])
            if ours is None:
                near = did_you_mean(name, [field.name for field in node.fields])
                raise AvroError(f"a field {name} in {node.name}{near}")
            check_holding(avro, ours.node, inner)
        names = dict(type_.members)
        lacking = [field.name for field in node.fields if field.name not in names and not field.has_default]
        if lacking:
            raise AvroError(f"a default of {lacking[0]} in {node.name}, which {type_} has no member for")
    elif type_.parts:
        check_holding(avro, node.inner[0], type_.parts[-1])


def check_writing(avro: Avro, name: str, type_: Type, path: Steps | None = None) -> None:
    """Raises AvroError if a record of the schema cannot hold the attribute without loss."""
    node = avro.root
    for number, step in enumerate(steps := steps_in(avro, name, path)):
        _, written_field = field_for(str(step), (), _inside(avro, node, step, steps[:number], WRITTEN).fields)
        assert written_field is not None  # noqa: S101 - else field_for raised
        node = written_field.node
    check_holding(avro, node, type_)


def missing(avro: Avro, paths: Iterable[Steps]) -> list[str]:
    """The fields, with their paths, that have no default and no attribute of these `paths`."""
    root = avro.meant(avro.root)
    return list(_missing(avro, root, PathTree.of(list(paths)), ())) if root.type == "record" else []


def _missing(avro: Avro, record: Node, tree: PathTree, path: Steps) -> Iterator[str]:
    for member in record.fields:
        inner = tree.inner.get(member.name)
        if inner is None and not member.has_default:
            yield text_of((*path, member.name))
        elif inner is not None and inner.inner and (inside := branch_of_type(avro, member.node, "record")):
            yield from _missing(avro, inside, inner, (*path, member.name))


def schema_of(name: str, schema: Schema, members: Members = NO_MEMBERS) -> str:
    """The JSON text of an Avro schema generated for tuples with these attributes; objects are records (PA7, PA8)."""
    tree = PathTree.of(paths_of(schema, members))
    return json.dumps(_record_of(legal_name(name), tree, schema), separators=(",", ":"))


def legal_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]|^(?=[0-9])", "_", name)


def _record_of(name: str, tree: PathTree, schema: Schema) -> dict[str, Any]:
    fields: list[dict[str, Any]] = []
    for step, inner in tree.inner.items():
        if inner.inner:
            fields.append({"name": step, "type": _record_of(f"{name}_{legal_name(str(step))}", inner, schema)})
        else:
            fields += fields_of(((str(step), schema[inner.attributes[0]][1]),), name)
    return {"type": "record", "name": name, "fields": fields}
