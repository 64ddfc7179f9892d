"""A TCP server for tests of the proxy: a thread for each connection."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress


class TcpServer(ABC):
    """Serves connections at `address`, a free port, until `close`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    @abstractmethod
    def serve(self, connection: socket.socket) -> None:
        """Serves a connection until it ends. An OSError ends it, too."""

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.serve(connection)
