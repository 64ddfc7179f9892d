"""The formats protobuf and protobuf-confluent: a record is one message. The codec is wire/protobuf/.

protobuf            the records have no schema; the pipeline file has it, as `proto` or as `descriptor`
protobuf-confluent  each record begins with the id of its schema in a schema registry and the path of its message in
                    that schema (wire/confluent.py)
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from sluice.files import read_file
from sluice.model.members import nested, paths_of
from sluice.model.protobuf.proto_descriptor import files_of, read_descriptor
from sluice.model.protobuf.proto_file import ProtobufError
from sluice.model.protobuf.proto_fit import (
    attributes_of,
    check_reading,
    check_writing,
    message_name,
    message_of,
    missing,
    schema_of,
)
from sluice.model.protobuf.proto_schema import PROVIDED, Protobuf, ProtoMessage, Source, file_of, parse
from sluice.model.spec import FormatOptions
from sluice.model.types import Schema
from sluice.wire.formats.avro_format import NAME, NoRegistryClientError
from sluice.wire.formats.format_contract import Codec, Finder, Format, FormatKey, Part

PROTO, DESCRIPTOR, MESSAGE = "proto", "descriptor", "message"
KEYS = {
    PROTO: FormatKey(
        "`.proto` file", str | None,
        Field(
            None,
            description="For `protobuf` and `protobuf-confluent`: the path of the `.proto` file with the message, from "
            "the pipeline file. Files that it imports are looked up from its own folder and the folders above.",
            examples=["order.proto"],
        ),
        of_key="As `proto` of a stream.",
    ),
    DESCRIPTOR: FormatKey(
        "descriptor file", str | None,
        Field(
            None,
            description="For `protobuf` and `protobuf-confluent`: in place of `proto`, the path of a "
            "FileDescriptorSet (`protoc --include_imports --descriptor_set_out=FILE`).",
            examples=["order.desc"],
        ),
        of_key="As `descriptor` of a stream.",
    ),
    MESSAGE: FormatKey(
        "message", str | None,
        Field(
            None,
            description="For `protobuf` and `protobuf-confluent`: the name of the message, with its package. Not "
            "needed if the file has one.",
            examples=["shop.Order"],
        ),
        of_key="As `message` of a stream.",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProtobufOptions(FormatOptions):
    """The files with the schema, the main one last, and the full name of the message. Without files, the schema is
    that of each record, or for an output one that is derived from the attributes.
    """

    message: str = ""
    files: tuple[Source, ...] = ()


class ProtobufConfluentFormat(Format):
    """protobuf-confluent."""

    keys = KEYS
    in_keys = True
    has_paths = True
    lists_pairs = True
    needs_registry = True
    schema_keys = (PROTO, DESCRIPTOR)

    def options(self, values: Mapping[str, Any], finder: Finder) -> ProtobufOptions:
        name = values.get(MESSAGE) or ""
        key = PROTO if values.get(PROTO) is not None else DESCRIPTOR
        if values.get(PROTO) is not None and values.get(DESCRIPTOR) is not None:
            finder.problem(DESCRIPTOR, "no descriptor file, as `proto` has the schema")
        if values.get(key) is None:
            return ProtobufOptions(name)
        try:
            files = _proto(values[key], finder) if key == PROTO else _descriptor(values[key], name, finder)
            proto = parse(files)
        except OSError as error:
            finder.problem(key, f"a file that can be read ({error.strerror})", str(error.filename or values[key]))
        except (ProtobufError, UnicodeDecodeError) as error:
            finder.problem(key, str(error) if isinstance(error, ProtobufError) else "a text in UTF-8")
        else:
            return ProtobufOptions(_message(proto, name, finder), files)
        return ProtobufOptions(name)

    def attributes(self, options: ProtobufOptions, finder: Finder) -> Schema | None:
        schema = _schema(options)
        try:
            return None if schema is None else attributes_of(*schema)
        except ProtobufError as error:
            finder.problem("schema", str(error), None)
            return None

    def check(self, part: Part, finder: Finder) -> None:
        schema = _schema(part.options)
        if schema is not None:
            _check_fields(*schema, part, finder)
        elif part.written and not part.options.files:
            _check_names(part, finder)

    def codec(self, part: Part) -> Codec:
        try:
            from sluice.wire.protobuf.proto_confluent import ProtobufConfluent  # noqa: PLC0415 - compiled kernels
            from sluice.wire.schema_registry import registry  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise NoRegistryClientError.of(error) from None

        options = part.options
        files = options.files or ((f"{part.subject}.proto", _generated(part)),)
        message = options.message if options.files else message_name(part.subject)
        confluent = ProtobufConfluent(
            part.schema, registry(part.registry), part.subject, files, message, part.defaults, options.message,
            reads_by=bool(options.files), members=part.members,
        )  # fmt: skip
        return Codec(confluent.decode, confluent.encode, confluent.refused)


class ProtobufFormat(ProtobufConfluentFormat):
    """protobuf. The pipeline file must have the schema."""

    needs_registry = False

    def options(self, values: Mapping[str, Any], finder: Finder) -> ProtobufOptions:
        if values.get(PROTO) is None and values.get(DESCRIPTOR) is None:
            finder.problem(PROTO, "a .proto file, or `descriptor`, as the format is protobuf", None)
        return super().options(values, finder)

    def check(self, part: Part, finder: Finder) -> None:
        if part.options.files:
            super().check(part, finder)

    def codec(self, part: Part) -> Codec:
        from sluice.wire.protobuf.proto_read import Reader  # noqa: PLC0415 - it imports compiled kernels
        from sluice.wire.protobuf.proto_write import Writer  # noqa: PLC0415

        proto = parse(part.options.files)
        message = proto.messages[part.options.message]
        reader = cache(lambda: Reader.of(part.schema, proto, message, part.defaults, part.members))
        writer = cache(lambda: Writer.of(part.schema, proto, message, part.members))
        return Codec(
            lambda values: reader().read(values), lambda tuples: writer().write(tuples),
            lambda tuples: writer().refused(tuples),
        )  # fmt: skip


def _generated(part: Part) -> str:
    """The schema of records that are written; empty if the attributes can only be read, such as a list that is null."""
    try:
        return schema_of(part.subject, nested(part.schema, part.members))
    except ProtobufError:
        return ""


# ---- files -----------------------------------------------------------------------------------------------------------


def _proto(path: str, finder: Finder) -> tuple[Source, ...]:
    """The file at this path and the files that it imports, each behind the files that it needs itself."""
    main = finder.folder / path
    sources: dict[str, str] = {}
    _import(main.name, main, [finder.folder, *main.parents], sources)
    return tuple(sources.items())


def _import(name: str, file: Path, folders: list[Path], sources: dict[str, str]) -> None:
    """Implements PB1 of the reference."""
    text = read_file(file).decode("utf-8-sig")
    sources[name] = text  # a file that imports itself, directly or not, is read once
    for imported in file_of(name, text).imports:
        if imported not in sources and imported not in PROVIDED:
            path = next((place for folder in folders if (place := folder / imported).is_file()), None)
            if path is not None and path != file:
                _import(imported, path, folders, sources)
    sources[name] = sources.pop(name)


def _descriptor(path: str, message: str, finder: Finder) -> tuple[Source, ...]:
    """The files of a FileDescriptorSet; the last one is the file with the message, else the last one of the set."""
    files = files_of((finder.folder / path).read_bytes())
    sources = [(name, base64.b64encode(content).decode()) for name, content in files]
    main = next((at for at, (_, content) in enumerate(files) if message in _names(content)), len(files) - 1)
    needed = set(_needed(files[main][0], {name: read_descriptor(content).imports for name, content in files}))
    return (*(source for at, source in enumerate(sources) if source[0] in needed and at != main), sources[main])


def _names(content: bytes) -> list[str]:
    return list(parse((("", base64.b64encode(content).decode()),)).order.values())


def _needed(name: str, imports: Mapping[str, list[str]]) -> Iterator[str]:
    """The names of a file and of all files that it imports, directly or not."""
    names, seen = [name], set()
    while names:
        if (imported := names.pop()) not in seen:
            seen.add(imported)
            names += imports.get(imported, [])
    yield from seen


# ---- checks ----------------------------------------------------------------------------------------------------------


def _message(proto: Protobuf, name: str, finder: Finder) -> str:
    try:
        return message_of(proto, name).name
    except ProtobufError as error:
        finder.problem(MESSAGE, str(error), name or None)
        return ""


def _schema(options: ProtobufOptions) -> tuple[Protobuf, ProtoMessage] | None:
    """None if there is no schema, or if `options` has reported it."""
    if not options.files or not options.message:
        return None
    proto = parse(options.files)
    return proto, proto.messages[options.message]


def _check_fields(proto: Protobuf, message: ProtoMessage, part: Part, finder: Finder) -> None:
    paths = paths_of(part.schema, part.members)
    for path, (name, type_) in zip(paths, part.schema, strict=True):
        try:
            (check_writing if part.written else check_reading)(proto, message, path, type_)
        except ProtobufError as error:
            finder.problem(MESSAGE, f"a message with {error} (attribute {name})", message.name)
    lacking = missing(message, [str(path[0]) for path in paths]) if part.written else []
    if lacking:
        finder.problem(MESSAGE, f"an attribute for each required field ({', '.join(lacking)})", message.name)


def _check_names(part: Part, finder: Finder) -> None:
    for name in dict.fromkeys(str(step) for path in paths_of(part.schema, part.members) for step in path):
        if not NAME.fullmatch(name):
            finder.problem(PROTO, f"a schema, as Protobuf has no names like {name}", None)
            return
    try:
        schema_of("x", nested(part.schema, part.members))
    except ProtobufError as error:
        finder.problem(PROTO, f"a schema with {error}", None)
