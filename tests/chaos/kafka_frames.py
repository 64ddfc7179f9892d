"""Faults of single requests: the n-th request of a kind to a broker is delayed, lost, repeated, or its answer is lost.

A filter of the proxy (tests/recovery/harness/proxy.py). It reads the length of each request and answer, the kind of a
request (its API key), and the number (correlation id) with which an answer names its request.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final
from weakref import WeakKeyDictionary

from tests.recovery.harness.proxy import Connection

LENGTH: Final = struct.Struct(">i")
REQUEST: Final = struct.Struct(">hhi")
ANSWER: Final = struct.Struct(">i")


class Api(IntEnum):
    """Kafka's API keys (https://kafka.apache.org/protocol#protocol_api_keys)."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3
    JOIN_GROUP = 11
    HEARTBEAT = 12
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Effect(StrEnum):
    """What happens to a request.

    DELAY     it arrives later, and all behind it on its connection, too
    CUT       it does not arrive, and the connection ends
    LOSE      it arrives, its answer does not, and the connection ends
    LATE      the client's connection ends, and the request arrives later: Kafka knows no order between connections
    REPEAT    it arrives twice; the client gets the first answer
    HALF      nothing arrives any more on this connection, in either direction, and nothing ends it
    """

    DELAY = "delay"
    CUT = "cut"
    LOSE = "lose the answer"
    LATE = "arrive late"
    REPEAT = "repeat"
    HALF = "half-open"


@dataclass
class FrameFault:
    """One fault: of the request number `nth` (from 1) of a kind, counted from now on."""

    api: Api
    effect: Effect
    nth: int = 1
    seconds: float = 0.0
    happened: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Known:
    """What a filter has to remember of a connection."""

    #: the numbers of requests whose answers are lost
    lost: set[int] = field(default_factory=set)
    #: the numbers of requests that were repeated, and how many of their answers have come
    repeated: dict[int, int] = field(default_factory=dict)
    half_open: bool = False


class FrameFaults:
    """The faults that wait for their requests, on all connections of a proxy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[FrameFault] = deque()
        self._known: WeakKeyDictionary[Connection, _Known] = WeakKeyDictionary()

    def arm(self, fault: FrameFault) -> None:
        with self._lock:
            self._waiting.append(fault)

    def disarm(self) -> None:
        """Faults that have not met their requests do not happen."""
        with self._lock:
            self._waiting.clear()

    def requests(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]:
        known = self._of(connection)
        for frame in frames(pieces):
            api, _, number = REQUEST.unpack_from(frame, LENGTH.size)
            fault = self._due(api)
            if known.half_open:
                continue
            if fault is None:
                yield frame
                continue
            fault.happened.set()
            if fault.effect is Effect.DELAY:
                time.sleep(fault.seconds)
                yield frame
            elif fault.effect is Effect.CUT:
                connection.end(abort=True)
                return
            elif fault.effect is Effect.LOSE:
                known.lost.add(number)
                yield frame
            elif fault.effect is Effect.LATE:
                connection.end_client()
                time.sleep(fault.seconds)
                yield frame
            elif fault.effect is Effect.REPEAT:
                known.repeated[number] = 0
                yield frame + frame
            else:
                known.half_open = True

    def answers(self, connection: Connection, pieces: Iterable[bytes]) -> Iterator[bytes]:
        known = self._of(connection)
        for frame in frames(pieces):
            (number,) = ANSWER.unpack_from(frame, LENGTH.size)
            if number in known.lost:
                connection.end(abort=True)
                return
            if number in known.repeated:
                known.repeated[number] += 1
            if not known.half_open and known.repeated.get(number, 1) == 1:
                yield frame

    def _of(self, connection: Connection) -> _Known:
        with self._lock:
            return self._known.setdefault(connection, _Known())

    def _due(self, api: int) -> FrameFault | None:
        """The first fault that waits for this request, which then no longer waits. Counts it for the others."""
        with self._lock:
            for fault in self._waiting:
                if fault.api == api:
                    fault.nth -= 1
                    if fault.nth <= 0:
                        self._waiting.remove(fault)
                        return fault
        return None


def frames(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole requests or answers, each with its length before it."""
    rest = b""
    for piece in pieces:
        rest += piece
        while len(rest) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(rest)[0]
            if len(rest) < end:
                break
            yield rest[:end]
            rest = rest[end:]
