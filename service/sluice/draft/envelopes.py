"""What surrounds the rows in the values of records: Debezium's change events, and Connect's schema and payload."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.draft.record_tree import Path, Place, places
from sluice.draft.sampled_attributes import CHANGE, Attribute, Document, attributes_of
from sluice.draft.value_forms import EXACT, Form
from sluice.model.members import CONNECT_TIMES
from sluice.model.types import Type, optional_of, parse_type
from sluice.model.types.list_type import ListType
from sluice.model.types.optional_type import OptionalType
from sluice.model.types.struct_type import StructType

#: percent of the records that have an envelope; the others are heartbeats and the like
MIN_SHARE = 90
#: percent that are change events of Debezium; beside them there may be many heartbeats and other messages (EN6)
MIN_CHANGES = 50
#: the members of a change event
CHANGE_MEMBERS = {"op", "after"}
DEBEZIUM, CONNECT, UPSERT = "debezium", "connect", "upsert"


@dataclass(frozen=True, slots=True)
class Envelope:
    """The envelope of the rows.

    word    DEBEZIUM, CONNECT, UPSERT, or empty: the value of a record is the row
    schema  whether the values have a schema beside the payload
    """

    word: str = ""
    schema: bool = False

    def payload(self, document: Document) -> Any:  # noqa: ANN401 - a JSON value
        return document.get("payload") if self.schema else document

    def row(self, document: Document) -> Document | None:
        """The row in a document; None if it has none, as the deletion of a row. A document without an envelope may be
        a list.
        """
        if not self.word:
            return {"payload": document["payload"]} if self.schema else document
        payload = self.payload(document)
        row = payload.get("after") if self.word == DEBEZIUM and isinstance(payload, dict) else payload
        return row if isinstance(row, dict) else None

    def attributes(self, documents: Sequence[Document], rows: Sequence[Document]) -> list[Attribute]:
        """The attributes of the rows, and of a change event the operation and the time."""
        around: Path = ("payload",) if self.word == CONNECT else ()
        fields = dict(_fields(documents[0].get("schema") if self.schema else None, self.word))
        attributes = [
            replace(_by_schema(attribute, fields), path=(*around, *attribute.path))
            for attribute in attributes_of([place for place in places(rows) if place.path or not _is_object(place)])
        ]
        return [*attributes, *self.beside(documents, attributes)]

    def beside(self, documents: Sequence[Document], taken: Sequence[Attribute]) -> Iterator[Attribute]:
        """The attributes beside the row of a change event."""
        if self.word != DEBEZIUM:
            return
        events = [self.payload(document) for document in documents if self.row(document) is not None]
        time = ("source", "ts_ms") if all(_has_time(event) for event in events) else ("ts_ms",)
        names = {attribute.name for attribute in taken}
        for place in places(events):
            if place.path in (("op",), time) and place.values:
                name = "op" if place.path == ("op",) else "changed"
                form = Form("string" if name == "op" else "timestamp")
                free = f"change_{name}" if name in names else name
                yield Attribute(free, place.path, form, place.values, place.rows, place.documents, CHANGE)


NO_ENVELOPE = Envelope()


def envelope_of(documents: Sequence[Document]) -> Envelope:
    """The envelope that most of the documents have."""
    if not all(isinstance(document, dict) for document in documents):
        return NO_ENVELOPE
    schema = _most(documents, lambda document: document.keys() == {"schema", "payload"})
    payloads = [document.get("payload") if schema else document for document in documents]
    if _most(payloads, _is_change, MIN_CHANGES):
        return Envelope(DEBEZIUM, schema)
    if schema and _most(payloads, lambda row: isinstance(row, dict)):
        return Envelope(CONNECT, schema)
    return Envelope(schema=all(map(_is_scalar_of_connect, documents)))


def _is_scalar_of_connect(document: Document) -> bool:
    """Whether it is a schema of Connect beside a payload that is no object."""
    schema = document.get("schema")
    return document.keys() == {"schema", "payload"} and isinstance(schema, dict) and isinstance(schema.get("type"), str)


def _is_object(place: Place) -> bool:
    return any(isinstance(value, dict) for value in place.values)


def _has_time(event: Mapping[str, Any]) -> bool:
    """Whether it has the time of the change; in a snapshot it may be 0."""
    source = event.get("source")
    return isinstance(source, dict) and isinstance(time := source.get("ts_ms"), int) and time > 0


def _most(documents: Sequence[Any], holds: Callable[[Any], bool], share: int = MIN_SHARE) -> bool:
    return 100 * sum(map(holds, documents)) >= share * len(documents)


def _is_change(payload: object) -> bool:
    """Whether it is a change event whose rows are objects; the rows of MongoDB are texts."""
    if (
        not isinstance(payload, dict)
        or not payload.keys() >= CHANGE_MEMBERS
        or not {"before", "source"} & payload.keys()
    ):
        return False
    return all(isinstance(payload.get(image), dict | None) for image in ("before", "after"))


def _fields(schema: object, word: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The fields of a row by their paths, also those in structs, from Connect's schema."""
    for field in _of_struct(schema):
        if word != DEBEZIUM:
            yield from _with_inside(field)
        elif field.get("field") == "after":
            yield from _fields(field, "")


