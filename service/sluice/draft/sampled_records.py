"""The sample of a topic: the format and the envelope of its records, their attributes, and the roles of these."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.draft.csv_sample import csv_rows, numbers_of
from sluice.draft.envelopes import CONNECT, DEBEZIUM, NO_ENVELOPE, UPSERT, Envelope, envelope_of
from sluice.draft.name_words import MIN_RECORDS
from sluice.draft.record_tree import Path as Steps
from sluice.draft.record_tree import places
from sluice.draft.roles import NO_KEY, RecordKey, best_time, group_of, may_be_key, metric_of, record_key, with_metric
from sluice.draft.sampled_attributes import HEADER, KEY, Attribute, Document, attributes_of, without_other_numbers
from sluice.draft.value_forms import NUMBER, Form
from sluice.model.errors import AS_WRITTEN, SluiceError
from sluice.wire.formats.protobuf_format import ProtobufOptions

if TYPE_CHECKING:
    from sluice.draft.schema_sample import SchemaSample

#: the first byte of a record of Confluent's wire format; the id of a schema follows in four bytes
MAGIC, PREFIX = b"\x00", 5
#: the key of a stream with the schema of its records in Avro
AVRO_SCHEMA = "avro_schema"
#: registries count the ids of schemas from 1 or 100,001 on; a larger number is no id, and the record has another format
MAX_ID = 1 << 24
#: characters of a record in a message
MAX_SHOWN = 60
#: the beginning of the headers that are attributes of a CloudEvent
CLOUD_EVENT = "ce_"
#: the attribute of records that are numbers
NUMBERS = "value"
#: the attribute that is the whole record, by the kind of the record
WHOLES = {list: "items", str: "text", dict: "object"}
#: the beginning of the headers of the service itself
OWN = "sluice-"
#: how a text begins that is probably JSON with a mistake, and neither a row of CSV nor a line such as "[INFO] started"
JSON_BEGIN = re.compile(r'\s*(\{|\[\s*[\[{"])')
#: whole numbers that may be beyond 64 bits, which orjson reads as float64
WIDE = re.compile(rb"\d{19}")


class DraftError(SluiceError):
    """The records of a topic do not suffice to draft a pipeline file."""


class Sampled(NamedTuple):
    """A record: its value, its key, None if it has none, and its headers. A record without a value is a tombstone.

    partition  its topic partition
    at         its timestamp in seconds; None if it is not known
    """

    value: bytes | None
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int = 0
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """The common traits of the sampled records of a topic.

    format       the format of the records, as a pipeline file names it
    attributes   all attributes in the records, also attributes of types that no stream has
    headers      further headers of the records, which may be attributes
    group        the attributes by which the records may be grouped; empty if none are suitable
    records      the number of sampled records
    usable       the number of records from which the attributes were found
    unreadable   the number of records that the format cannot be
    tombstones   the number of records without a value
    unfit        the number of usable records with a value that the form of its attribute does not accept
    key          the key of the records
    envelope     what surrounds the rows in the values
    delimiter    what stands between the fields of CSV
    columns      the names of all fields of CSV, in their order, also of fields that are no attributes
    settings     the keys of the stream that name the schema, and their values
    origins      of each usable record its topic partition, and its timestamp in seconds; None if it is not known
    """

    format: str
    attributes: Sequence[Attribute]
    group: Sequence[Attribute]
    records: int
    usable: int
    unreadable: int = 0
    tombstones: int = 0
    unfit: int = 0
    key: RecordKey = NO_KEY
    envelope: Envelope = NO_ENVELOPE
    delimiter: str = ","
    columns: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    origins: Sequence[tuple[int, float | None]] = ()
    headers: Sequence[Attribute] = ()

    @property
    def usable_attributes(self) -> list[Attribute]:
        return [attribute for attribute in self.attributes if not attribute.problem]

    @property
    def time(self) -> Attribute | None:
        """The attribute that may be the event time."""
        return best_time(self.attributes, self.origins)


def sample(
    topic: str, records: Sequence[Sampled], registry: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> Sample:
    """The sample of these records, which has at least one attribute without a problem.

    `registry` has the properties of the schema registry; empty: there is none. `settings` are the keys of the stream
    that name a schema (`proto` or `descriptor`, `message`; `avro_schema`), if the user has named one. Raises DraftError
    if the records do not suffice, and RegistryError if the registry does not answer.
    """
    if not records:
        raise DraftError(f"the topic {topic} has no records; `sluice init` needs some to find their attributes")
    filled = [_Filled(record.value, *record[1:]) for record in records if record.value is not None]
    if not filled:
        problem = f"none of the {len(records)} sampled records of {topic} has a value"
        raise DraftError(f"{problem}: all are tombstones; `--last N` reads more records")
    framed = [record for record in filled if _is_framed(record.value)]
    if settings:
        common = _by_file(topic, filled, registry if 2 * len(framed) > len(filled) else {}, settings)
    else:
        common = _framed(topic, filled, registry) if 2 * len(framed) > len(filled) else _json(topic, filled)
    tombstones = len(records) - len(filled)
    whole = _as_upserts(common) if tombstones else common
    return replace(whole, records=len(records), tombstones=tombstones)


def _is_framed(value: bytes) -> bool:
    """Whether the value may be in Confluent's wire format: a zero byte, the id of a schema, and something behind it."""
    number = int.from_bytes(value[1:PREFIX], "big")
    return value.startswith(MAGIC) and len(value) > PREFIX and 0 < number < MAX_ID


