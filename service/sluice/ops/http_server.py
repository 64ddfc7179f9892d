"""The HTTP server of the service, which serves only `/metrics`, `/healthz` and `/readyz`.

A client that accepts `application/json` gets the status of every pipeline from `/healthz` and `/readyz`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from sluice.model.errors import SluiceError
from sluice.ops.metrics import CONTENT_TYPE
from sluice.ops.pipelines import Pipelines

TEXT, JSON = "text/plain; charset=utf-8", "application/json"
#: seconds after which the connection of a silent client is closed
CLIENT_TIMEOUT_S = 10.0


class PortError(SluiceError):
    exit_code = 2


class OpsServer:
    """Serves in threads of its own until `stop`.

    The argument `port` 0 means any free port. The attribute `port` has the actual number. Raises PortError if the port
    cannot be used.
    """

    def __init__(
        self,
        port: int,
        exposition: Callable[[], bytes],
        pipelines: Pipelines,
        address: str = "0.0.0.0",  # noqa: S104
    ) -> None:
        """`exposition` makes the page of metrics."""
        pages: dict[str, Page] = {
            "/metrics": lambda _: (HTTPStatus.OK, CONTENT_TYPE, exposition()),
            "/healthz": lambda accepts: _answer(pipelines.healthy(), pipelines, accepts),
            "/readyz": lambda accepts: _answer(pipelines.ready(), pipelines, accepts),
        }
        try:
            self._server = _Server((address, port), _handler(pages))
        except OSError as error:
            message = f"cannot serve on port {port} ({error.strerror}); choose another with --http-port, or --no-http"
            raise PortError(message) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="sluice-http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


Answer = tuple[HTTPStatus, str, bytes]
#: the answer to a client with this value of the header `Accept`
Page = Callable[[str], Answer]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: `server_close` does not wait for clients with open connections
    block_on_close = False


def _answer(trouble: str | None, pipelines: Pipelines, accepts: str) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
    if JSON in accepts:
        return status, JSON, json.dumps(pipelines.described(), ensure_ascii=False).encode()
    return status, TEXT, f"{trouble or 'ok'}\n".encode()


def _handler(pages: dict[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "sluice", ""
        timeout = CLIENT_TIMEOUT_S

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = (
                page(self.headers.get("Accept", "")) if page else (HTTPStatus.NOT_FOUND, TEXT, b"not found\n")
            )
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Logs nothing: Prometheus sends a request every few seconds."""

    return Handler
