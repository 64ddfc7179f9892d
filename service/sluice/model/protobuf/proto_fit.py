"""How the fields of Protocol Buffers fit attributes: the table of the types for Protobuf (PB2 to PB9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_schema import (
    DURATION_MESSAGE,
    TIMESTAMP_MESSAGE,
    WRAPPERS,
    Protobuf,
    ProtoField,
    ProtoMessage,
)
from sluice.model.types import (
    BOOLEAN,
    FLOAT64,
    INT64,
    STRING,
    TIMESTAMP,
    BooleanType,
    Float64Type,
    Int64Type,
    ListType,
    OptionalType,
    Schema,
    StringType,
    TimestampType,
    Type,
    list_of,
    optional_of,
)

#: kinds of fields beside those of the schema: messages that are one value
TIME, SPAN = "timestamp", "duration"
WHOLE = frozenset({
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
})  # fmt: skip
#: kind -> the type of an attribute that a field gives if the pipeline file names none
GIVEN: Mapping[str, Type] = {
    **dict.fromkeys(WHOLE, INT64), "bool": BOOLEAN, "float": FLOAT64, "double": FLOAT64, "string": STRING,
    "enum": STRING, TIME: TIMESTAMP,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProtoForm:
    """How Protobuf holds the values of a type.

    readable   the kinds of fields from which a value can be read
    written    the kinds that hold each value without loss
    generated  the type in a generated schema
    """

    readable: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    generated: str = ""


#: the table of the types for Protobuf
FORMS: Mapping[type[Type], ProtoForm] = {
    BooleanType: ProtoForm(frozenset({"bool"}), frozenset({"bool"}), "bool"),
    Int64Type: ProtoForm(WHOLE | {"enum", SPAN}, frozenset({"int64", "sint64", "sfixed64", SPAN}), "int64"),
    Float64Type: ProtoForm(WHOLE | {"float", "double", SPAN}, frozenset({"double"}), "double"),
    StringType: ProtoForm(frozenset({"string", "bytes", "enum"}), frozenset({"string", "bytes"}), "string"),
    TimestampType: ProtoForm(frozenset({TIME}), frozenset({TIME}), TIMESTAMP_MESSAGE),
    ListType: ProtoForm(),
    OptionalType: ProtoForm(),
}


def form_of(type_: Type) -> ProtoForm:
    return FORMS[type(type_)]


def kind_of(proto: Protobuf, one: ProtoField) -> str:
    """The kind of a value: that of the field, or what its message stands for."""
    if one.type_name == TIMESTAMP_MESSAGE:
        return TIME
    if one.type_name == DURATION_MESSAGE:
        return SPAN
    return wrapped(proto, one).kind


def wrapped(proto: Protobuf, one: ProtoField) -> ProtoField:
    """The field `value` of a message such as Int64Value; the field itself if it has another type."""
    return proto.message_of(one).fields[0] if one.type_name in WRAPPERS else one


# ---- reading ---------------------------------------------------------------------------------------------------------


def message_of(proto: Protobuf, name: str) -> ProtoMessage:
    """The message with this full name, or the only one with this name alone. Without a name it is the only message at
    the top of the main file. Raises ProtobufError.
    """
    if name in proto.messages:
        return proto.messages[name]
    own = [full for full in proto.order.values() if not proto.messages[full].map_entry]
    same = [full for full in own if full.rpartition(".")[2] == name]
    if len(same) == 1:
        return proto.messages[same[0]]
    top = [full for path, full in proto.order.items() if len(path) == 1]
    if not name and len(top) == 1:
        return proto.messages[top[0]]
    raise ProtobufError(f"one of its messages ({', '.join(own) or 'it has none'})")


def attributes_of(proto: Protobuf, message: ProtoMessage) -> Schema:
    """The attributes that the fields of a message give. Raises ProtobufError for a field that fits no type."""
    return tuple((one.name, attribute_type(proto, one)) for one in message.fields)


def attribute_type(proto: Protobuf, one: ProtoField) -> Type:
    """The type of the attribute that a field gives. Raises ProtobufError if it fits no type."""
    type_ = GIVEN.get(kind_of(proto, one))
    if type_ is None:
        what = f"the field {one.name} ({one.shown}) stands for none"
        raise ProtobufError(f"a schema that names the attributes and their types, as {what}")
    if one.repeated:
        return list_of(type_)
    return optional_of(type_) if one.presence and not one.required else type_


def check_reading(proto: Protobuf, message: ProtoMessage, name: str, type_: Type) -> None:
    """Raises ProtobufError if no record of the message gives the attribute."""
    one = message.named(name)
    if one is None:
        raise ProtobufError(f"a field {name}")
    check_field(proto, one, type_)


def check_field(proto: Protobuf, one: ProtoField, type_: Type, *, item: bool = False) -> None:
    """Raises ProtobufError if the field, or with `item` an item of it, gives no value of the type."""
    present = type_.present
    if present.element is not None:
        if not one.repeated or item:
            raise ProtobufError(f"{type_}, which {one.shown} does not give")
        check_field(proto, one, present.element, item=True)
    elif (one.repeated and not item) or kind_of(proto, one) not in form_of(present).readable:
        raise ProtobufError(f"{type_}, which {one.shown} does not give")


# ---- writing ---------------------------------------------------------------------------------------------------------


def check_writing(proto: Protobuf, message: ProtoMessage, name: str, type_: Type) -> None:
    """Raises ProtobufError if the message cannot hold the attribute without loss."""
    one = message.named(name)
    if one is None:
        raise ProtobufError(f"a field {name}")
    if type_.optional and not one.presence:
        raise ProtobufError(f"{type_}, which {one.shown} without presence does not hold: null would become a default")
    present = type_.present
    item = present.element or present
    nested = item.optional or item.element is not None
    if nested or one.repeated != (present.element is not None) or kind_of(proto, one) not in form_of(item).written:
        raise ProtobufError(f"{type_}, which {one.shown} does not hold without loss")


def missing(message: ProtoMessage, names: Sequence[str]) -> list[str]:
    """The names of the required fields that are not among the attributes `names`."""
    known = set(names)
    return [one.name for one in message.fields if one.required and one.name not in known]


# ---- a generated schema ----------------------------------------------------------------------------------------------


def schema_of(name: str, schema: Schema) -> str:
    """The text of a `.proto` file generated for tuples with these attributes; its message is the last one.

    The fields are numbered in the order of the attributes.
    """
    lines = [f"  {_declared(type_)} {attribute} = {number};" for number, (attribute, type_) in enumerate(schema, 1)]
    imported = 'import "google/protobuf/timestamp.proto";\n' if any(TIMESTAMP_MESSAGE in line for line in lines) else ""
    return f'syntax = "proto3";\n{imported}message {message_name(name)} {{\n' + "\n".join([*lines, "}", ""])


def message_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]|^(?=[0-9])", "_", name)


def _declared(type_: Type) -> str:
    if type_.present.element is not None:
        return f"repeated {form_of(type_.present.element.present).generated}"
    word = form_of(type_.present).generated
    return f"optional {word}" if type_.optional and word != TIMESTAMP_MESSAGE else word
