"""What is around the service beside its brokers: the store of `state:`, a wall clock, a second machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import yaml

from tests.object_store.s3_server import S3Server
from tests.recovery.harness.proxy import Connection, Proxy
from tests.recovery.harness.sluice_process import SluiceProcess

#: seconds by which a slow store delays each piece of data
SLOW_S = 1.0
ANSWER = b"HTTP/1.1 %d Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Answers:
    """A filter of a proxy before an HTTP server: while `code` is set, clients get this status and not the answer."""

    def __init__(self) -> None:
        self.code = 0

    def requests(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]:
        del connection
        yield from pieces

    def answers(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            if self.code:
                yield ANSWER % self.code
                connection.end_client()
                return
            yield piece


class Store:
    """An S3 server behind a proxy."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._server, self._answers = S3Server(folder), Answers()

    def __enter__(self) -> Self:
        self._server.start()
        self._proxy = Proxy(self._server.endpoint.removeprefix("http://"), through=self._answers)
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.stop()
        self._server.stop()

    @property
    def settings(self) -> Mapping[str, object]:
        """What the pipeline file has of it. Snapshots are due often."""
        options = self._server.options | {"endpoint": f"http://{self._proxy.address}"}
        return {
            "state": "s3://bucket/chaos", "state_options": options, "snapshot_interval": 2, "snapshot_records": 200,
        }  # fmt: skip

    def refuse(self) -> None:
        self._proxy.refuse()
        self._proxy.cut()

    def delay(self) -> None:
        self._proxy.delay(SLOW_S, SLOW_S)

    def answer(self, code: int) -> None:
        self._answers.code = code

    def heal(self) -> None:
        self._answers.code = 0
        self._proxy.accept()
        self._proxy.resume()


class Clock:
    """The wall clock of the Python processes of a service (tests/recovery/pausing/)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0.0)

    @property
    def environment(self) -> dict[str, str]:
        return {"SLUICE_TEST_CLOCK": str(self._file)}

    def set(self, seconds: float) -> None:
        """Sets the clock to so many seconds after that of the machine."""
        part = self._file.with_suffix(".part")
        part.write_text(str(seconds))
        part.rename(self._file)


class Surroundings(ExitStack):
    """Of one campaign. With `standby` each instance waits for the lead, and a second one may take over."""

    def __init__(self, folder: Path, *, standby: bool, with_store: bool) -> None:
        super().__init__()
        self._folder, self.standby, self._with_store = folder, standby, with_store
        self.store: Store | None = None
        self.clock = Clock(folder)
        self._machines = 0

    def __enter__(self) -> Self:
        super().__enter__()
        if self._with_store:
            self.store = self.enter_context(Store(self._folder / "s3"))
        return self

    def instance(self, file: Path) -> SluiceProcess:
        arguments = ["--standby"] if self.standby else []
        return SluiceProcess(file, file.parent, arguments, self.clock.environment, http=True)

    def other(self, one: SluiceProcess) -> SluiceProcess:
        """The other of two machines, with its own file and folder, which it keeps."""
        folder = self._folder / ("b" if one.folder.name == "a" else "a")
        folder.mkdir(exist_ok=True)
        file = folder / one.file.name
        content = yaml.safe_load(one.file.read_text()) | {"checkpoint": str(folder / "checkpoint")}
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        return self.instance(file)
