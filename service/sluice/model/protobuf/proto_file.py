"""The definitions of a file of Protocol Buffers as they stand there: names of types are not resolved yet.

proto_text.py reads them from the text of a `.proto` file, proto_descriptor.py from a compiled descriptor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: a feature of an edition, such as `field_presence`, and its value, such as `IMPLICIT`
Features = dict[str, str]
#: the features of the syntax proto2, of proto3, and of each edition
PROTO2: Features = {
    "field_presence": "EXPLICIT", "enum_type": "CLOSED", "repeated_field_encoding": "EXPANDED",
    "message_encoding": "LENGTH_PREFIXED",
}  # fmt: skip
PROTO3: Features = PROTO2 | {"field_presence": "IMPLICIT", "enum_type": "OPEN", "repeated_field_encoding": "PACKED"}
EDITION: Features = PROTO3 | {"field_presence": "EXPLICIT"}
#: word behind `syntax =` -> its features
SYNTAXES: Mapping[str, Features] = {"proto2": PROTO2, "proto3": PROTO3}


class ProtobufError(ValueError):
    """A definition is wrong or does not fit. The message says what was expected."""


@dataclass(slots=True)
class FieldText:
    """A field. `type` is a word such as `int32`, or the name of a message or an enum, which begins with a point if it
    is complete. `label` is empty, `optional`, `required` or `repeated`.
    """

    name: str
    number: int
    type: str
    label: str = ""
    #: the oneof that it is a member of
    oneof: str = ""
    #: the default that proto2 declares, as text
    default: str | None = None
    #: the option `packed`; None: not given
    packed: bool | None = None
    group: bool = False
    features: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class EnumText:
    name: str
    values: list[tuple[str, int]] = field(default_factory=list)
    features: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class MessageText:
    name: str
    fields: list[FieldText] = field(default_factory=list)
    messages: list[MessageText] = field(default_factory=list)
    enums: list[EnumText] = field(default_factory=list)
    #: whether it is the entry of a map, with the fields `key` and `value`
    map_entry: bool = False
    features: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class FileText:
    """A file. `syntax` is `proto2`, `proto3` or, of an edition, its name. It has the messages and enums at the top."""

    name: str
    package: str = ""
    syntax: str = "proto2"
    imports: list[str] = field(default_factory=list)
    messages: list[MessageText] = field(default_factory=list)
    enums: list[EnumText] = field(default_factory=list)
    features: dict[str, str] = field(default_factory=dict)
