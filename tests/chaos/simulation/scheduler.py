"""A world of simulated processes: one of their tasks runs at a time, and a seed chooses which.

A task is ordinary code in a thread of its own. It gives way at each operation that leaves its process (`World.tick`):
of a file, of a Kafka client, a sleep, a wait for another task. The seed decides which task goes on, so equal seeds give
equal runs. The clock stands while a task can run, and then moves to the next task that waits.

A process that is killed loses its memory: each of its tasks ends with `Killed` at the operation at which it stands, and
does no other operation after that, whatever its `finally` blocks try.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from threading import get_ident
from typing import Any

#: simulated seconds, and operations, after which a run that has not ended stands still
MOST_SECONDS, MOST_STEPS = 2000.0, 60_000
FOREVER = float("inf")


class Killed(BaseException):
    """The process of this task was killed."""


class Process:
    """A process: it is alive or not, may be stopped (SIGSTOP), and has memory that ends with it."""

    def __init__(self, name: str, role: str, parent: Process | None = None) -> None:
        self.name, self.role, self.parent = name, role, parent
        self.alive, self.code = True, -9
        #: the time until which it is stopped, and since when
        self.stopped_until, self.stopped_at = 0.0, 0.0
        #: what stands for the global variables of its modules
        self.memory: dict[str, Any] = {}
        #: called when it has ended, for the tasks that wait for it
        self.on_end: list[Callable[[], object]] = []

    @property
    def host(self) -> str:
        """The machine on which it runs: the first letter of its name."""
        return self.name[0]


class Task:
    def __init__(self, process: Process, name: str, work: Callable[[], object]) -> None:
        self.process, self.name, self.work = process, name, work
        self.wake = 0.0
        self.done = False
        self.joiners: list[Task] = []
        self.worker: Worker | None = None
        #: the number of the thread of its worker
        self.thread = 0


class Worker(threading.Thread):
    """A thread that runs one task after another. It works only while it has the baton."""

    idle: list[Worker] = []  # noqa: RUF012 - shared on purpose

    def __init__(self) -> None:
        super().__init__(name="simulated", daemon=True)
        self.baton = threading.Lock()
        self.baton.acquire()
        self.job: Callable[[], None] = lambda: None
        self.start()

    def run(self) -> None:
        while True:
            self.baton.acquire()
            self.job()

    @classmethod
    def free(cls) -> Worker:
        return cls.idle.pop() if cls.idle else cls()


class World:
    """The clock, the tasks, and what happens to them."""

    def __init__(self, seed: int | str, trace: Callable[[str], object] | None = None) -> None:
        self.random = Random(seed)
        self.now, self.jump, self.steps = 0.0, 0.0, 0
        self.trace = trace
        self.tasks: list[Task] = []
        self.processes: list[Process] = []
        self.current: Task | None = None
        #: called at each operation, with the process and what it does
        self.watch: Callable[[Process, str], object] = lambda _process, _what: None
        self.stood_still = ""
        self._stopping = False
        self._over = threading.Lock()
        self._over.acquire()
        self._errors: list[BaseException] = []

    # ---- from outside ------------------------------------------------------------------------------------------------

    def run(self, work: Callable[[], object]) -> None:
        """Runs until `work`, the first task, has ended, and then kills all others. Raises an error of any task."""
        Current.world = self

        def root() -> None:
            try:
                work()
            finally:
                self.stop()

        self.spawn(Process("world", "world"), "root", root)
        self._hand_over(self._next())
        self._over.acquire()
        Current.world = None
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        self._stopping = True
        for task in self.tasks:
            task.process.alive, task.process.stopped_until, task.wake = False, 0.0, self.now

    # ---- of processes ------------------------------------------------------------------------------------------------

    def process(self, name: str, role: str, parent: Process | None = None) -> Process:
        made = Process(name, role, parent)
        self.processes.append(made)
        return made

    def spawn(self, process: Process, name: str, work: Callable[[], object], after: float = 0.0) -> Task:
        task = Task(process, name, work)
        task.wake = self.now + after
        task.worker = Worker.free()
        task.thread = task.worker.ident or 0
        task.worker.job = lambda: self._perform(task)
        self.tasks.append(task)
        return task

    def kill(self, process: Process, code: int = -9) -> None:
        if not process.alive:
            return
        self.say(process, f"ENDS with code {code}" if code >= 0 else "is KILLED")
        process.alive, process.code, process.stopped_until = False, code, 0.0
        for task in self.tasks:
            if task.process is process:
                task.wake = self.now
        for call in process.on_end:
            call()

    def freeze(self, process: Process, seconds: float) -> None:
        self.say(process, f"is STOPPED for {seconds:.1f} s")
        process.stopped_at, process.stopped_until = self.now, self.now + seconds

    # ---- of tasks ----------------------------------------------------------------------------------------------------

    def tick(self, what: str, seconds: float = 0.0) -> None:
        """An operation of the running task that takes so long. Another task may run, or the process may be killed."""
        task = self.running
        process = task.process
        if not process.alive:
            raise Killed
        self.steps += 1
        if self.trace:
            self.say(process, what)
        self.watch(process, what)
        self._give_way(task, self.now + seconds)

    def say(self, process: Process | None, what: str) -> None:
        if self.trace:
            self.trace(f"{self.steps:6} {self.now:9.3f} s  {process.name if process else '':12} {what}")

    def wait_until(self, wake: float) -> None:
        """Lets other tasks run; this one at that time or when its `wake` is set."""
        self._give_way(self.running, wake)

    def _give_way(self, task: Task, wake: float) -> None:
        task.wake = wake
        if not task.process.alive:
            raise Killed
        following = self._next()
        if following is not task:
            assert task.worker
            self._hand_over(following)
            task.worker.baton.acquire()
        if not task.process.alive:
            raise Killed

    @property
    def running(self) -> Task:
        task = self.current
        assert task is not None and task.thread == get_ident(), "an operation outside of the running task"  # noqa: PT018
        return task

    def _perform(self, task: Task) -> None:
        try:
            if task.process.alive:
                task.work()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._errors.append(error)
            self.stop()
        task.done = True
        self.tasks.remove(task)
        for joiner in task.joiners:
            joiner.wake = self.now
        assert task.worker
        Worker.idle.append(task.worker)
        if self.tasks:
            self._hand_over(self._next())
        else:
            self._over.release()

    def _hand_over(self, task: Task) -> None:
        self.current = task
        assert task.worker
        task.worker.baton.release()

    def _next(self) -> Task:
        if (self.now > MOST_SECONDS or self.steps > MOST_STEPS) and not self._stopping:
            self._stand_still()
        while True:
            now, soonest = self.now, FOREVER
            ready: list[Task] = []
            for task in self.tasks:  # at each operation, so without calls
                wake, stopped_until = task.wake, task.process.stopped_until
                if stopped_until > wake:  # noqa: PLR1730 - as above
                    wake = stopped_until
                if wake <= now:
                    ready.append(task)
                elif wake < soonest:
                    soonest = wake
            if len(ready) == 1:
                return ready[0]
            if ready:
                return ready[int(self.random.random() * len(ready))]
            if soonest == FOREVER:
                self._stand_still()
            else:
                self.now = soonest

    def _stand_still(self) -> None:
        waiting = ", ".join(f"{task.process.name}/{task.name}" for task in self.tasks)
        self.stood_still = f"stands still at {self.now:.0f} s, step {self.steps}: {waiting}"
        self.stop()


class Current:
    """The world in which the calling code runs."""

    world: World | None = None


def world() -> World:
    assert Current.world is not None, "no simulation runs"
    return Current.world