class _Filled(NamedTuple):
    """A record with a value."""

    value: bytes
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    partition: int
    at: float | None


def _json(topic: str, records: Sequence[_Filled]) -> Sample:
    parsed = [(_parsed(record.value.removeprefix(BOM_UTF8)), record) for record in records]
    usual = Counter(type(document) for document, _ in parsed if isinstance(document, dict | list | str))
    kind = usual.most_common(1)[0][0] if usual else dict
    documents: list[tuple[Document, _Filled]] = [
        (document, record) for document, record in parsed if type(document) is kind
    ]
    if 2 * len(documents) <= len(records) and (text := _text_sample(topic, records)):
        return text
    if not documents:
        raise DraftError(_no_objects(topic, records))
    envelope = envelope_of([document for document, _ in documents])
    rows = [(row, record) for document, record in documents if (row := envelope.row(document)) is not None]
    if not rows:
        all_gone = f"none of the {len(documents)} sampled changes of {topic} has a row behind it"
        raise DraftError(f"{all_gone}, as all delete one; `--last N` reads more records")
    listed = envelope.attributes([document for document, _ in documents], [row for row, _ in rows])
    named = [attribute if attribute.path else replace(attribute, name=WHOLES[kind]) for attribute in listed]
    unreadable = len(records) - len(documents)
    drafted = _sample(topic, "json", named, rows, unwrapped=envelope.word == DEBEZIUM)
    return replace(drafted, envelope=envelope, unreadable=unreadable)


def _text_sample(topic: str, records: Sequence[_Filled]) -> Sample | None:
    """The sample of records that are rows of CSV or lines of text; None if they are neither, or JSON."""
    texts = [text for record in records if (text := _text(record.value)) is not None]
    if len(texts) < len(records) or any(map(JSON_BEGIN.match, texts)):
        return None
    table = csv_rows(texts)
    if table is None:
        line = _number(texts) if all(map(NUMBER.fullmatch, texts)) else _line(texts)
        lines: list[tuple[Document, _Filled]] = [
            ({line.name: text}, record) for text, record in zip(texts, records, strict=True)
        ]
        return _sample(topic, "text", [line], lines)
    rows = [(row, record) for row, record in zip(table.rows, records, strict=True) if row is not None]
    listed = [_field(attribute) for attribute in attributes_of(places([row for row, _ in rows]))]
    unreadable = len(records) - len(rows)
    columns = [attribute.name for attribute in listed]
    drafted = _sample(topic, "csv", listed, rows)
    return replace(drafted, delimiter=table.delimiter, columns=columns, unreadable=unreadable)


def _field(attribute: Attribute) -> Attribute:
    """The attribute of a field of CSV. Fields of several kinds are texts."""
    mixed = attribute.form is not None and attribute.form.is_text
    form = Form("string", words=attribute.form.words) if mixed and attribute.form else attribute.form
    return replace(attribute, path=(attribute.name,), form=form)


def _number(texts: Sequence[str]) -> Attribute:
    (attribute,) = attributes_of(places([{NUMBERS: text} for text in numbers_of(texts)]))
    return replace(attribute, path=(attribute.name,))


def _line(texts: Sequence[str]) -> Attribute:
    return Attribute("line", ("line",), Form("string"), texts, range(len(texts)), len(texts))


def _framed(topic: str, records: Sequence[_Filled], registry: Mapping[str, str]) -> Sample:
    """The sample of records with the ids of their schemas."""
    framed = [record for record in records if _is_framed(record.value)]
    if not registry:
        number = int.from_bytes(framed[0].value[1:PREFIX], "big")
        problem = f"the records of {topic} have a schema of a registry (id {number})"
        raise DraftError(f"{problem}; name the registry: --registry url=http://HOST:PORT")
    from sluice.draft.schema_sample import format_of, registry_sample  # noqa: PLC0415 - it imports compiled kernels

    values = [record.value for record in framed]
    form = format_of(values, registry)
    if form == "json-confluent":
        drafted = _json(topic, [record._replace(value=record.value[PREFIX:]) for record in framed])
        return replace(drafted, format=form, unreadable=drafted.unreadable + len(records) - len(framed))
    return _of_schema(topic, records, framed, registry_sample(values, registry, form), form, registry)


