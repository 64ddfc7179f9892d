"""The schema registry: schemas by id, and ids for what is written. Confluent's API, with its own client."""

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
#: seconds that one request may take; the client tries thrice again where nobody answers
TIMEOUT = 10.0
#: schemas that are kept at hand
KEPT = 1000
#: property of the file -> what makes its text what the client wants
READ: dict[str, Callable[[str], Any]] = {"timeout": float, "max.retries": int, "retries.wait.ms": int}
#: not the client's, but of its serializers: whether a new schema is registered
REGISTERS = "auto.register.schemas"


class RegistryError(SluiceError):
    """The registry does not do what it is needed for; the records are not to blame."""

    exit_code = 3


class UnknownSchemaError(LookupError):
    """The registry has no such schema, or it is none of Avro's."""


class Registry:
    """A registry, and what it has said."""

    def __init__(self, properties: tuple[tuple[str, str], ...]) -> None:
        settings: dict[str, Any] = {name: READ.get(name, str)(value) for name, value in properties}
        self._registers = settings.pop(REGISTERS, "true") == "true"
        self._url = settings["url"]
        self._client = SchemaRegistryClient({"timeout": TIMEOUT, "retries.max.wait.ms": 5000} | settings)
        self.schema = lru_cache(KEPT)(self._schema)
        self.id_of = lru_cache(KEPT)(self._id_of)

    def _schema(self, number: int) -> Avro:
        """The schema with this id. Raises UnknownSchemaError, which is remembered by nobody, and RegistryError."""
        schema = self._asked(lambda: self._client.get_schema(number))
        if schema is None:
            raise UnknownSchemaError(f"the registry has no schema {number}")
        if (schema.schema_type or "AVRO") != "AVRO":
            raise UnknownSchemaError(f"the schema {number} is {schema.schema_type}, not Avro")
        try:
            return parse(str(schema.schema_str), self._references(schema))
        except AvroError as error:
            raise UnknownSchemaError(f"the schema {number} is not {error}") from None

    def _references(self, schema: Schema) -> tuple[str, ...]:
        """The texts of the schemas that this one names, those first that others need."""
        texts: list[str] = []
        for reference in schema.references or ():
            found = self._asked(partial(self._client.get_version, reference.subject, reference.version))
            if found is None:
                raise UnknownSchemaError(f"the registry has no version {reference.version} of {reference.subject}")
            texts += [*self._references(found.schema), str(found.schema.schema_str)]
        return tuple(dict.fromkeys(texts))

    def _id_of(self, subject: str, text: str) -> int:
        """The id of the schema under this subject, which registers it unless the file says no. Raises RegistryError."""
        schema = Schema(text, "AVRO")
        if self._registers:
            number = self._asked(lambda: self._client.register_schema(subject, schema))
        else:
            found = self._asked(lambda: self._client.lookup_schema(subject, schema))
            number = found.schema_id if found is not None else None
        if number is None:
            raise RegistryError(f"the registry at {self._url} has no such schema under {subject}: {text}")
        return int(number)

    def _asked(self, ask: Callable[[], T]) -> T | None:
        """The answer; None if there is no such thing."""
        try:
            return ask()
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                return None
            raise RegistryError(f"the registry at {self._url} says: {error.error_message}") from error
        except Exception as error:  # which HTTP library speaks here depends on the client's version
            what = f"the registry at {self._url} does not answer ({type(error).__name__}: {error})"
            raise RegistryError(what) from error


@cache
def registry(properties: tuple[tuple[str, str], ...]) -> Registry:
    """One for each process."""
    return Registry(properties)
