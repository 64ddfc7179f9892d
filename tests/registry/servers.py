"""Schema registries for tests: a real one in a process of its own, and a small one for what a real one never does."""

from __future__ import annotations

import json
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import URLError
from urllib.parse import unquote
from urllib.request import urlopen

from sluice.jvm.java import find_java
from sluice.kafka.embedded_broker import free_ports
from sluice.processes import ChildProcess
from tests.fetched_jars import fetched

HERE = Path(__file__).parent
CONFLUENT = "/apis/ccompat/v7"
SECONDS = 90
HEAP = "-Xmx320m"


@contextmanager
def apicurio() -> Iterator[str]:
    """The URL of a real registry that keeps its schemas in memory."""
    jar, (port,) = _jar(), free_ports(1)
    with tempfile.TemporaryDirectory(prefix="sluice-registry-") as folder:
        settings = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-Dapicurio.storage.kind=sql"]
        log = Path(folder, "log")
        process = ChildProcess([find_java(), HEAP, *settings, "-jar", str(jar)], Path(folder), log)
        url = f"http://127.0.0.1:{port}{CONFLUENT}"
        try:
            _await_answer(f"{url}/subjects", log)
            yield url
        finally:
            process.kill()


def _jar() -> Path:
    return next(fetched("registry", HERE / "ivy.xml", "tar.gz", _unpack).glob("*-runner.jar"))


def _unpack(folder: Path) -> None:
    packed = next(folder.glob("*.tar.gz"))
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    packed.unlink()


def _await_answer(url: str, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - it is ours
                return
        except (URLError, OSError):
            time.sleep(0.1)
    said = log.read_text(errors="replace")[-2000:]
    raise TimeoutError(f"the registry does not answer: {said}")


@dataclass
class Small:
    """A registry that can fail: `failures` statuses are answered first, one for each request."""

    schemas: list[str] = field(default_factory=list)
    #: subject -> its schemas, the first version first
    subjects: dict[str, list[str]] = field(default_factory=dict)
    #: schema -> its type, if it is not Avro
    kinds: dict[str, str] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    #: schema -> what it refers to
    references: dict[str, list[dict]] = field(default_factory=dict)
    #: path and headers of each request
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str, body: dict) -> tuple[int, dict]:
        if self.failures:
            status = self.failures.pop(0)
            return status, {"error_code": status, "message": "not today"}
        _, word, name, *rest = path.split("?", maxsplit=1)[0].split("/")
        if word == "schemas":
            return self.by_number(int(rest[0]))
        subject = self.subjects.setdefault(unquote(name), [])
        if "schema" not in body:
            return self.by_version(unquote(name), subject, rest[-1]) if rest[:1] == ["versions"] else MISSING
        if body["schema"] not in subject:
            if rest != ["versions"]:
                return MISSING
            self.register(subject, body)
        return self.found(unquote(name), subject, body["schema"])

    def by_number(self, number: int) -> tuple[int, dict]:
        return (200, self.described(self.schemas[number - 1])) if 1 <= number <= len(self.schemas) else MISSING

    def by_version(self, name: str, subject: list[str], version: str) -> tuple[int, dict]:
        place = len(subject) if version == "latest" else int(version)
        return self.found(name, subject, subject[place - 1]) if 1 <= place <= len(subject) else MISSING

    def register(self, subject: list[str], body: dict) -> None:
        text = body["schema"]
        subject.append(text)
        self.schemas += [] if text in self.schemas else [text]
        if body.get("schemaType", "AVRO") != "AVRO":
            self.kinds[text] = body["schemaType"]
        if body.get("references"):
            self.references[text] = body["references"]

    def found(self, name: str, subject: list[str], text: str) -> tuple[int, dict]:
        place = {"id": self.schemas.index(text) + 1, "version": subject.index(text) + 1, "subject": name}
        return 200, place | self.described(text)

    def described(self, text: str) -> dict:
        kind = {"schemaType": self.kinds[text]} if text in self.kinds else {}
        return {"schema": text, **kind, "references": self.references.get(text, [])}


MISSING = 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def small() -> Iterator[Small]:
    registry = Small()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict) -> None:
            registry.requests.append((self.path, dict(self.headers)))
            status, answer = registry.answer(self.path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
