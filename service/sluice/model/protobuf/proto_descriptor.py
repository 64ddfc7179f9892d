"""Reads compiled descriptors: the FileDescriptorSet that `protoc --descriptor_set_out --include_imports` writes.

A descriptor is itself a message of Protocol Buffers (google/protobuf/descriptor.proto).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sluice.model.protobuf.proto_file import EnumText, FieldText, FileText, MessageText, ProtobufError

T = TypeVar("T")
Value = int | bytes

#: number in FieldDescriptorProto.Type -> its word
TYPES = dict(
    enumerate(
        (
            "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message",
            "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
        ),
        1,
    )
)  # fmt: skip
LABELS = {1: "optional", 2: "required", 3: "repeated"}
#: number of a feature -> its name, and its values from number 1 on
FEATURES = {
    1: ("field_presence", ("EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED")),
    2: ("enum_type", ("OPEN", "CLOSED")),
    3: ("repeated_field_encoding", ("PACKED", "EXPANDED")),
    5: ("message_encoding", ("LENGTH_PREFIXED", "DELIMITED")),
}
#: numbers of the field `features` in the options of a file, a message, a field and an enum
OF_FILE, OF_MESSAGE, OF_FIELD, OF_ENUM = 50, 12, 21, 7
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 100


def files_of(data: bytes) -> list[tuple[str, bytes]]:
    """The names and the descriptors of the files in a FileDescriptorSet. Raises ProtobufError."""
    files = [content for number, content in fields(data) if number == 1 and isinstance(content, bytes)]
    if not files:
        raise ProtobufError("a file that `protoc --descriptor_set_out` wrote")
    return [(_text(content, 1), content) for content in files]


def read_descriptor(data: bytes) -> FileText:
    """The definitions in a FileDescriptorProto. Raises ProtobufError."""
    syntax = _text(data, 12) or "proto2"
    file = FileText(_text(data, 1), _text(data, 2), syntax)
    file.imports = [_decoded(content) for content in _all(data, 3)]
    file.messages = [_message(content, 0) for content in _all(data, 4)]
    file.enums = [_enum(content) for content in _all(data, 5)]
    file.features = _features(data, 8, OF_FILE)
    return file


def _message(data: bytes, depth: int) -> MessageText:
    if depth > MAX_DEPTH:
        raise ProtobufError(f"messages that are nested at most {MAX_DEPTH} deep")
    oneofs = [_text(content, 1) for content in _all(data, 8)]
    return MessageText(
        _text(data, 1), [_field(content, oneofs) for content in _all(data, 2)],
        [_message(content, depth + 1) for content in _all(data, 3)], [_enum(content) for content in _all(data, 4)],
        bool(_number(_bytes(data, 7), 7)), _features(data, 7, OF_MESSAGE),
    )  # fmt: skip


def _field(data: bytes, oneofs: list[str]) -> FieldText:
    word = TYPES.get(_number(data, 5), "")
    options, alone = _bytes(data, 8), _number(data, 17)
    by_number = dict(fields(data))
    index = by_number.get(9)
    field = FieldText(_text(data, 1), _number(data, 3), _text(data, 6) or word, LABELS.get(_number(data, 4), ""))
    if field.label == "optional" and not alone:
        field.label = "singular"  # proto3 has no word for it; the features say whether it has presence
    if isinstance(index, int) and index < len(oneofs) and not alone:
        field.oneof = oneofs[index]
    field.default = _text(data, 7) if 7 in by_number else None  # noqa: PLR2004 - default_value
    packed = dict(fields(options)).get(2)
    field.packed = None if packed is None else bool(packed)
    field.group = word == "group"
    field.features = _features(data, 8, OF_FIELD)
    return field


def _enum(data: bytes) -> EnumText:
    values = [(_text(content, 1), _signed(_number(content, 2))) for content in _all(data, 2)]
    return EnumText(_text(data, 1), values, _features(data, 3, OF_ENUM))


def _features(data: bytes, options: int, features: int) -> dict[str, str]:
    return {
        FEATURES[number][0]: FEATURES[number][1][value - 1]
        for number, value in fields(_bytes(_bytes(data, options), features))
        if number in FEATURES and isinstance(value, int) and 0 < value <= len(FEATURES[number][1])
    }


def _signed(number: int) -> int:
    number &= 2**32 - 1
    return number - 2**32 if number >= 2**31 else number


# ---- the wire format -------------------------------------------------------------------------------------------------


def _all(data: bytes, number: int) -> list[bytes]:
    return [value for key, value in fields(data) if key == number and isinstance(value, bytes)]


def _last(data: bytes, number: int, kind: Callable[[], T]) -> T:
    """The last value of a field, that of `kind()` if there is none of this kind."""
    empty = kind()
    return next((v for key, v in reversed(list(fields(data))) if key == number and isinstance(v, type(empty))), empty)


def _bytes(data: bytes, number: int) -> bytes:
    return _last(data, number, bytes)


def _number(data: bytes, number: int) -> int:
    return _last(data, number, int)


def _text(data: bytes, number: int) -> str:
    return _decoded(_bytes(data, number))


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ProtobufError("a descriptor with names in UTF-8") from None


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The numbers and the values of the fields of a message. Raises ProtobufError for bytes that are none."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        match tag & 7:
            case 0:
                value, at = varint(data, at)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 5:
                size = 4
            case 2:
                size, at = varint(data, at)
            case _:
                raise ProtobufError("a compiled descriptor")
        if size > len(data) - at:
            raise ProtobufError("a compiled descriptor that is complete")
        yield tag >> 3, data[at : at + size]
        at += size


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at this position, and the position behind it. Raises ProtobufError."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("a compiled descriptor that is complete")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:  # noqa: PLR2004 - the last byte of a number
            return value, at
    raise ProtobufError("a compiled descriptor")
