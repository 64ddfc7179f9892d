"""Confluent's wire format for JSON: a zero byte, the id of a JSON Schema in four bytes, then JSON that follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

import jsonschema_rs
import numpy as np
import orjson
import pyarrow as pa

from sluice.model.errors import cut
from sluice.wire.confluent import PREFIX, Framed, frame
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded, in_order
from sluice.wire.formats.format_contract import Codec
from sluice.wire.json.json_schema import JsonSchemaError, check_comparisons, parse
from sluice.wire.schema_registry import JSON, Sources, UnknownSchemaError

#: characters of a message about a record that does not follow its schema, and of the path in the record
SHOWN = 200
#: steps of a regular expression after which it counts as not matching
BACKTRACKS = 100_000


@dataclass(frozen=True)
class JsonConfluent(Framed):
    """JSON.

    text       the schema that is written
    reads_by   whether records must follow `text`, else the schema that each of them names
    json       the codec of JSON without a prefix
    """

    text: str
    json: Codec
    reads_by: bool = False

    word = Reason.NOT_JSON

    def reader_of(self, number: int) -> Callable[[pa.BinaryArray], Decoded]:
        written = self.registry.sources(number, JSON)
        try:
            accepts = validator((("", self.text),) if self.reads_by else written)
        except JsonSchemaError as error:
            raise UnknownSchemaError(f"the schema {number} cannot be used: expected {error}") from None
        return lambda values: self._read(accepts, [value[PREFIX:] for value in values.to_pylist()])

    def _read(self, accepts: jsonschema_rs.Validator, contents: list[bytes]) -> Decoded:
        bad = {row: why for row, content in enumerate(contents) if (why := _problem(accepts, content))}
        values = pa.array(contents, pa.binary())
        if not bad:
            return self.json.decode(values)
        rows = np.setdiff1d(np.arange(len(values)), list(bad))
        decoded = self.json.decode(values.take(pa.array(rows))).at(rows)
        return in_order(decoded, Decoded(decoded.tuples.slice(0, 0), rows[:0], list(bad.items())))

    def encode(self, tuples: pa.RecordBatch) -> pa.BinaryArray:
        return frame(self.registry.id_of(self.subject, self.text, JSON), self.json.encode(tuples))


def _problem(accepts: jsonschema_rs.Validator, value: bytes) -> str | None:
    """Why a value does not follow the schema. None if it does, or if it is no JSON: its decoder says so."""
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if accepts.is_valid(document):
        return None
    error = next(accepts.iter_errors(document))
    path = "/".join(map(str, error.instance_path))
    return reason(Reason.NOT_VALID, f"/{cut(path, SHOWN)}: {cut(error.message, SHOWN)}")


def validator(sources: Sources) -> jsonschema_rs.Validator:
    """The validator of the last schema, which refers to the others. It requests nothing from the network.

    Raises JsonSchemaError.
    """
    *named, (_, text) = sources
    schema = parse(text)
    check_comparisons(schema)
    draft = isinstance(schema, dict) and "$schema" in schema
    make = jsonschema_rs.validator_for if draft else jsonschema_rs.Draft7Validator
    try:
        resources = list(_resources(schema, {name: parse(content) for name, content in named}))
        registry = jsonschema_rs.Registry(resources) if resources else None
        return make(schema, registry=registry, offline=True, validate_formats=False, pattern_options=PATTERNS)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise JsonSchemaError(f"a JSON Schema that can be used ({str(error).splitlines()[0]})") from None


PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS)


def _resources(schema: Any, named: Mapping[str, Any]) -> list[tuple[str, Any]]:  # noqa: ANN401 - JSON
    """Each schema that the main one refers to, by its name, and by the address of the name beside the main one."""
    base = schema.get("$id", "") if isinstance(schema, dict) else ""
    by_address = {urljoin(base, name): content for name, content in named.items()} if isinstance(base, str) else {}
    return list({**named, **by_address}.items())
