"""How the fields of Protocol Buffers fit attributes: the table of the types for Protobuf (PB2 to PB9)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.model.errors import did_you_mean
from sluice.model.members import Steps, quoted, text_of
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_schema import (
    DURATION_MESSAGE,
    SCALED_MESSAGE,
    TIMESTAMP_MESSAGE,
    WRAPPERS,
    Protobuf,
    ProtoField,
    ProtoMessage,
)
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
from sluice.model.types.decimal_type import DecimalType

#: kinds of fields beside those of the schema: messages that are one value
TIME, SPAN, SCALED = "timestamp", "duration", "unscaled number"
WHOLE = frozenset({
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
})  # fmt: skip
#: the texts of keys of maps that are no strings
BOOLEANS, WHOLE_NUMBER = {"false": False, "true": True}, re.compile("-?[0-9]+")
#: the messages that are any JSON
JSON_MESSAGES = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
#: kind -> the type of an attribute that a field gives if the pipeline file names none
GIVEN: Mapping[str, Type] = {
    **dict.fromkeys(WHOLE, INT64), "bool": BOOLEAN, "float": FLOAT64, "double": FLOAT64, "string": STRING,
    "enum": STRING, "bytes": BYTES, TIME: TIMESTAMP, SPAN: INT64,
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
    Int64Type: ProtoForm(WHOLE | {"enum", SPAN}, frozenset({"int64", "sint64", "sfixed64", "enum", SPAN}), "int64"),
    Float64Type: ProtoForm(WHOLE | {"float", "double", SPAN}, frozenset({"double"}), "double"),
    StringType: ProtoForm(frozenset({"string", "bytes", "enum"}), frozenset({"string", "bytes", "enum"}), "string"),
    TimestampType: ProtoForm(frozenset({TIME}), frozenset({TIME}), TIMESTAMP_MESSAGE),
    BytesType: ProtoForm(frozenset({"bytes"}), frozenset({"bytes"}), "bytes"),
    JsonType: ProtoForm(frozenset({"message"}), frozenset({"string"}), "string"),
    DecimalType: ProtoForm(WHOLE | {"string", SCALED}, frozenset({"string", SCALED}), "string"),
    ListType: ProtoForm(),
    MapType: ProtoForm(),
    OptionalType: ProtoForm(),
    StructType: ProtoForm(),
}


def form_of(type_: Type) -> ProtoForm:
    return FORMS[type(type_)]


def kind_of(proto: Protobuf, field: ProtoField) -> str:
    """The kind of a field's value. A message that stands for one value, such as a time, has the kind of it (PB7)."""
    if field.type_name == TIMESTAMP_MESSAGE:
        return TIME
    if field.type_name == DURATION_MESSAGE:
        return SPAN
    if field.type_name == SCALED_MESSAGE:
        return SCALED
    return wrapped(proto, field).kind


def wrapped(proto: Protobuf, field: ProtoField) -> ProtoField:
    """The field `value` of a message such as Int64Value; the field itself if it has another type."""
    return proto.message_of(field).fields[0] if field.type_name in WRAPPERS else field


# ---- reading ---------------------------------------------------------------------------------------------------------


def message_of(proto: Protobuf, name: str) -> ProtoMessage:
    """The message with this full name, or the only one with this name alone. Without a name it is the only message at
    the top of the main file. Raises ProtobufError.

    Implements PB2 of the reference.
    """
    if name in proto.messages:
        return proto.messages[name]
    declared = [full for full in proto.order.values() if not proto.messages[full].map_entry]
    of_name = [full for full in declared if full.rpartition(".")[2] == name]
    if len(of_name) == 1:
        return proto.messages[of_name[0]]
    top = [full for path, full in proto.order.items() if len(path) == 1]
    if not name and len(top) == 1:
        return proto.messages[top[0]]
    raise ProtobufError(f"one of its messages ({', '.join(declared) or 'it has none'})")


def attributes_of(proto: Protobuf, message: ProtoMessage) -> Schema:
    """The attributes that the fields of a message give. Raises ProtobufError for a field that fits no type."""
    return tuple((field.name, attribute_type(proto, field)) for field in message.fields)


def attribute_type(proto: Protobuf, field: ProtoField, around: tuple[str, ...] = ()) -> Type:
    """The type of the attribute that a field gives. Raises ProtobufError if it fits no type.

    `around` are the names of the messages in which the field stands; a message inside of itself is JSON.

    Implements PB10 of the reference.
    """
    if (entry := entry_of(proto, field)) is not None:
        key, value = (attribute_type(proto, part, around).present for part in entry)
        return map_of(key, value)
    type_ = _given(proto, field, around)
    if type_ is None:
        fault = f"the field {field.name} ({field.shown}) stands for none"
        raise ProtobufError(f"a schema that names the attributes and their types, as {fault}")
    if field.repeated:
        return list_of(type_)
    return optional_of(type_) if field.presence and not field.required else type_


