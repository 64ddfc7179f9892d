"""What the product uses of `threading`, `concurrent.futures` and `time`, for tasks of a simulated world."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Self

from tests.chaos.simulation.scheduler import Task, world

#: the wall clock at the begin of each world, seconds since 1970
BEGIN = 1_700_000_000.0


class Event:
    def __init__(self) -> None:
        self._set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for task in self._waiting:
            task.wake = world().now

    def clear(self) -> None:
        self._set = False

    def wait(self, seconds: float | None = None) -> bool:
        here = world()
        until = here.now + (float("inf") if seconds is None else seconds)
        while not self._set and here.now < until:
            self._waiting.append(here.running)
            here.wait_until(until)
            self._waiting.remove(here.running)
        return self._set


class Thread:
    def __init__(
        self, target: Callable[..., object], args: Iterable[Any] = (), name: str = "thread", *, daemon: bool = True
    ) -> None:
        del daemon
        self._work, self.name = lambda: target(*args), name
        self._task: Task | None = None

    def start(self) -> None:
        self._task = world().spawn(world().running.process, self.name, self._work)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done

    def join(self, seconds: float | None = None) -> None:
        here = world()
        assert self._task
        until = here.now + (float("inf") if seconds is None else max(0.0, seconds))
        while not self._task.done and here.now < until:
            self._task.joiners.append(here.running)
            here.wait_until(until)
            self._task.joiners.remove(here.running)


class Lock:
    """A lock that its owner may take again."""

    def __init__(self) -> None:
        self._owner: Task | None = None
        self._count = 0

    def __enter__(self) -> Self:
        here = world()
        while self._owner not in (None, here.running):
            here.wait_until(here.now + 0.01)
        self._owner, self._count = here.running, self._count + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._owner = None


class Future:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = Thread(self._run, name="pooled")
        self._work = work
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except Exception as error:  # noqa: BLE001 - `result` raises it
            self._error = error

    def result(self) -> Any:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value


class Executor:
    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, work: Callable[..., Any], *args: object) -> Future:
        return Future(lambda: work(*args))

    def map(self, work: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        for future in [self.submit(work, item) for item in items]:
            yield future.result()

    def shutdown(self, *, wait: bool = True) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def _now() -> float:
    return world().now


def _wall() -> float:
    return BEGIN + world().now + world().jump


def _sleep(seconds: float) -> None:
    world().tick("sleep", seconds)


TIME = SimpleNamespace(
    monotonic=_now, perf_counter=_now, time=_wall, time_ns=lambda: int(_wall() * 1e9), sleep=_sleep,
    strftime=time.strftime, gmtime=time.gmtime,
)  # fmt: skip
THREADING = SimpleNamespace(
    Thread=Thread, Event=Event, RLock=Lock, Lock=Lock, TIMEOUT_MAX=threading.TIMEOUT_MAX,
    current_thread=threading.current_thread,
)  # fmt: skip
UUID = SimpleNamespace(uuid4=lambda: uuid.UUID(int=world().random.getrandbits(128), version=4))
