"""The part of Kubernetes' API that Spark uses for its executors, and a node that runs their pods as processes."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sluice.files import PACKAGE
from sluice.processes import ChildProcess

Object = dict[str, Any]
#: the fields of a pod that its environment may refer to
FIELDS: dict[str, Callable[[Object], str]] = {
    "status.podIP": lambda _: "127.0.0.1",
    "metadata.name": lambda pod: str(pod["metadata"]["name"]),
}


class KubernetesApi:
    """Keeps pods. `started` is called with each pod that is created."""

    def __init__(self, stack: ExitStack, started: Callable[[Object], None]) -> None:
        self.pods: dict[str, Object] = {}
        #: method and path of each request that this part of the API does not have
        self.unknown: list[str] = []
        self._started = started
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def answer(self, method: str, target: str, body: Object | None) -> tuple[int, Object]:
        """Status and content. Pods are watched by nobody: Spark then asks for the list of them."""
        place, query = urlsplit(target).path.strip("/").split("/"), parse_qs(urlsplit(target).query)
        if place[:3] != ["api", "v1", "namespaces"] or place[4:5] != ["pods"] or "watch" in query:
            self.unknown.append(f"{method} {target}")
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
        name = place[5] if len(place) > 5 else ""
        if method == "POST" and body is not None:
            return 201, self._create(body)
        if method == "DELETE" and not name:
            self.pods.clear()
        if not name:
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [*self.pods.values()]}
        found = self.pods.pop(name, None) if method == "DELETE" else self.pods.get(name)
        return (200, found) if found else (404, {"kind": "Status", "apiVersion": "v1", "code": 404})

    def _create(self, pod: Object) -> Object:
        name = pod["metadata"]["name"]
        own = {"uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.pods[name] = pod | {"metadata": pod["metadata"] | own, "status": {"phase": "Running"}}
        self._started(self.pods[name])
        return self.pods[name]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, content = api.answer(self.command, self.path, json.loads(data) if data else None)
                sent = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _do  # noqa: N815 - names of the base class

            def log_message(self, *_: object) -> None:
                """Nothing is logged."""

        return Handler


class Node:
    """Runs the container of each pod as a process of this machine: its command, its arguments, its environment."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder

    def start(self, pod: Object) -> None:
        (container,) = pod["spec"]["containers"]
        folder = self._folder / pod["metadata"]["name"]
        variables = {one["name"]: self._value(pod, one) for one in container["env"]}
        variables |= {"SPARK_LOCAL_DIRS": str(folder), "PYTHONPATH": str(PACKAGE.parent)}
        init, dashes, python, *rest = [*container["command"], *container["args"]]
        assert (init, dashes, python) == ("tini", "--", "python")
        log = self._folder / f"{folder.name}.log"
        process = ChildProcess([sys.executable, *rest], folder, log, variables)
        self._stack.callback(process.kill)

    @staticmethod
    def _value(pod: Object, variable: Object) -> str:
        if "valueFrom" in variable:
            return FIELDS[variable["valueFrom"]["fieldRef"]["fieldPath"]](pod)
        return str(variable.get("value", ""))