def _given(proto: Protobuf, field: ProtoField, around: tuple[str, ...]) -> Type | None:
    if kind_of(proto, field) != "message":
        return GIVEN.get(kind_of(proto, field))
    message = proto.message_of(field)
    if not is_plain_message(proto, replace(field, repeated=False), around):
        return JSON
    inner = (*around, message.name)
    return StructType(tuple((member.name, attribute_type(proto, member, inner)) for member in message.fields))


def is_plain_message(proto: Protobuf, field: ProtoField, around: tuple[str, ...] = ()) -> bool:
    """Whether the field is a message of fields: not repeated, no value such as a time, and not one of `around`."""
    if field.repeated or kind_of(proto, field) != "message":
        return False
    message = proto.message_of(field)
    return bool(message.fields) and message.name not in JSON_MESSAGES and message.name not in around


def entry_of(proto: Protobuf, field: ProtoField) -> tuple[ProtoField, ProtoField] | None:
    """The fields of the keys and of the values if the field is a map."""
    if field.kind != "message" or not proto.message_of(field).map_entry:
        return None
    key, value = proto.message_of(field).fields
    return key, value


def check_reading(proto: Protobuf, message: ProtoMessage, path: Steps, type_: Type) -> None:
    """Raises ProtobufError if no record of the message gives the attribute at this path."""
    check_field(proto, field_at(proto, message, path, read=True), type_)


def field_at(proto: Protobuf, message: ProtoMessage, path: Steps, *, read: bool = False) -> ProtoField:
    """The field at the end of a path through messages, and if it is `read` through lists and maps. Raises ProtobufError
    if there is none (PB23).
    """
    if not path:
        raise ProtobufError("a path with the name of a field")
    field = _field(message, path[:1])
    for place, step in enumerate(path[1:], 1):
        if read and field.repeated:
            field = _inside(proto, field, step)
        elif field.kind == "message" and not field.repeated:
            field = _field(proto.message_of(field), path[: place + 1])
        else:
            raise ProtobufError(f"a message {text_of(path[:place])}, which is {field.shown}")
    return field


def _field(message: ProtoMessage, path: Steps) -> ProtoField:
    field = message.named(path[-1]) if isinstance(path[-1], str) else None
    if field is None:
        near = did_you_mean(str(path[-1]), [member.name for member in message.fields])
        raise ProtobufError(f"a field {text_of(path)}{near}")
    return field


def _inside(proto: Protobuf, field: ProtoField, step: str | int) -> ProtoField:
    """What the step finds in a list or a map: the field of one item, or the field of the values of the entries."""
    key_of(proto, field, step)
    entry = entry_of(proto, field)
    return replace(field, repeated=False) if entry is None else entry[1]


def key_of(proto: Protobuf, field: ProtoField, step: str | int) -> str | int | bool:
    """The index in a list, or the key in a map, that a step of a path names. Raises ProtobufError if it names none."""
    entry = entry_of(proto, field)
    if entry is None:
        if isinstance(step, str):
            raise ProtobufError(f"{field.name}[0], as {field.name} is {field.shown}")
        return step
    key, type_ = _key(str(step), entry[0].kind), attribute_type(proto, entry[0]).present
    if isinstance(step, int) or key is None:
        raise ProtobufError(f"a key of {field.name}, such as {field.name}[{quoted(str(type_.empty or 'x'))}] ({type_})")
    return key


def _key(text: str, kind: str) -> str | int | bool | None:
    """The key of a map that has this text; None if there is none."""
    if kind == "string":
        return text
    if kind == "bool":
        return BOOLEANS.get(text)
    return int(text) if WHOLE_NUMBER.fullmatch(text) else None


def check_field(proto: Protobuf, field: ProtoField, type_: Type, *, item: bool = False) -> None:
    """Raises ProtobufError if the field, or with `item` an item of it, gives no value of the type."""
    present, entry = type_.present, entry_of(proto, field)
    repeated = field.repeated and not item
    match present:
        case ListType() if repeated and entry is None:
            check_field(proto, field, present.element, item=True)
        case MapType() if repeated and entry is not None:
            check_field(proto, entry[0], present.key)
            check_field(proto, entry[1], present.value)
        case StructType() if not repeated and kind_of(proto, field) == "message":
            for name, member in present.members:
                check_member(proto, field, name, member)
        case _ if repeated or kind_of(proto, field) not in form_of(present).readable:
            raise ProtobufError(f"{type_}, which {field.shown} does not give")