def _by_file(
    topic: str, records: Sequence[_Filled], registry: Mapping[str, str], settings: Mapping[str, str]
) -> Sample:
    """The sample of records of a schema that the user names, with the ids of a registry or without."""
    from sluice.draft.schema_sample import file_sample, options_of  # noqa: PLC0415 - it imports compiled kernels

    form = f"{'avro' if AVRO_SCHEMA in settings else 'protobuf'}{'-confluent' if registry else ''}"
    options = options_of(settings, form, _Finder())
    by_schema = file_sample([record.value for record in records], form, options, registry)
    message = {"message": options.message} if isinstance(options, ProtobufOptions) else {}
    return replace(_of_schema(topic, records, records, by_schema, form, registry), settings={**settings, **message})


class _Finder:
    """Makes an error of what is wrong with the schema that the user names."""

    folder = Path()

    def problem(self, key: str, expected: str, got: str | None = None) -> None:
        raise DraftError(f"--{key}: expected {expected}{f', got {got}' if got and got != AS_WRITTEN else ''}")


def _of_schema(  # noqa: PLR0917 - what is known of the records
    topic: str, records: Sequence[_Filled], framed: Sequence[_Filled], by_schema: SchemaSample, form: str,
    registry: Mapping[str, str],
) -> Sample:  # fmt: skip
    rows = [
        (document, record) for document, record in zip(by_schema.documents, framed, strict=True) if document is not None
    ]
    if not rows:
        why = by_schema.reason or "none has a row, as all are deletions"
        raise DraftError(f"no sampled record of {topic} can be read with its schema: {why}")
    keys = _keys_of_schemas([record.key for _, record in rows], registry)
    common = _sample(topic, form, by_schema.attributes, rows, keys)
    return replace(common, envelope=by_schema.envelope, unreadable=len(records) - len(rows) - by_schema.rowless)


def _keys_of_schemas(keys: Sequence[bytes | None], registry: Mapping[str, str]) -> list[Document | None] | None:
    """The keys that are records of Avro with the ids of their schemas; None if most keys are no such records."""
    from sluice.draft.schema_sample import registry_keys  # noqa: PLC0415 - it imports compiled kernels

    framed = [key if key is not None and _is_framed(key) else None for key in keys]
    if not registry or 2 * framed.count(None) >= len(keys):
        return None
    return registry_keys(framed, registry)


def _sample(
    topic: str, form: str, listed: list[Attribute], rows: Sequence[tuple[Document, _Filled]],
    keys: Sequence[Document | None] | None = None, *, unwrapped: bool = False,
) -> Sample:  # fmt: skip
    """The sample of these rows. `keys`: the keys if they have schemas of the registry; `unwrapped`: whether the stream
    reads what is in the block with the schema of a key.
    """
    if all(attribute.problem for attribute in listed):
        why = "; ".join(f"{attribute.name}: {attribute.problem}" for attribute in listed) or "they are empty objects"
        raise DraftError(f"no attribute of the records of {topic} can become an attribute of a stream ({why})")
    if keys is None:
        key = _record_key(listed, [record.key for _, record in rows], unwrapped=unwrapped)
    else:
        key = record_key(listed, keys)._replace(format="avro-confluent")
    listed = without_other_numbers(listed)
    headers = _headers([record for _, record in rows], listed)
    events = [header for header in headers if str(header.path[0]).startswith(CLOUD_EVENT)]
    attributes = [*listed, *events]
    metric = metric_of(attributes)
    grouping = group_of([attribute for attribute in attributes if attribute is not metric])
    value_key = [grouping] if grouping else []
    groups = key.attributes and all(map(may_be_key, key.attributes))
    if groups and (_group_records(key.attributes) or (key.in_value and not (value_key and _all_differ(key)))):
        group = key.attributes
        attributes += [] if key.in_value else key.attributes
    else:
        group = value_key
    group = with_metric(group, metric)
    unfit = len({row for attribute in attributes if not attribute.problem for row, _ in attribute.unfit})
    origins = [(record.partition, record.at) for _, record in rows]
    others = [header for header in headers if header not in events]
    return Sample(form, attributes, group, len(rows), len(rows), unfit=unfit, key=key, origins=origins, headers=others)


