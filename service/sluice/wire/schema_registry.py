"""A client of the schema registry (Confluent's API): gets schemas by id, and the ids of schemas for writing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from sluice.model.avro_schema import Avro, AvroError, parse
from sluice.model.errors import SluiceError, cut

T = TypeVar("T")
#: schemas with the names by which others refer to them; the last one has no name
Sources = tuple[tuple[str, str], ...]
#: the kinds of schemas, and how messages name them
AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
SHOWN = {AVRO: "Avro", PROTOBUF: "Protobuf", JSON: "JSON Schema"}

NOT_FOUND = 404
#: seconds that one request may take; the client tries a failed request three times more
TIMEOUT = 10.0
#: seconds that a request may take with all its tries, however slowly an answer comes
ANSWER_S = 120.0
#: the most bytes of an answer, and the most schemas that a schema refers to, directly or through others
MAX_ANSWER, MAX_REFERENCES = 4 << 20, 200
#: the most characters of an answer in a message
SHOWN_OF_ANSWER = 300
#: the most schemas, and the most ids, that are cached
KEPT = 1000
#: the name of a property in the pipeline file -> the function that converts its text for the client
READ: dict[str, Callable[[str], Any]] = {"timeout": float, "max.retries": int, "retries.wait.ms": int}
#: a property of Confluent's serializers, not of the client: whether a new schema is registered
REGISTERS = "auto.register.schemas"


class RegistryError(SluiceError):
    """The registry is not available or refuses a request. The cause is not in the records."""

    exit_code = 3


class TooLargeError(RegistryError):
    """An answer has more than MAX_ANSWER bytes."""


class UnknownSchemaError(LookupError):
    """The registry has no schema with this id, or it cannot be used."""


class Registry:
    """A schema registry, with a cache of its answers. What it answers is bounded in time, bytes and references."""

    def __init__(self, properties: tuple[tuple[str, str], ...], answer_s: float = ANSWER_S) -> None:
        settings: dict[str, Any] = {name: READ.get(name, str)(value) for name, value in properties}
        self._registers = settings.pop(REGISTERS, "true") == "true"
        self._url, self._answer_s = settings["url"], answer_s
        self._client = SchemaRegistryClient({"timeout": TIMEOUT, "retries.max.wait.ms": 5000} | settings)
        self._client._rest_client.session.event_hooks = {"response": [_read_bounded]}  # noqa: SLF001 - the client has no setting for it
        self.sources = lru_cache(KEPT)(self._sources)
        self.schema = lru_cache(KEPT)(self._schema)
        self.kind = lru_cache(KEPT)(self._kind)
        self.id_of = lru_cache(KEPT)(self._id_of)

    def _kind(self, number: int) -> str | None:
        """The kind of the schema with this id, None if there is none. Raises RegistryError."""
        schema = self._schema_of(number)
        return None if schema is None else schema.schema_type or AVRO

    def _schema_of(self, number: int) -> Schema | None:
        try:
            return self._answer_of(lambda: self._client.get_schema(number))
        except TooLargeError as error:
            raise UnknownSchemaError(f"the schema {number} cannot be used: {error}") from None

    def _schema(self, number: int) -> Avro:
        """The Avro schema with this id. Raises UnknownSchemaError and RegistryError; errors are not cached."""
        *references, main = (text for _, text in self.sources(number, AVRO))
        try:
            return parse(main, tuple(references))
        except AvroError as error:
            raise UnknownSchemaError(f"the schema {number} cannot be used: expected {error}") from None

    def _sources(self, number: int, kind: str) -> Sources:
        """The names and the texts of the schemas that the schema with this id refers to, each behind the schemas that
        it needs itself, then its own. Raises UnknownSchemaError and RegistryError; errors are not cached.
        """
        schema = self._schema_of(number)
        if schema is None:
            raise UnknownSchemaError(f"the registry has no schema {number}")
        if (schema.schema_type or AVRO) != kind:
            raise UnknownSchemaError(f"the schema {number} is {schema.schema_type or AVRO}, not {SHOWN[kind]}")
        named: dict[str, str] = {}
        self._add_references(schema, named, [])
        return (*named.items(), ("", str(schema.schema_str)))

    def _add_references(self, schema: Schema, named: dict[str, str], around: list[str]) -> None:
        """Adds the schemas that a schema refers to, each once, behind the schemas that it needs itself. `around`: the
        names of the schemas that refer to this one.
        """
        for reference in schema.references or ():
            name = str(reference.name)
            if name in around:
                raise UnknownSchemaError(f"the schema {name} refers to itself")
            if name not in named:
                self._check_count(len(named) + len(around))
                referred = self._version(str(reference.subject), reference.version)
                self._add_references(referred, named, [*around, name])
                named[name] = str(referred.schema_str)

    def _check_count(self, count: int) -> None:
        if count >= MAX_REFERENCES:
            raise UnknownSchemaError(f"the schema refers to more than {MAX_REFERENCES} schemas")

    def _version(self, subject: str, version: int | None) -> Schema:
        try:
            registered = self._answer_of(partial(self._client.get_version, subject, version))
        except TooLargeError as error:
            raise UnknownSchemaError(f"version {version} of {subject} cannot be used: {error}") from None
        if registered is None:
            raise UnknownSchemaError(f"the registry has no version {version} of {subject}")
        return registered.schema

    def _id_of(self, subject: str, text: str, kind: str = AVRO, references: Sources = ()) -> int:
        """The id of the schema under this subject. Raises RegistryError.

        The schema is registered if it is not there, unless REGISTERS is not "true". `references` are the schemas that
        it refers to, each behind the schemas that it needs itself; the subject of each is its name.

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
            return _within(self._answer_s, request)
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                return None
            why = cut(str(error.error_message), SHOWN_OF_ANSWER)
            raise RegistryError(f"the registry at {self._url} refuses a request: {why}") from error
        except TooLargeError:
            raise
        except Exception as error:  # the HTTP library and its errors depend on the client's version
            why = cut(f"{type(error).__name__}: {error}", SHOWN_OF_ANSWER)
            raise RegistryError(f"the registry at {self._url} does not answer ({why})") from error


def _within(seconds: float, request: Callable[[], T]) -> T:
    """The result of the request. Raises TimeoutError: the time-outs of the HTTP library are for each piece of an answer
    alone. A request that does not end then stays in its thread, while the service ends.
    """
    ended: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((request(), None))
        except BaseException as error:  # noqa: BLE001 - raised below
            ended.put((None, error))

    threading.Thread(target=run, name="schema-registry", daemon=True).start()
    try:
        result, error = ended.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no whole answer within {seconds:g} seconds") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _read_bounded(response: Any) -> None:  # noqa: ANN401 - of the HTTP library that the client has chosen
    """Reads the body of a response, which the HTTP library itself would read to its end, however long it is."""
    content = bytearray()
    for part in response.iter_bytes():
        content += part
        if len(content) > MAX_ANSWER:
            raise TooLargeError(f"the registry's answer has more than {MAX_ANSWER >> 20} MiB")
    response._content = bytes(content)  # noqa: SLF001 - what its method `read` sets


@cache
def registry(properties: tuple[tuple[str, str], ...]) -> Registry:
    """The registry with these properties; there is one for each process."""
    return Registry(properties)