def check_member(proto: Protobuf, field: ProtoField, name: str, type_: Type) -> None:
    message = proto.message_of(field)
    member = message.named(name)
    if member is not None:
        check_field(proto, member, type_)
    elif not type_.optional:
        near = did_you_mean(name, [sibling.name for sibling in message.fields])
        raise ProtobufError(f"a field {name} of {field.type_name}{near}")


# ---- writing ---------------------------------------------------------------------------------------------------------


def check_writing(proto: Protobuf, message: ProtoMessage, path: Steps, type_: Type) -> None:
    """Raises ProtobufError if the message cannot hold the attribute at this path without loss."""
    check_holds(proto, field_at(proto, message, path), type_)


def check_holds(proto: Protobuf, field: ProtoField, type_: Type, *, item: bool = False) -> None:
    """Raises ProtobufError if the field, or with `item` an item of it, does not hold each value of the type (PB9)."""
    if type_.optional and (item or not field.presence):
        raise ProtobufError(f"{type_.present}, as null in {field.name} ({field.shown}) would become a default")
    present, entry = type_.present, entry_of(proto, field)
    repeated = field.repeated and not item
    match present:
        case ListType() if repeated and entry is None:
            check_holds(proto, field, present.element, item=True)
        case MapType() if repeated and entry is not None:
            check_holds(proto, entry[0], present.key, item=True)
            check_holds(proto, entry[1], present.value, item=True)
        case StructType() if not repeated and kind_of(proto, field) == "message":
            for name, member in present.members:
                check_writing(proto, proto.message_of(field), (name,), member)
            if lacking := missing(proto.message_of(field), [name for name, _ in present.members]):
                raise ProtobufError(f"a member for each required field of {field.type_name} ({', '.join(lacking)})")
        case JsonType() if not repeated and field.type_name in JSON_MESSAGES:
            pass
        case _ if repeated or kind_of(proto, field) not in form_of(present).written:
            raise ProtobufError(f"{type_}, which {field.shown} does not hold without loss")


def missing(message: ProtoMessage, names: Sequence[str]) -> list[str]:
    """The names of the required fields that are not among the attributes `names`."""
    member_names = set(names)
    return [field.name for field in message.fields if field.required and field.name not in member_names]


# ---- a generated schema ----------------------------------------------------------------------------------------------


def schema_of(name: str, schema: Schema) -> str:
    """The text of a `.proto` file generated for tuples with these attributes. Raises ProtobufError for a type that
    Protobuf cannot hold. The fields are numbered in the order of the attributes.
    """
    body = "\n".join(_message_lines(message_name(name), schema, ""))
    imported = 'import "google/protobuf/timestamp.proto";\n' if TIMESTAMP_MESSAGE in body else ""
    return f'syntax = "proto3";\n{imported}{body}\n'


def message_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]|^(?=[0-9])", "_", name)


def _message_lines(name: str, members: Schema, indent: str) -> list[str]:
    lines = [f"{indent}message {name} {{"]
    for number, (member, type_) in enumerate(members, 1):
        inner = _innermost(type_)
        if isinstance(inner, StructType):
            lines += _message_lines(_capital(member), inner.members, f"{indent}  ")
        lines.append(f"{indent}  {_declared(type_, member)} {member} = {number};")
    return [*lines, f"{indent}}}"]


def _innermost(type_: Type) -> Type:
    """The type of the values, of the elements of a list or of the values of a map."""
    present = type_.present
    return _innermost(present.parts[-1]) if isinstance(present, ListType | MapType) else present


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _declared(type_: Type, member: str) -> str:
    match type_:
        case ListType(element):
            return f"repeated {_item(element, member)}"
        case MapType(key, value) if form_of(key).generated in KEYS:
            return f"map<{_item(key, member)}, {_item(value, member)}>"
    word = _item(type_.present, member)
    optional = type_.optional and word != TIMESTAMP_MESSAGE and not isinstance(type_.present, StructType)
    return f"optional {word}" if optional else word


def _item(type_: Type, member: str) -> str:
    if isinstance(type_, StructType):
        return _capital(member)
    if not form_of(type_).generated:
        raise ProtobufError(f"another type of {member}, as Protobuf has no field that holds {type_} there")
    return form_of(type_).generated


#: the types of the keys of maps in a generated schema
KEYS = ("bool", "int64", "string")