def _as_upserts(sample: Sample) -> Sample:
    """The sample of a topic with tombstones: a stream of upserts, if its key can be read. An attribute that is not at
    the same place in the key and in the value is read from the key, which a deletion has, too.
    """
    if sample.envelope.word not in ("", CONNECT) or not sample.key.attributes:
        return sample
    paths = zip(sample.key.attributes, sample.key.paths, strict=True)
    moved = {attribute.name: _from_key(attribute, path) for attribute, path in paths}
    kept, group = (
        [moved.get(attribute.name, attribute) for attribute in listed] for listed in (sample.attributes, sample.group)
    )
    names = {attribute.name for attribute in kept}
    missing = [attribute for name, attribute in moved.items() if name not in names]
    key = sample.key._replace(attributes=list(moved.values()))
    envelope = Envelope(UPSERT, sample.envelope.schema)
    return replace(sample, envelope=envelope, attributes=[*kept, *missing], group=group, key=key)


def _from_key(attribute: Attribute, path: Steps) -> Attribute:
    """The attribute, read at this path of the key if it has another path in the value."""
    if attribute.part == KEY or path in ((), attribute.path):
        return attribute
    return replace(attribute, part=KEY, path=path)


def _group_records(key: Sequence[Attribute]) -> bool:
    """Whether most of the keys are those of several records."""
    combined = list(zip(*(attribute.values for attribute in key), strict=False))
    return 1 < len(set(map(str, combined))) <= len(combined) // 2


def _all_differ(key: RecordKey) -> bool:
    """Whether each record has a key of its own, as events with an id have."""
    combined = [str(values) for values in zip(*(attribute.values for attribute in key.attributes), strict=False)]
    return len(combined) >= MIN_RECORDS and len(set(combined)) == len(combined)


def _headers(records: Sequence[_Filled], taken: Sequence[Attribute]) -> list[Attribute]:
    """The headers with texts, without the headers of the service and headers named like an attribute."""
    documents = [
        {name: text for name, value in record.headers if (text := _text(value)) is not None} for record in records
    ]
    if not any(documents):
        return []
    names = {attribute.name for attribute in taken}
    headers = attributes_of([place for place in places(documents) if place.path], HEADER)
    return [header for header in headers if header.name not in names and not str(header.path[0]).startswith(OWN)]


def _parsed(text: bytes) -> Any:  # noqa: ANN401 - a JSON value
    """The JSON value, with whole numbers of any size; None if it is none."""
    try:
        document = orjson.loads(text)
    except ValueError:
        return None
    return json.loads(text) if WIDE.search(text) else document


def _text(text: bytes | None) -> str | None:
    """The bytes as a text; None if they are no text that can be printed, tabs apart."""
    try:
        decoded = text.decode() if text is not None else ""
    except ValueError:
        return None
    return decoded if decoded.replace("\t", "").isprintable() and text is not None else None


def _record_key(listed: Sequence[Attribute], keys: Sequence[bytes | None], *, unwrapped: bool) -> RecordKey:
    """The key of the records: JSON objects, or else texts. In a block with a schema it has a path of its own, unless
    the stream reads what is `unwrapped`.
    """
    texts = [_text(key) for key in keys]
    objects = [_parsed(text.encode()) if text else None for text in texts]
    if not all(isinstance(document, dict) for document, text in zip(objects, texts, strict=True) if text is not None):
        return record_key(listed, texts)
    blocks = [document is None or _is_block(document, plain=not unwrapped) for document in objects]
    if not unwrapped and not all(blocks):
        return record_key(listed, objects)
    rows = [
        document["payload"] if document and block else document for document, block in zip(objects, blocks, strict=True)
    ]
    key = record_key(listed, rows)
    return key if unwrapped or key == NO_KEY or not any(objects) else _in_block(key)


def _is_block(document: Mapping[str, Any], *, plain: bool) -> bool:
    """Whether it is a schema with a payload: an object, or with `plain` also a text or a number."""
    types = (dict, str, int) if plain else (dict,)
    return document.keys() == {"schema", "payload"} and isinstance(document["payload"], types)


def _in_block(key: RecordKey) -> RecordKey:
    """The key with the paths of its attributes in the block with the schema."""
    attributes = [
        replace(attribute, path=("payload", *attribute.path)) if attribute.part == KEY else attribute
        for attribute in key.attributes
    ]
    return key._replace(attributes=attributes, json=True, named=False, paths=[("payload", *path) for path in key.paths])


def _no_objects(topic: str, records: Sequence[_Filled]) -> str:
    shown = records[0].value[:MAX_SHOWN].decode(errors="backslashreplace")
    problem = f"none of the {len(records)} sampled records of {topic} is a JSON object"
    return f"{problem}; the first one begins with {json.dumps(shown)}. docs/formats.md has the other formats"
