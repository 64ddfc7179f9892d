"""A schema registry that answers too much, too slowly, or in circles."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from sluice.wire.schema_registry import AVRO, MAX_ANSWER, MAX_REFERENCES, Registry, RegistryError, UnknownSchemaError

#: what answers a request: it gets the path and a function that sends bytes
Answer = Callable[[str, Callable[[bytes], None]], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def registry_that(answer: Answer, *, answer_s: float = 20.0) -> Iterator[Registry]:
    """A client of a server on this machine that answers each request so."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, answer), daemon=True).start()
        port = server.getsockname()[1]
        registry = Registry((("url", f"http://127.0.0.1:{port}"), ("max.retries", "0"), ("timeout", "5")), answer_s)
        with registry._client:  # noqa: SLF001 - the service never closes it; here an open connection would be a warning
            yield registry
        server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, answer: Answer) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            threading.Thread(target=_answered, args=(client, answer), daemon=True).start()


def _answered(client: socket.socket, answer: Answer) -> None:
    with client, suppress(OSError):
        path = client.recv(65536).split(b" ")[1].decode()
        answer(path, client.sendall)


def with_body(content: object) -> bytes:
    body = json.dumps(content).encode()
    return OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def endless(_: str, send: Callable[[bytes], None]) -> None:
    send(OK + b"\r\n")
    while True:
        send(b'"' + b"x" * 65536)


def announced(_: str, send: Callable[[bytes], None]) -> None:
    """An answer of 1 GB, of which all is sent."""
    send(OK + b"Content-Length: %d\r\n\r\n" % (1 << 30))
    for _ in range(1 << 14):
        send(b" " * 65536)


def packed(_: str, send: Callable[[bytes], None]) -> None:
    """64 MB of spaces in 64 KB."""
    body = gzip.compress(b" " * (1 << 26))
    send(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@pytest.mark.parametrize("answer", [endless, announced, packed])
def test_a_schema_that_is_too_large_cannot_be_used(answer: Answer) -> None:
    """Any record may name the id of any schema: the record is a dead letter, and the service goes on."""
    with (
        registry_that(answer) as registry,
        pytest.raises(UnknownSchemaError, match=f"more than {MAX_ANSWER >> 20} MiB"),
    ):
        registry.sources(7, AVRO)


def drips(beginning: bytes) -> Answer:
    """A byte every 50 ms, which is within the time-out of each piece."""

    def answer(_: str, send: Callable[[bytes], None]) -> None:
        send(beginning)
        while True:
            send(b"x")
            time.sleep(0.05)

    return answer


@pytest.mark.parametrize(
    "beginning", [OK + b"\r\n", OK + b"X-Long: ", b"HTTP/1.1 200 "], ids=["body", "header", "line"]
)
def test_an_answer_that_does_not_end_is_an_error(beginning: bytes) -> None:
    with (
        registry_that(drips(beginning), answer_s=0.6) as registry,
        pytest.raises(RegistryError, match=r"no whole answer within 0\.6 seconds"),
    ):
        registry.schema(7)


def test_a_redirection_is_not_followed() -> None:
    asked = []

    def answer(path: str, send: Callable[[bytes], None]) -> None:
        asked.append(path)
        send(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n")

    with registry_that(answer) as registry, pytest.raises(RegistryError, match="refuses a request"):
        registry.schema(7)
    assert len(asked) == 1


def with_references(of: Callable[[str], list[str]]) -> Answer:
    """The schema of each subject refers to the subjects that `of` gives; schema 7 is that of the subject "0"."""

    def answer(path: str, send: Callable[[bytes], None]) -> None:
        subject = path.partition("/subjects/")[2].partition("/")[0] or "0"
        references = [{"name": one, "subject": one, "version": 1} for one in of(subject)]
        content = {"subject": subject, "version": 1, "id": 7, "schema": '"int"', "references": references}
        send(with_body(content))

    return answer


def test_schemas_that_refer_to_each_other_twice_are_asked_for_once() -> None:
    """Twenty schemas, each of which refers to the next one by two ways, would be a million requests."""
    asked = []

    def both(subject: str) -> list[str]:
        asked.append(subject)
        return [str(int(subject) + 1), str(int(subject) + 2)] if int(subject) < 20 else []

    with registry_that(with_references(both)) as registry:
        assert len(registry.sources(7, AVRO)) == 22
    assert len(asked) == 22


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (lambda _: ["0"], "the schema 0 refers to itself"),
        (lambda subject: ["1" if subject == "0" else "0"], "refers to itself"),
        (lambda subject: [str(int(subject) + 1)], f"more than {MAX_REFERENCES} schemas"),
        (
            lambda subject: [f"a{n}" for n in range(1000)] if subject == "0" else [],
            f"more than {MAX_REFERENCES} schemas",
        ),
    ],
    ids=["itself", "circle", "chain", "many"],
)
def test_references_without_end_cannot_be_used(of: Callable[[str], list[str]], why: str) -> None:
    with registry_that(with_references(of)) as registry, pytest.raises(UnknownSchemaError, match=why):
        registry.sources(7, AVRO)


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b"[]", b"7", b'{"schema": {"a": 1}}', b'{"schema": "' + b"[" * 50_000 + b'"}', b"\xff", b""],
)
def test_an_answer_that_is_no_schema_is_an_error_of_the_registry_or_of_the_schema(body: bytes) -> None:
    def answer(_: str, send: Callable[[bytes], None]) -> None:
        send(OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with registry_that(answer) as registry, pytest.raises((RegistryError, UnknownSchemaError)) as raised:
        registry.schema(7)
    assert len(str(raised.value)) < 500
