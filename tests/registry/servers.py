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
    #: schema -> its type, if it is not Avro
    kinds: dict[str, str] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    #: path and headers of each request
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str, body: dict) -> tuple[int, dict]:
        if self.failures:
            status = self.failures.pop(0)
            return status, {"error_code": status, "message": "not today"}
        if path.startswith("/schemas/ids/"):
            number = int(path.split("?", maxsplit=1)[0].rsplit("/", 1)[1])
            if not 1 <= number <= len(self.schemas):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            text = self.schemas[number - 1]
            return 200, {"schema": text, **({"schemaType": self.kinds[text]} if text in self.kinds else {})}
        if "schema" not in body:
            return 404, {"error_code": 404, "message": "no such thing"}
        if body["schema"] not in self.schemas:
            if not path.split("?", maxsplit=1)[0].endswith("/versions"):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            self.schemas.append(body["schema"])
            if body.get("schemaType", "AVRO") != "AVRO":
                self.kinds[body["schema"]] = body["schemaType"]
        number = self.schemas.index(body["schema"]) + 1
        return 200, {"id": number, "version": number, "subject": path.split("/")[2], "schema": body["schema"]}


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
