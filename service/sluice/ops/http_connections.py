"""Bounds the connections of the HTTP server, in number and in time.

Each connection has a file descriptor of the service's process, which its batches need, too. uvicorn itself closes only
a connection that is idle after an answer. A client that sends no request or half a one, or that does not read its
answer, would keep its connection for as long as it likes. A port scanner and a load balancer whose packets are lost
are such clients.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: seconds within which a client must have sent a request and read the answer, counted from the answer before
REQUEST_S = 30.0
#: maximum number of connections. A new one ends the oldest one, so no number of clients prevents a health check
MAX_CONNECTIONS = 256


class BoundedConnection(H11Protocol):
    """A connection of a client. It is dropped, with what it has not read, when it exceeds one of the bounds."""

    request_s, most = REQUEST_S, MAX_CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(self.request_s, transport.abort)
        if len(self.connections) > self.most:
            oldest: Any = min(self.connections, key=lambda one: one._since)  # type: ignore[union-attr] # noqa: SLF001 - of this class
            # asyncio reports the loss of a connection later, and more clients may connect before that
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._timer.cancel()
        self._timer = self.loop.call_later(self.request_s, self.transport.abort)
        super().on_response_complete()
