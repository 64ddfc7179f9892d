"""What the sampled records of a topic have in common: their format, their attributes, and what groups them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from sluice.draft.sampled_attributes import Attribute, Document, group_attribute, json_attributes, with_key
from sluice.model.errors import SluiceError

#: the first byte of a record of Confluent's wire format; the id of a schema follows in four bytes
MAGIC, PREFIX = b"\x00", 5
#: characters of a record in a message
MAX_SHOWN = 60


class DraftError(SluiceError):
    """The records of a topic do not suffice to draft a pipeline file."""


class Sampled(NamedTuple):
    """A record: its value and its key, None if it has none."""

    value: bytes
    key: bytes | None


@dataclass(frozen=True, slots=True)
class Sample:
    """What the sampled records of a topic have in common.

    format      their format in a pipeline file
    attributes  their attributes, those that a stream cannot have included
    group       the attribute by which they may be grouped, or None
    records     the number of sampled records
    usable      the number of those from which the attributes were found
    """

    format: str
    attributes: Sequence[Attribute]
    group: str | None
    records: int
    usable: int


def sample(topic: str, records: Sequence[Sampled], registry: Mapping[str, str]) -> Sample:
    """The sample of these records, which has at least one attribute without a problem.

    `registry` has the properties of the schema registry; empty: there is none. Raises DraftError if the records do not
    suffice, and RegistryError if the registry does not answer.
    """
    if not records:
        raise DraftError(f"the topic {topic} has no records; `sluice init` needs some to find their attributes")
    framed = [one for one in records if one.value.startswith(MAGIC) and len(one.value) > PREFIX]
    return _avro(topic, records, framed, registry) if 2 * len(framed) > len(records) else _json(topic, records)


def _json(topic: str, records: Sequence[Sampled]) -> Sample:
    documents = [(document, one) for one in records if (document := _document(one.value)) is not None]
    if not documents:
        raise DraftError(_no_objects(topic, records))
    found = json_attributes([document for document, _ in documents])
    return _sample(topic, "json", found, documents, len(records))


def _avro(topic: str, records: Sequence[Sampled], framed: Sequence[Sampled], registry: Mapping[str, str]) -> Sample:
    if not registry:
        number = int.from_bytes(framed[0].value[1:PREFIX], "big")
        what = f"the records of {topic} have a schema of a registry (id {number})"
        raise DraftError(f"{what}; name the registry: --registry url=http://HOST:PORT")
    from sluice.draft.avro_sample import avro_sample  # noqa: PLC0415 - it imports compiled kernels

    found, documents, reason = avro_sample([one.value for one in framed], registry)
    rows = [(document, one) for document, one in zip(documents, framed, strict=True) if document is not None]
    if not rows:
        raise DraftError(f"no sampled record of {topic} can be read with its schema: {reason}")
    return _sample(topic, "avro-confluent", found, rows, len(records))


def _sample(
    topic: str, form: str, found: list[Attribute], rows: Sequence[tuple[Document, Sampled]], records: int
) -> Sample:
    if all(one.problem for one in found):
        why = "; ".join(f"{one.name}: {one.problem}" for one in found) or "they are empty objects"
        raise DraftError(f"no attribute of the records of {topic} can become an attribute of a stream ({why})")
    documents, keys = [document for document, _ in rows], [_text(one.key) for _, one in rows]
    attributes = with_key(found, documents, keys)
    return Sample(form, attributes, group_attribute(attributes, documents, keys), records, len(rows))


def _document(value: bytes) -> Document | None:
    try:
        document = orjson.loads(value)
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


def _no_objects(topic: str, records: Sequence[Sampled]) -> str:
    shown = records[0].value[:MAX_SHOWN].decode(errors="backslashreplace")
    what = f"none of the {len(records)} sampled records of {topic} is a JSON object"
    return f"{what}; the first one begins with {json.dumps(shown)}. docs/formats.md has the other formats"
