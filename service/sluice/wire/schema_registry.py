"""A client of the schema registry (Confluent's API): gets schemas by id, and the ids of schemas for writing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from sluice.model.avro_schema import Avro, AvroError, parse
from sluice.model.errors import SluiceError

T = TypeVar("T")
#: schemas with the names by which others refer to them; the last one has no name
Sources = tuple[tuple[str, str], ...]
#: the kinds of schemas, and how messages name them
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
SHOWN = {AVRO: "Avro", PROTOBUF: "Protobuf", JSON: "JSON Schema"}

NOT_FOUND = 404
#: seconds that one request may take; the client tries a failed request three times more
TIMEOUT = 10.0
#: the most schemas, and the most ids, that are cached
KEPT = 1000
#: the name of a property in the pipeline file -> the function that converts its text for the client
READ: dict[str, Callable[[str], Any]] = {"timeout": float, "max.retries": int, "retries.wait.ms": int}
#: a property of Confluent's serializers, not of the client: whether a new schema is registered
REGISTERS = "auto.register.schemas"


class RegistryError(SluiceError):
    """The registry is not available or refuses a request. The cause is not in the records."""

    exit_code = 3


class UnknownSchemaError(LookupError):
    """The registry has no schema with this id, or it cannot be used."""


class Registry:
    """A schema registry, with a cache of its answers."""

    def __init__(self, properties: tuple[tuple[str, str], ...]) -> None:
        settings: dict[str, Any] = {name: READ.get(name, str)(value) for name, value in properties}
        self._registers = settings.pop(REGISTERS, "true") == "true"
        self._url = settings["url"]
        self._client = SchemaRegistryClient({"timeout": TIMEOUT, "retries.max.wait.ms": 5000} | settings)
        self.sources = lru_cache(KEPT)(self._sources)
        self.schema = lru_cache(KEPT)(self._schema)
        self.kind = lru_cache(KEPT)(self._kind)
        self.id_of = lru_cache(KEPT)(self._id_of)

    def _kind(self, number: int) -> str | None:
        """The kind of the schema with this id, None if there is none. Raises RegistryError."""
        schema = self._answer_of(lambda: self._client.get_schema(number))
        return None if schema is None else schema.schema_type or AVRO

    def _schema(self, number: int) -> Avro:
        """The Avro schema with this id. Raises UnknownSchemaError and RegistryError; errors are not cached."""
        *references, main = (text for _, text in self.sources(number, AVRO))
        try:
            return parse(main, tuple(references))
        except AvroError as error:
            raise UnknownSchemaError(f"the schema {number} cannot be used: expected {error}") from None

    def _sources(self, number: int, kind: str) -> Sources:
        """The names and the texts of the schemas that the schema with this id refers to, each behind those that it
        needs itself, then its own. Raises UnknownSchemaError and RegistryError; errors are not cached.
        """
        schema = self._answer_of(lambda: self._client.get_schema(number))
        if schema is None:
            raise UnknownSchemaError(f"the registry has no schema {number}")
        if (schema.schema_type or AVRO) != kind:
            raise UnknownSchemaError(f"the schema {number} is {schema.schema_type or AVRO}, not {SHOWN[kind]}")
        return (*self._references(schema), ("", str(schema.schema_str)))

    def _references(self, schema: Schema) -> Sources:
        named: dict[str, str] = {}
        for reference in schema.references or ():
            version = self._answer_of(partial(self._client.get_version, reference.subject, reference.version))
            if version is None:
                raise UnknownSchemaError(f"the registry has no version {reference.version} of {reference.subject}")
            named |= {name: text for name, text in self._references(version.schema) if name not in named}
            named.setdefault(str(reference.name), str(version.schema.schema_str))
        return tuple(named.items())

    def _id_of(self, subject: str, text: str, kind: str = AVRO, references: Sources = ()) -> int:
        """The id of the schema under this subject. Raises RegistryError.

        The schema is registered if it is not there, unless REGISTERS is not "true". `references` are the schemas that
        it refers to, each behind those that it needs itself; the subject of each is its name.

        Implements PB22 of the reference.
        """
        named: list[SchemaReference] = []
        for name, content in references:
            version = self._version_of(name, Schema(content, kind, list(named)))
            named.append(SchemaReference(name, name, version))
        return self._number_of(subject, Schema(text, kind, named))

    def _version_of(self, subject: str, schema: Schema) -> int:
        self._number_of(subject, schema)
        version = self._answer_of(lambda: self._client.lookup_schema(subject, schema))
        return int(version.version) if version is not None else 1

    def _number_of(self, subject: str, schema: Schema) -> int:
        if self._registers:
            number = self._answer_of(lambda: self._client.register_schema(subject, schema))
        else:
            registered = self._answer_of(lambda: self._client.lookup_schema(subject, schema))
            number = registered.schema_id if registered is not None else None
        if number is None:
            raise RegistryError(
                f"the registry at {self._url} has no schema like this one under the subject {subject}: "
                f"{schema.schema_str}"
            )
        return int(number)

    def _answer_of(self, request: Callable[[], T]) -> T | None:
        """The answer to a request; None if it is "not found"."""
        try:
            return request()
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                return None
            raise RegistryError(f"the registry at {self._url} refuses a request: {error.error_message}") from error
        except Exception as error:  # the HTTP library and its errors depend on the client's version
            what = f"the registry at {self._url} does not answer ({type(error).__name__}: {error})"
            raise RegistryError(what) from error


@cache
def registry(properties: tuple[tuple[str, str], ...]) -> Registry:
    """The registry with these properties; there is one for each process."""
    return Registry(properties)
