"""Messages of Protocol Buffers as JSON, and unscaled numbers of messages as texts: one value at a time.

The form is that of Protobuf's JSON mapping, with the names of the schema, and with numbers of 64 bits as numbers.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import orjson

from sluice.model.protobuf.proto_descriptor import Value, fields, varint
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_fit import SPAN, TIME, kind_of
from sluice.model.protobuf.proto_schema import FIXED, VARINTS, WRAPPERS, Protobuf, ProtoField, ProtoMessage
from sluice.time_units import SECOND
from sluice.wire.json.json_values import finite_or_word, time_text

#: the deepest nesting of messages
MAX_DEPTH = 100
PACKED = {
    "double": "<d", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "fixed32": "<I", "sfixed32": "<i",
}  # fmt: skip
#: the largest number of digits behind the point of an unscaled number
MAX_SCALE = 1000


def json_text(proto: Protobuf, field: ProtoField, content: bytes) -> str:
    """The JSON of a message that is the value of a field. Raises ProtobufError if it is none (PB8)."""
    try:
        return orjson.dumps(_message(proto, field, content, 0)).decode()
    except (ValueError, TypeError, struct.error, OverflowError) as error:
        raise ProtobufError(f"a message of the type {field.type_name} ({error})") from None


def _message(  # noqa: PLR0911 - a case for each kind of message
    proto: Protobuf, field: ProtoField, content: bytes, depth: int
) -> Any:  # noqa: ANN401 - JSON
    if depth > MAX_DEPTH:
        raise ProtobufError(f"messages that are nested at most {MAX_DEPTH} deep")
    message = proto.message_of(field)
    members = _members(proto, message, content, depth)
    kind = kind_of(proto, field)
    if kind in (TIME, SPAN):
        nanos = members.get("seconds", 0) * SECOND + members.get("nanos", 0)
        return (
            time_text(nanos)
            if kind == TIME
            else f"{'-' if nanos < 0 else ''}{abs(nanos) // SECOND}.{abs(nanos) % SECOND:09}s"
        )
    if field.type_name in WRAPPERS:
        return members.get("value", message.fields[0].default)
    match message.name:
        case "google.protobuf.Any":
            return _any(proto, members, content, depth)
        case "google.protobuf.Struct":
            return members.get("fields", {})
        case "google.protobuf.ListValue":
            return members.get("values", [])
        case "google.protobuf.Value":
            name, value = next(reversed(members.items()), ("null_value", None))
            return None if name == "null_value" else value
    return members


def _any(proto: Protobuf, members: dict[str, Any], content: bytes, depth: int) -> dict[str, Any]:
    """The message in an Any, with its type as `@type`; of a type that the schema lacks the bytes, as they are."""
    url = members.get("type_url", "")
    name = url.rpartition("/")[2]
    if name not in proto.messages:
        return members
    inner = _message(
        proto, ProtoField("value", 2, "message", name), _bytes(dict(fields(content)).get(2, b"")), depth + 1
    )
    return {"@type": url, **(inner if isinstance(inner, dict) and name not in WRITTEN else {"value": inner})}


def _members(proto: Protobuf, message: ProtoMessage, content: bytes, depth: int) -> dict[str, Any]:
    """The fields that are set, in the order in which they were set last."""
    field_of = {field.number: field for field in message.fields}
    of_members: dict[str, list[Value]] = {}
    for number, value in fields(content):
        if (field := field_of.get(number)) is not None:
            values = of_members.pop(field.name, [])
            for other in message.fields:
                if field.oneof and other.oneof == field.oneof:
                    of_members.pop(other.name, None)
            of_members[field.name] = [*values, value]
    named = {field.name: field for field in message.fields}
    return {name: _field(proto, named[name], values, depth) for name, values in of_members.items()}


def _field(proto: Protobuf, field: ProtoField, values: list[Value], depth: int) -> Any:  # noqa: ANN401 - JSON
    if field.kind == "message" and not field.repeated:
        return _message(proto, field, b"".join(map(_bytes, values)), depth + 1)
    if field.kind == "message" and proto.message_of(field).map_entry:
        return dict(_entry(proto, field, _bytes(value), depth + 1) for value in values)
    items = [_item(proto, field, value, depth) for part in values for value in _unpacked(field, part)]
    return items if field.repeated else items[-1]


def _entry(proto: Protobuf, field: ProtoField, content: bytes, depth: int) -> tuple[str, Any]:
    message = proto.message_of(field)
    members = _members(proto, message, content, depth)
    key, value = (members.get(part.name, {} if part.kind == "message" else part.default) for part in message.fields)
    return key if isinstance(key, str) else orjson.dumps(key).decode(), value


def _unpacked(field: ProtoField, value: Value) -> Iterator[Value]:
    """The values of a packed field, else the value."""
    if not field.repeated or not isinstance(value, bytes) or field.kind not in VARINTS | FIXED.keys():
        yield value
    elif (size := FIXED.get(field.kind, 0)) and len(value) != size:
        yield from (value[at : at + size] for at in range(0, len(value), size))
    elif size:
        yield value
    else:
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            yield number


def _item(proto: Protobuf, field: ProtoField, value: Value, depth: int) -> Any:  # noqa: ANN401 - JSON
    match field.kind:
        case "message":
            return _message(proto, field, _bytes(value), depth + 1)
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return b64encode(_bytes(value)).decode()
        case kind if kind in PACKED:
            return finite_or_word(struct.unpack(PACKED[kind], _bytes(value))[0])
    return _number(proto, field, value)


def _number(proto: Protobuf, field: ProtoField, value: Value) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(value, int):
        raise ProtobufError(f"a number in {field.name}")
    match field.kind:
        case "bool":
            return value & (2**64 - 1) != 0
        case "enum":
            return proto.enums[field.type_name].by_number.get(_signed(value, 32), _signed(value, 32))
        case "sint32" | "sint64":
            bits = value & (2**32 - 1 if field.kind == "sint32" else 2**64 - 1)
            return (bits >> 1) ^ -(bits & 1)
        case "uint32" | "uint64":
            return value & (2 ** int(field.kind[-2:]) - 1)
    return _signed(value, int(field.kind[-2:]))


def _signed(value: int, bits: int) -> int:
    value &= 2**bits - 1
    return value - 2**bits if value >> (bits - 1) else value


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("a value with a length")
    return value


# ---- JSON as a message -----------------------------------------------------------------------------------------------


def json_message(name: str, text: str | None) -> bytes | None:
    """The content of a Struct, a ListValue or a Value with this JSON; None if it has no such JSON (PB25)."""
    document = orjson.loads(text or "null")
    try:
        if name != VALUE and not isinstance(document, WRITTEN[name]):
            return None
        return _written(document, 0) if name == VALUE else _inside(document, 0)
    except (OverflowError, RecursionError):
        return None


VALUE = "google.protobuf.Value"
#: messages whose JSON is no object of their fields -> what JSON a document must be; a Value may be any
WRITTEN: dict[str, type] = {"google.protobuf.Struct": dict, "google.protobuf.ListValue": list, VALUE: object}


def _inside(document: Any, depth: int) -> bytes:  # noqa: ANN401 - JSON
    """The fields of a Struct or a ListValue."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(document, list):
        return b"".join(_part(1, _written(item, depth + 1)) for item in document)
    entries = (_part(1, name.encode()) + _part(2, _written(item, depth + 1)) for name, item in document.items())
    return b"".join(_part(1, entry) for entry in entries)


def _written(document: Any, depth: int) -> bytes:  # noqa: ANN401 - JSON
    """The field of a Value."""
    match document:
        case None:
            return b"\x08\0"
        case bool():
            return bytes([0x20, document])
        case str():
            return _part(3, document.encode())
        case int() | float():
            return b"\x11" + struct.pack("<d", document)
    return _part(5 if isinstance(document, dict) else 6, _inside(document, depth))


def _part(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return bytes([number << 3 | 2]) + _length(len(content)) + content


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80]) + _length(size >> 7)  # noqa: PLR2004


# ---- unscaled numbers ------------------------------------------------------------------------------------------------


def scaled_text(content: bytes) -> str:
    """The number in a message confluent.type.Decimal, which has an unscaled number in bytes, and a scale.

    Raises ProtobufError.
    """
    by_number = dict(fields(content))
    scale = _signed(scale, 32) if isinstance(scale := by_number.get(3, 0), int) else MAX_SCALE + 1
    if abs(scale) > MAX_SCALE:
        raise ProtobufError(f"a scale of at most {MAX_SCALE}")
    return f"{int.from_bytes(_bytes(by_number.get(1, b'')), 'big', signed=True)}e{-scale}"