def _of_struct(schema: object) -> list[dict[str, Any]]:
    listed = schema.get("fields") if isinstance(schema, dict) else None
    return [field for field in listed or () if isinstance(field, dict)]


def _with_inside(field: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The field, and the fields in it; one in a struct that may be null may be null, too."""
    name, nullable = str(field.get("field")), bool(field.get("optional"))
    yield (name,), field
    for inner in _of_struct(field):
        yield from (
            ((name, *path), {**leaf, "optional": nullable or leaf.get("optional")})
            for path, leaf in _with_inside(inner)
        )


def _by_schema(attribute: Attribute, fields: Mapping[Path, Mapping[str, Any]]) -> Attribute:
    """The attribute as the schema says: which texts are decimals, which numbers are times, and what may be null."""
    field = fields.get(attribute.path)
    if field is None:
        return _as_member_of_map(attribute) if _in_map(attribute.path, fields) else attribute
    form = _logical(str(field.get("name")), field, attribute) or _with_nulls(field, attribute.form)
    if field.get("optional") and form is not None:
        return replace(attribute, form=form.without_inside, absence="may be null")
    return replace(attribute, form=form)


def _in_map(path: Path, fields: Mapping[Path, Mapping[str, Any]]) -> bool:
    around = (fields.get(path[:length], {}) for length in range(1, len(path)))
    return any(field.get("type") == "map" for field in around)


def _as_member_of_map(attribute: Attribute) -> Attribute:
    """The attribute of a key that is in the map of each sampled record. Others may lack it."""
    return replace(attribute, form=attribute.form and attribute.form.without_inside, absence="a map may lack it")


def _with_nulls(field: Mapping[str, Any], form: Form | None) -> Form | None:
    """The form; its items, values and members may be null if the schema says so. One with options inside stays."""
    if form is None or form.inside or form.pairs:
        return form
    type_ = parse_type(form.type)
    return replace(form, type=str(_nullable(type_, field))) if type_.parts else form


def _nullable(type_: Type, schema: Mapping[str, Any]) -> Type:
    if isinstance(type_, OptionalType):
        return optional_of(_nullable(type_.present, schema))
    parts = [_part(part, inner) for part, inner in zip(type_.parts, _inside(type_, schema), strict=True)]
    return type_.with_parts(parts) if parts else type_


def _part(type_: Type, schema: Mapping[str, Any]) -> Type:
    inner = _nullable(type_, schema)
    return optional_of(inner) if schema.get("optional") else inner


def _inside(type_: Type, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schemas of the parts of a list, a map or a struct; empty ones where the schema has another type."""
    if isinstance(type_, StructType):
        members = {field.get("field"): field for field in _of_struct(schema)}
        return [members.get(name, {}) for name, _ in type_.members]
    inner = [schema.get("items")] if isinstance(type_, ListType) else [{}, schema.get("values")]
    return [part if isinstance(part, dict) else {} for part in inner[: len(type_.parts)]]


def _logical(name: str, field: Mapping[str, Any], attribute: Attribute) -> Form | None:
    """The form of a logical type; None if the values say enough."""
    if name in CONNECT_TIMES and attribute.form is not None and attribute.form.type in ("int64", "timestamp"):
        return Form("timestamp", unit=CONNECT_TIMES[name])
    type_ = EXACT[name](field) if name in EXACT and attribute.form is not None else ""
    base64 = all(isinstance(value, str) for value in attribute.values)
    return Form(type_, base64=base64) if type_ else None
