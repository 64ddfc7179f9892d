"""Schemas of Protocol Buffers: the messages and enums of some files, with the names of their types resolved.

A type whose file is missing has the kind `unknown`: its fields can be skipped, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sluice.model.protobuf.proto_descriptor import read_descriptor
from sluice.model.protobuf.proto_file import (
    EDITION,
    SYNTAXES,
    EnumText,
    Features,
    FieldText,
    FileText,
    MessageText,
    ProtobufError,
)
from sluice.model.protobuf.proto_text import read_text

#: a file: its name as imports name it, and its text, or its compiled descriptor in base64
Source = tuple[str, str]

#: kinds of fields that are numbers of variable length
VARINTS = frozenset({"int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"})
FIXED = {"fixed32": 4, "sfixed32": 4, "float": 4, "fixed64": 8, "sfixed64": 8, "double": 8}
SCALARS = VARINTS - {"enum"} | FIXED.keys() | {"string", "bytes"}
MAX_NUMBER = 2**29 - 1

#: the files that need not be given
WRAPPED = {
    "Double": "double", "Float": "float", "Int64": "int64", "UInt64": "uint64", "Int32": "int32", "UInt32": "uint32",
    "Bool": "bool", "String": "string", "Bytes": "bytes",
}  # fmt: skip
_MESSAGES = {
    "timestamp": "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "duration": "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "wrappers": " ".join(f"message {word}Value {{ {type_} value = 1; }}" for word, type_ in WRAPPED.items()),
    "empty": "message Empty {}",
    "any": "message Any { string type_url = 1; bytes value = 2; }",
    "field_mask": "message FieldMask { repeated string paths = 1; }",
    "struct": """
        message Struct { map<string, Value> fields = 1; }
        message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3;
          bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }
        enum NullValue { NULL_VALUE = 0; }
        message ListValue { repeated Value values = 1; }""",
}
PROVIDED: Mapping[str, str] = {
    **{
        f"google/protobuf/{name}.proto": f'syntax = "proto3"; package google.protobuf; {text}'
        for name, text in _MESSAGES.items()
    },
    "google/type/decimal.proto": 'syntax = "proto3"; package google.type; message Decimal { string value = 1; }',
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',
}
TIMESTAMP_MESSAGE, DURATION_MESSAGE = "google.protobuf.Timestamp", "google.protobuf.Duration"
SCALED_MESSAGE = "confluent.type.Decimal"
#: messages that are the value of their only field, and are null if they are not there
WRAPPERS = {*(f"google.protobuf.{word}Value" for word in WRAPPED), "google.type.Decimal"}


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field. `kind` is a word such as `int32`, or `message`, `enum`, `unknown`.

    type_name  the full name of the message or the enum
    presence   whether a record says if the field is set
    required   whether proto2 requires it
    default    what the field has if it is not set: the default that is declared, else that of its kind
    declared   whether the schema declares this default
    oneof      the oneof that it is a member of; empty: none
    group      whether its message is encoded between tags, not behind its length
    """

    name: str
    number: int
    kind: str
    type_name: str = ""
    repeated: bool = False
    presence: bool = False
    required: bool = False
    packed: bool = False
    default: bool | int | float | str = 0
    declared: bool = False
    oneof: str = ""
    group: bool = False

    @property
    def shown(self) -> str:
        """The type, for messages."""
        return f"{'repeated ' if self.repeated else ''}{self.type_name or self.kind}"


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message. `name` is its full name, `fields` are in the order of their numbers."""

    name: str
    fields: tuple[ProtoField, ...] = ()
    map_entry: bool = False

    def named(self, name: str) -> ProtoField | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, slots=True)
class ProtoEnum:
    """An enum. A closed one (proto2) has no other values than these: a record with another one lacks the field."""

    name: str
    values: tuple[tuple[str, int], ...]
    closed: bool = False

    @property
    def by_number(self) -> dict[int, str]:
        """The first name of each number."""
        return {number: name for name, number in reversed(self.values)}


@dataclass(frozen=True)
class Protobuf:
    """All messages and enums of some files, by their full names.

    order   the paths of the messages of the last file: their positions on each level, as message indexes have them
    """

    messages: Mapping[str, ProtoMessage] = field(default_factory=dict)
    enums: Mapping[str, ProtoEnum] = field(default_factory=dict)
    order: Mapping[tuple[int, ...], str] = field(default_factory=dict)

    def message_of(self, field: ProtoField) -> ProtoMessage:
        return self.messages[field.type_name]

    def path_of(self, message: str) -> tuple[int, ...] | None:
        """The message indexes of a message; None if it is not in the last file."""
        return next((path for path, name in self.order.items() if name == message), None)


@lru_cache(maxsize=1000)
def parse(sources: tuple[Source, ...]) -> Protobuf:
    """The schema in these files; the last one is the main one. Raises ProtobufError."""
    files = [file_of(*source) for source in sources]
    named = {file.name for file in files}
    provided = [read_text(name, text) for name, text in PROVIDED.items() if name not in named]
    return _Resolver([*provided, *files]).schema()


def file_of(name: str, content: str) -> FileText:
    """The definitions of a file that is given as text, or as a compiled descriptor in base64."""
    compiled = _compiled(content)
    file = read_text(name, content) if compiled is None else read_descriptor(compiled)
    file.name = name or file.name
    return file


def _compiled(content: str) -> bytes | None:
    try:
        return base64.b64decode(content, validate=True) if content else None
    except (binascii.Error, ValueError):  # base64 has no characters but those of ASCII, and a text has others
        return None


class _Resolver:
    """Finds the definitions of the names of types."""

    def __init__(self, files: list[FileText]) -> None:
        self.files = files
        self.messages: dict[str, ProtoMessage] = {}
        self.enums: dict[str, ProtoEnum] = {}
        #: full names of all types, of packages, too: a name is looked up from the inner scope to the outer ones
        self.kind_of: dict[str, str] = {}

    def schema(self) -> Protobuf:
        for file in self.files:
            features = SYNTAXES.get(file.syntax, EDITION) | file.features
            self.declare(file.package, file.messages, file.enums, features)
        for file in self.files:
            features = SYNTAXES.get(file.syntax, EDITION) | file.features
            for message in file.messages:
                self.resolve(file.package, message, features)
        return Protobuf(self.messages, self.enums, dict(_order(self.files[-1])))

    def declare(self, scope: str, messages: list[MessageText], enums: list[EnumText], features: Features) -> None:
        for enum in enums:
            name = _full(scope, enum.name)
            closed = (features | enum.features)["enum_type"] == "CLOSED"
            if not enum.values:
                raise ProtobufError(f"an enum {name} with a value")
            self.enums[name] = ProtoEnum(name, tuple(enum.values), closed)
            self.kind_of[name] = "enum"
        for message in messages:
            name = _full(scope, message.name)
            if name in self.kind_of:
                raise ProtobufError(f"one definition of {name}")
            self.kind_of[name] = "message"
            self.declare(name, message.messages, message.enums, features | message.features)

    def resolve(self, scope: str, message: MessageText, features: Features) -> None:
        features = features | message.features
        name = _full(scope, message.name)
        fields = sorted((self.field(name, field, features) for field in message.fields), key=lambda field: field.number)
        for column in ("number", "name"):
            if len({getattr(field, column) for field in fields}) < len(fields):
                raise ProtobufError(f"a {column} of its own for each field of {name}")
        self.messages[name] = ProtoMessage(name, tuple(fields), message.map_entry)
        for inner in message.messages:
            self.resolve(name, inner, features)

    def field(self, scope: str, text: FieldText, features: Features) -> ProtoField:
        if not 1 <= text.number <= MAX_NUMBER:
            raise ProtobufError(f"a number from 1 to {MAX_NUMBER} for the field {text.name} of {scope}")
        features = features | text.features
        repeated = text.label == "repeated"
        kind, type_name = self.type_of(scope, text.type)
        packable = repeated and kind in VARINTS | FIXED.keys()
        packed = text.packed if text.packed is not None else features["repeated_field_encoding"] == "PACKED"
        presence = (
            kind == "message" or bool(text.oneof) or text.label in ("optional", "required")
            or features["field_presence"] != "IMPLICIT"
        )  # fmt: skip
        return ProtoField(
            text.name, text.number, kind, type_name, repeated, presence and not repeated,
            text.label == "required" or features["field_presence"] == "LEGACY_REQUIRED", packable and packed,
            self.default(kind, type_name, text), text.default is not None, text.oneof,
            text.group or (kind == "message" and features["message_encoding"] == "DELIMITED"),
        )  # fmt: skip

    def type_of(self, scope: str, text: str) -> tuple[str, str]:
        """The kind of a type, and its full name if it is a message or an enum."""
        if text in SCALARS:
            return text, ""
        name = text[1:] if text.startswith(".") else self.found(scope, text)
        return self.kind_of.get(name, "unknown"), name

    def found(self, scope: str, text: str) -> str:
        """The full name of a type that is named within a scope."""
        while scope:
            if (name := f"{scope}.{text}") in self.kind_of:
                return name
            scope = scope.rpartition(".")[0]
        return text

    def default(self, kind: str, type_name: str, text: FieldText) -> bool | int | float | str:
        """The value of a field that is not set. Of an enum it is the number."""
        if kind == "enum":
            values = self.enums[type_name].values
            return dict(values).get(text.default or "", values[0][1])
        empty: dict[str, bool | float | str] = {"bool": False, "string": "", "bytes": "", "float": 0.0, "double": 0.0}
        if text.default is None:
            return empty.get(kind, 0)
        try:
            return _default(kind, text.default)
        except ValueError:
            raise ProtobufError(f"a default of the type {kind} for the field {text.name}, got {text.default}") from None


def _default(kind: str, text: str) -> bool | int | float | str:
    match kind:
        case "bool":
            return text == "true"
        case "string" | "bytes":
            return text
        case "float" | "double":
            return float(text)
    return int(text, 8 if text.lstrip("-").startswith("0") and text.lstrip("-").isdigit() and text != "0" else 0)


def _full(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _order(file: FileText) -> Iterator[tuple[tuple[int, ...], str]]:
    def walk(scope: str, messages: list[MessageText], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
        for index, message in enumerate(messages):
            name = _full(scope, message.name)
            yield (*path, index), name
            yield from walk(name, message.messages, (*path, index))

    yield from walk(file.package, file.messages, ())
