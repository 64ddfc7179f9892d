"""The HTTP server of the service: `/metrics`, `/healthz`, `/readyz`, and the page of the service if there is one.
A client that accepts `application/json` gets the status of every pipeline from `/healthz` and `/readyz`.
It runs in a thread with an event loop of its own. Health is answered by the loop itself, so neither a slow page nor
many readers of metrics delay it.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from sluice.model.errors import SluiceError
from sluice.ops.metrics import CONTENT_TYPE
from sluice.ops.pipelines import Pipelines

#: seconds within which a client must have sent a request and read the answer, counted from the answer before
REQUEST_S = 30.0
#: maximum number of connections. A new one ends the oldest one of the address that has the most, so no number of
#: connections of one client prevents a health check, or the answer to another client
MAX_CONNECTIONS = 256
#: maximum number of bytes of a request. None of the paths reads a body
MAX_REQUEST = 64 << 10


class BoundedConnection(H11Protocol):
    """A connection of a client. It is dropped, with what it has not read, when it exceeds one of the bounds."""

    request_s, most = REQUEST_S, MAX_CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since, self._received = self.loop.time(), 0
        self._timer = self.loop.call_later(self.request_s, transport.abort)
        if len(self.connections) > self.most:
            self._end_another()

    def _end_another(self) -> None:
        """Ends the oldest connection of the address that has the most."""
        connections: list[Any] = [*self.connections]
        counts = Counter(connection.address for connection in connections)
        oldest = min(connections, key=lambda connection: (-counts[connection.address], connection._since))  # noqa: SLF001 - of this class
        # asyncio reports the loss of a connection later, and more clients may connect before that
        self.connections.discard(oldest)
        oldest.transport.abort()

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > MAX_REQUEST:
            self.transport.abort()
        else:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._timer.cancel()
        self._timer, self._received = self.loop.call_later(self.request_s, self.transport.abort), 0
        super().on_response_complete()


#: seconds after which an idle connection is closed
IDLE_CONNECTION_S = 10
#: maximum seconds that `stop` waits for running answers
STOP_S = 2
#: the most answers with metrics or a status that are made at once, each in a thread, however many clients want one
MADE_AT_ONCE = 2

Answer = TypeVar("Answer")


class PortError(SluiceError):
    exit_code = 2


class OpsServer:
    """Serves in a thread of its own until `stop`.

    The argument `port` 0 means any free port. The attribute `port` has the actual number. Raises PortError if the port
    cannot be used.
    """

    def __init__(
        self,
        port: int,
        exposition: Callable[[], bytes],
        pipelines: Pipelines,
        address: str = "0.0.0.0",  # noqa: S104
        page: Any = None,  # noqa: ANN401 - an ASGI application
        *,
        status: Callable[[], Any] | None = None,
        connection: type[BoundedConnection] = BoundedConnection,
    ) -> None:
        """`exposition` makes the page of metrics. `page` is an ASGI application that answers all other paths; None:
        they are not found. `status` gives the answer of `/status`; None: it is not found. `connection` has the bounds
        of the connections.
        """
        try:
            self._socket = socket.create_server((address, port))
        except OSError as error:
            message = f"cannot serve on port {port} ({error.strerror}); choose another with --http-port, or --no-http"
            raise PortError(message) from error
        self.port: int = self._socket.getsockname()[1]
        # By default uvicorn believes the header X-Forwarded-For of all clients that $FORWARDED_ALLOW_IPS names, which
        # is "*" in many images. With it a client anywhere could be one on this machine, to whom the page is shown.
        config = uvicorn.Config(
            application(exposition, pipelines, page, status), http=connection, loop="asyncio", ws="none",
            lifespan="off", log_config=None, log_level="error", access_log=False, server_header=False,
            timeout_keep_alive=IDLE_CONNECTION_S, timeout_graceful_shutdown=STOP_S, forwarded_allow_ips="127.0.0.1",
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="sluice-http", daemon=True
        )
        self._thread.start()

    @property
    def connections(self) -> int:
        """The number of connections of clients."""
        return len(self._server.server_state.connections)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(2 * STOP_S)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def application(
    exposition: Callable[[], bytes],
    pipelines: Pipelines,
    page: Any = None,  # noqa: ANN401 - an ASGI application
    status: Callable[[], Any] | None = None,
) -> Starlette:
    """The application that the server serves."""
    limiters: list[anyio.CapacityLimiter] = []

    async def in_thread(make: Callable[[], Answer]) -> Answer:
        if not limiters:  # one belongs to an event loop
            limiters.append(anyio.CapacityLimiter(MADE_AT_ONCE))
        return await anyio.to_thread.run_sync(make, limiter=limiters[0])

    async def metrics(_: Request) -> Response:
        return Response(await in_thread(exposition), headers={"Content-Type": CONTENT_TYPE})

    async def healthy(request: Request) -> Response:
        return _checked(pipelines.healthy(), pipelines, request)

    async def ready(request: Request) -> Response:
        return _checked(pipelines.ready(), pipelines, request, pipelines.remarks())

    routes: list[BaseRoute] = [Route("/metrics", metrics), Route("/healthz", healthy), Route("/readyz", ready)]
    if status is not None:

        async def described(_: Request) -> Response:
            return JSONResponse(await in_thread(status))

        routes.append(Route("/status", described))
    if page is not None:
        routes.append(Mount("/", page))
    served = Starlette(routes=routes)
    served.router.redirect_slashes = False
    return served


def _checked(trouble: str | None, pipelines: Pipelines, request: Request, good: str = "") -> Response:
    """The answer to a health check: 503 with the `trouble` or, without one, 200 with `good` ("" stands for "ok")."""
    status = 503 if trouble else 200
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(pipelines.described(), status)
    return PlainTextResponse(f"{trouble or good or 'ok'}\n", status)
