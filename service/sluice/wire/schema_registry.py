"""A client of the schema registry (Confluent's API): gets schemas by id, and the ids of schemas for writing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from sluice.model.avro_schema import Avro, AvroError, parse
from sluice.model.errors import SluiceError

T = TypeVar("T")

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
    """The registry has no schema with this id, or it is not an Avro schema that can be used."""


class Registry:
    """A schema registry, with a cache of its answers."""

    def __init__(self, properties: tuple[tuple[str, str], ...]) -> None:
        settings: dict[str, Any] = {name: READ.get(name, str)(value) for name, value in properties}
        self._registers = settings.pop(REGISTERS, "true") == "true"
        self._url = settings["url"]
        self._client = SchemaRegistryClient({"timeout": TIMEOUT, "retries.max.wait.ms": 5000} | settings)
        self.schema = lru_cache(KEPT)(self._schema)
        self.id_of = lru_cache(KEPT)(self._id_of)

    def _schema(self, number: int) -> Avro:
        """The schema with this id. Raises UnknownSchemaError and RegistryError; errors are not cached."""
        schema = self._answer_of(lambda: self._client.get_schema(number))
        if schema is None:
            raise UnknownSchemaError(f"the registry has no schema {number}")
        if (schema.schema_type or "AVRO") != "AVRO":
            raise UnknownSchemaError(f"the schema {number} is {schema.schema_type}, not Avro")
        try:
            return parse(str(schema.schema_str), self._references(schema))
        except AvroError as error:
            raise UnknownSchemaError(f"the schema {number} cannot be used: expected {error}") from None

    def _references(self, schema: Schema) -> tuple[str, ...]:
        """The texts of the schemas that this one refers to; each schema follows the schemas that it needs."""
        texts: list[str] = []
        for reference in schema.references or ():
            found = self._answer_of(partial(self._client.get_version, reference.subject, reference.version))
            if found is None:
                raise UnknownSchemaError(f"the registry has no version {reference.version} of {reference.subject}")
            texts += [*self._references(found.schema), str(found.schema.schema_str)]
        return tuple(dict.fromkeys(texts))

    def _id_of(self, subject: str, text: str) -> int:
        """The id of the schema under this subject. Raises RegistryError.

        The schema is registered if it is not there, unless REGISTERS is not "true".
        """
        schema = Schema(text, "AVRO")
        if self._registers:
            number = self._answer_of(lambda: self._client.register_schema(subject, schema))
        else:
            found = self._answer_of(lambda: self._client.lookup_schema(subject, schema))
            number = found.schema_id if found is not None else None
        if number is None:
            raise RegistryError(
                f"the registry at {self._url} has no schema like this one under the subject {subject}: {text}"
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
