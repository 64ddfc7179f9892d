"""The sample of a topic: the format of its records, their attributes, and the attribute that groups them."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import orjson

from sluice.columns.json_columns import fits
from sluice.draft.sampled_attributes import (
    Attribute,
    Document,
    as_drafted,
    group_attribute,
    json_attributes,
    key_attribute,
    unused_key_name,
    with_key,
)
from sluice.model.errors import SluiceError
from sluice.model.types import FLOAT64, TIMESTAMP

#: the first byte of a record of Confluent's wire format; the id of a schema follows in four bytes
MAGIC, PREFIX = b"\x00", 5
#: registries count the ids of schemas from 1 or 100,001 on; a larger number is no id, and the record has another format
MAX_ID = 1 << 24
#: characters of a record in a message
MAX_SHOWN = 60


class DraftError(SluiceError):
    """The records of a topic do not suffice to draft a pipeline file."""


class Sampled(NamedTuple):
    """A record: its value and its key, None if it has none. A record without a value is a tombstone."""

    value: bytes | None
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What the sampled records of a topic have in common.

    format      the format of the records, as a pipeline file names it
    attributes  all attributes found, also those of unsupported types
    group       the attribute by which the records may be grouped; None if none is suitable
    records     the number of sampled records
    usable      the number of records from which the attributes were found
    tombstones  the number of records without a value
    unfit       the number of usable records with a value that the type of its attribute does not accept
    key         the attribute that holds the key of the record, or a name for one; None if the keys are no texts
    """

    format: str
    attributes: Sequence[Attribute]
    group: str | None
    records: int
    usable: int
    tombstones: int = 0
    unfit: int = 0
    key: str | None = None


def sample(topic: str, records: Sequence[Sampled], registry: Mapping[str, str]) -> Sample:
    """The sample of these records, which has at least one attribute without a problem.

    `registry` has the properties of the schema registry; empty: there is none. Raises DraftError if the records do not
    suffice, and RegistryError if the registry does not answer.
    """
    if not records:
        raise DraftError(f"the topic {topic} has no records; `sluice init` needs some to find their attributes")
    filled = [_Filled(record.value, record.key) for record in records if record.value is not None]
    if not filled:
        none = f"none of the {len(records)} sampled records of {topic} has a value"
        raise DraftError(f"{none}: all are tombstones; `--last N` reads more records")
    framed = [record for record in filled if _is_framed(record.value)]
    common = _avro(topic, framed, registry) if 2 * len(framed) > len(filled) else _json(topic, filled)
    return replace(common, records=len(records), tombstones=len(records) - len(filled))


def _is_framed(value: bytes) -> bool:
    """Whether the value may be in Confluent's wire format: a zero byte, the id of a schema, and something behind it."""
    number = int.from_bytes(value[1:PREFIX], "big")
    return value.startswith(MAGIC) and len(value) > PREFIX and 0 < number < MAX_ID


class _Filled(NamedTuple):
    """A record with a value."""

    value: bytes
    key: bytes | None


def _json(topic: str, records: Sequence[_Filled]) -> Sample:
    documents = [(document, record) for record in records if (document := _document(record.value)) is not None]
    if not documents:
        raise DraftError(_no_objects(topic, records))
    attributes = json_attributes([document for document, _ in documents])
    return _sample(topic, "json", attributes, documents)


def _avro(topic: str, framed: Sequence[_Filled], registry: Mapping[str, str]) -> Sample:
    if not registry:
        number = int.from_bytes(framed[0].value[1:PREFIX], "big")
        problem = f"the records of {topic} have a schema of a registry (id {number})"
        raise DraftError(f"{problem}; name the registry: --registry url=http://HOST:PORT")
    from sluice.draft.avro_sample import avro_sample  # noqa: PLC0415 - it imports compiled kernels

    attributes, documents, reason = avro_sample([record.value for record in framed], registry)
    rows = [(document, record) for document, record in zip(documents, framed, strict=True) if document is not None]
    if not rows:
        raise DraftError(f"no sampled record of {topic} can be read with its schema: {reason}")
    return _sample(topic, "avro-confluent", attributes, rows)


def _sample(topic: str, form: str, listed: list[Attribute], rows: Sequence[tuple[Document, _Filled]]) -> Sample:
    if all(attribute.problem for attribute in listed):
        why = "; ".join(f"{attribute.name}: {attribute.problem}" for attribute in listed) or "they are empty objects"
        raise DraftError(f"no attribute of the records of {topic} can become an attribute of a stream ({why})")
    documents, keys = [document for document, _ in rows], [_text(record.key) for _, record in rows]
    seconds = TIMESTAMP if form == "json" else FLOAT64  # a long of Avro is no timestamp without a logical type
    listed = [as_drafted(attribute, seconds) for attribute in listed]
    attributes = with_key(listed, documents, keys)
    group = group_attribute(attributes, documents, keys)
    key = next((attribute.name for attribute in attributes if attribute.in_key), None) or key_attribute(
        listed, documents, keys
    )
    if key is None and None not in keys:
        key = unused_key_name(attributes)
    return Sample(form, attributes, group, len(rows), len(rows), unfit=_unfit(attributes, documents), key=key)


def _unfit(attributes: Sequence[Attribute], documents: Sequence[Document]) -> int:
    """The number of documents with a value that the type of its attribute does not accept."""
    typed = [
        (attribute.name, attribute.type)
        for attribute in attributes
        if attribute.unfit and not attribute.problem and attribute.type is not None
    ]
    return sum(
        any(document.get(name) is not None and not fits(document[name], type_) for name, type_ in typed)
        for document in documents
    )


def _document(value: bytes) -> Document | None:
    try:
        document = orjson.loads(value.removeprefix(BOM_UTF8))
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _text(key: bytes | None) -> str | None:
    """The key as a text; None if it is no text."""
    try:
        text = key.decode() if key is not None else ""
    except ValueError:
        return None
    return text if text.isprintable() and key is not None else None


def _no_objects(topic: str, records: Sequence[_Filled]) -> str:
    shown = records[0].value[:MAX_SHOWN].decode(errors="backslashreplace")
    problem = f"none of the {len(records)} sampled records of {topic} is a JSON object"
    return f"{problem}; the first one begins with {json.dumps(shown)}. docs/formats.md has the other formats"
