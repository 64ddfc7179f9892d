"""The processes of simulated instances: the service with a model of Spark, and the state servers of its pool.

Of Spark only the loop is modelled: it plans a batch in its log, calls the service, and notes in another log that the
batch is done. All that happens in between is code of the product.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sluice.batch.commit import commit
from sluice.batch.inputs_again import input_again
from sluice.batch.packed_rows import split_pass_through
from sluice.batch.query_plan import Plan
from sluice.checkpoint import offset_log
from sluice.checkpoint.checkpoint_store import put_bytes
from sluice.checkpoint.folder_store import FolderStore
from sluice.kafka.batch_report import Planned
from sluice.kafka.consumer_groups import Lead
from sluice.kafka.following_reader import FollowingReader
from sluice.kafka.kafka_errors import PartsClosedError
from sluice.kafka.range_reader import READER_PROPERTIES, ends
from sluice.kafka.requests import RETRY_TIMEOUT_S, clients, patience
from sluice.kafka.topics import Topic
from sluice.model.errors import SluiceError
from sluice.model.spec import Pipeline
from sluice.spark.lanes.direct_lane import DirectLane, RecordFeed
from sluice.state.bucket import Bucket
from sluice.state.checkpoint_start import open_checkpoint
from sluice.state.message import Message
from sluice.state.server import state_server
from sluice.state.server.request import StateServerError, request
from sluice.state.snapshot_archive import SnapshotArchive
from sluice.state.snapshot_uploads import SnapshotUploads
from tests.chaos.simulation import simulated_clients
from tests.chaos.simulation.scheduler import Killed, Process, World, world
from tests.chaos.simulation.simulated_files import Path
from tests.chaos.simulation.threads import TIME, Event, Executor

#: seconds of the wait of a query without new records
PAUSE = 0.2
#: attempts of a task on a cluster (`spark.task.maxFailures`)
ATTEMPTS = 4
#: errors after which a service may end, and an orchestrator starts it again: by the name of the class
EXPECTED = (
    "UnavailableError",
    "HungError",
    "FencedError",
    "TakenOverError",
    "ExpiredError",
    "StoreUnavailableError",
    "No space left on device",
)


# ---- sockets ---------------------------------------------------------------------------------------------------------


class Pipe:
    def __init__(self) -> None:
        self.data, self.closed, self.changed = bytearray(), False, Event()

    def close(self) -> None:
        self.closed = True
        self.changed.set()


class Socket:
    """One end of a connection between two processes. It ends with either of them."""

    def __init__(self, inbox: Pipe, outbox: Pipe, owner: Process) -> None:
        self.inbox, self._outbox = inbox, outbox
        owner.on_end.append(self.close)

    def sendall(self, data: Any) -> None:
        world().tick("send")
        if self._outbox.closed:
            raise BrokenPipeError
        self._outbox.data += data
        self._outbox.changed.set()

    def makefile(self, _mode: str) -> Self:
        return self

    def read(self, size: int) -> bytes:
        while len(self.inbox.data) < size and not self.inbox.closed:
            self.inbox.changed.clear()
            self.inbox.changed.wait()
        data = bytes(self.inbox.data[:size])
        del self.inbox.data[:size]
        return data

    def settimeout(self, _seconds: float | None) -> None: ...

    def close(self) -> None:
        self.inbox.close()
        self._outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


# ---- state servers ---------------------------------------------------------------------------------------------------


@dataclass
class Listener:
    """Where connections to a state server arrive."""

    process: Process
    waiting: list[Socket] = field(default_factory=list)
    changed: Event = field(default_factory=Event)


class Machine:
    """A machine with its pool: the state servers of the starts of a service."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.listeners: dict[tuple[str, int], Listener] = {}
        #: the ends of connections to state servers
        self.connections: list[Socket] = []
        self._forked = 0

    def listener(self, query: str, bucket: int, driver: Process) -> Listener:
        found = self.listeners.get((query, bucket))
        if found is None or not found.process.alive:
            self._forked += 1
            server = world().process(f"{self.name}.state{bucket}.{self._forked}", "state", driver)
            found = self.listeners[query, bucket] = Listener(server)
            world().spawn(server, "serve", lambda listener=found: serve(listener))  # type: ignore[misc]
        return found


def connection(query: str, bucket: int, version: int) -> Socket:
    """As `sluice.state.server.pool.connection`."""
    del version
    process = world().running.process
    world().tick(f"connect to state server {bucket}")
    machine: Machine = process.memory["machine"]
    listener = machine.listener(query, bucket, process)
    there, back = Pipe(), Pipe()
    listener.waiting.append(Socket(there, back, listener.process))
    listener.changed.set()
    machine.connections.append(Socket(back, there, process))
    return machine.connections[-1]


def serve(listener: Listener) -> None:
    """As `state_server.serve`, with simulated connections."""
    bucket: Bucket | None = None
    listener.process.memory["machine"] = None
    while True:
        ready = next((one for one in listener.waiting if one.inbox.data or one.inbox.closed), None)
        if ready is None:
            listener.changed.clear()
            for one in listener.waiting:
                one.inbox.changed = listener.changed
            listener.changed.wait()
            continue
        try:
            question = Message.read(ready)  # type: ignore[arg-type]
        except EOFError:
            listener.waiting.remove(ready)
            continue
        with suppress(OSError):
            bucket = state_server._served(ready, question, bucket)  # type: ignore[arg-type]  # noqa: SLF001
        if bucket is not None:
            with suppress(OSError):
                bucket.maintain()


# ---- Spark -----------------------------------------------------------------------------------------------------------


class SparkLog:
    """Spark's files in a checkpoint, written as Spark does: not forced, with Hadoop's checksums."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._store = FolderStore(Path(plan.checkpoint))
        self._committed = -1
        self._before: Planned | None = None

    def begin(self) -> int | None:
        """What Spark does when a query starts. Returns the batch that is planned and not committed."""
        if "metadata" not in set(self._store.list("metadata")):
            self._put("metadata", json.dumps({"id": "spark"}).encode())
        committed, planned = offset_log.batches(self._store)
        self._committed = -1 if committed is None else committed
        if planned is None or planned == committed:
            return None
        if planned and not {planned - 1, planned} <= offset_log.batches_in(self._store, offset_log.PLANNED):
            raise AssertionError(f"Spark refuses to start: no plan of batch {planned - 1}")
        return planned

    def plan_next(self, most: int, requests: Any) -> int | None:
        """Plans the next batch, if there are new records."""
        if self._before is None:
            self._before = self._position()
        before, batch = self._before, self._committed + 1
        last = ends(requests, self._plan.places)
        limited = {place: min(last[place], before.offsets[place] + most) for place in self._plan.places}
        offsets = {place: max(offset, before.offsets[place]) for place, offset in limited.items()}
        if offsets == before.offsets:
            return None
        now = TIME.time_ns() // 1_000_000 * 1_000_000
        self._before = Planned(now, offsets, 0)
        self._put(f"{offset_log.PLANNED}/{batch}", offset_log._offsets(self._before, idle_clock=False))  # noqa: SLF001
        return batch

    def _position(self) -> Planned:
        """Where the next batch begins."""
        if self._committed >= 0:
            return offset_log.planned(self._store, self._committed)
        first = offset_log.first_offsets(self._store)
        before = Planned(0, dict.fromkeys(self._plan.places, 0) | dict(first), 0)
        if not first:
            lines = offset_log._lines(offset_log.VERSION, offset_log._nested(before))  # noqa: SLF001
            self._put(offset_log.FIRST_OFFSETS, b"\0" + lines)
        return before

    def done(self, batch: int) -> None:
        lines = offset_log._lines(offset_log.VERSION, {"nextBatchWatermarkMs": 0})  # noqa: SLF001
        self._put(f"{offset_log.COMMITTED}/{batch}", lines)
        self._committed = batch

    def _put(self, name: str, data: bytes) -> None:
        put_bytes(self._store, name, data)
        folder, slash, file = name.rpartition("/")
        sums = b"".join(zlib.crc32(data[at : at + 512]).to_bytes(4, "big") for at in range(0, len(data), 512))
        put_bytes(self._store, f"{folder}{slash}.{file}.crc", b"crc\0" + (512).to_bytes(4, "big") + sums)


# ---- the service -----------------------------------------------------------------------------------------------------


class Query:
    """One query of the service, from the open checkpoint on."""

    def __init__(self, plan: Plan, most: int, *, cluster: bool) -> None:
        """`cluster`: whether each batch is a job, whose tasks Spark repeats."""
        self._plan, self._most, self._cluster = plan, most, cluster
        self._log = SparkLog(plan)
        properties = {"bootstrap.servers": "simulated"} | READER_PROPERTIES
        make = lambda: simulated_clients.ColumnConsumer(simulated_clients.Consumer(properties))  # noqa: E731
        self._lane = DirectLane(plan, RecordFeed(FollowingReader(make, 2.0)))  # type: ignore[arg-type,return-value]

    def run(self) -> None:
        """Raises the error of the batch that fails."""
        batch = self._log.begin()
        archive = SnapshotArchive.of(self._plan)
        uploads = SnapshotUploads(self._plan, archive, lambda _: None) if archive else nullcontext()
        with uploads, clients(self._plan.pipeline.settings.kafka, "admin") as requests:
            while True:
                if batch is not None:
                    self._written(batch)
                    self._log.done(batch)
                batch = self._log.plan_next(self._most, requests)
                if batch is None:
                    TIME.sleep(PAUSE)

    def _written(self, batch: int) -> None:
        """As `BatchLanes`: the direct lane, or else a job of Spark; then the transaction."""
        plan = self._plan
        if plan.parted and plan.forced:
            offset_log.force_plan(Path(plan.checkpoint), batch)
        outputs = None if self._cluster else self._lane.outputs(batch)
        if outputs is None:
            outputs = self._by_spark(batch)
        commit(plan, batch, outputs)
        if batch == plan.finishing:
            raise PartsClosedError("all parts are written")

    def _by_spark(self, batch: int) -> list[Any]:
        before, now = offset_log.before_batch(self._plan.store, batch), offset_log.planned(self._plan.store, batch)
        own, arrived = input_again(self._plan, before, now)
        with Executor() as tasks:
            made = tasks.map(lambda number: self._task(own, number, batch, arrived.get(number, [])), range(own.buckets))
            return [row for rows in made for row in rows]

    def _task(self, own: Plan, number: int, batch: int, rows: list[Any]) -> list[Any]:
        through, rest = split_pass_through(own.topic_partitions, rows)
        for left in reversed(range(ATTEMPTS if self._cluster else 1)):
            try:
                return [*through, *request(self._plan, number, batch, rest)]
            except (StateServerError, SluiceError, OSError, EOFError):
                if not left:
                    raise
        raise AssertionError


@dataclass
class Ended:
    """How a process of a service ended."""

    code: int
    what: str
    expected: bool


class Instance:
    """A service that an orchestrator starts again whenever it ends."""

    def __init__(
        self, name: str, pipeline: Pipeline, topics: dict[str, Topic], most: int, *,
        lead: bool = False, cluster: bool = False,
    ) -> None:  # fmt: skip
        """`most`: records of a topic partition in a batch. `lead`: whether it waits for the lead (`--standby`).
        `cluster`: as in `Query`.
        """
        self.machine = Machine(name)
        self.pipeline, self.topics, self._most, self._lead = pipeline, topics, most, lead
        self._cluster = cluster
        #: whether the orchestrator starts it again whenever it ends
        self.kept = False
        self.process: Process | None = None
        self.ended: list[Ended] = []
        self.starts = 0
        #: seconds before the next start; None: it is not started again
        self.restart: Callable[[], float | None] = lambda: 0.5

    def keep_running(self) -> None:
        """In a task of the world."""
        here, self.kept = world(), True
        while True:
            self.starts += 1
            process = self.process = here.process(f"{self.machine.name}{self.starts}", "driver")
            process.memory["machine"] = self.machine
            over = Event()
            process.on_end.append(over.set)
            here.spawn(process, "main", lambda process=process: self._main(here, process))  # type: ignore[misc]
            over.wait()
            pause = self.restart()
            if pause is None:
                self.kept = False
                return
            self._end_servers(here, process)
            TIME.sleep(pause)

    def _end_servers(self, here: World, driver: Process) -> None:
        """The state servers end some time after their service."""
        for one in here.processes:
            if one.parent is driver and one.alive:
                delay = here.random.random() * (2.0 if here.random.random() < 0.3 else 0.01)
                self._end_later(here, one, delay)

    def _end_later(self, here: World, one: Process, delay: float) -> None:
        def end() -> None:
            here.kill(one)
            for copy in here.processes:
                if copy.parent is one:
                    here.kill(copy)

        here.spawn(here.running.process, "end of a state server", end, after=delay)

    def _main(self, here: World, process: Process) -> None:
        ended = Ended(0, "", expected=True)
        try:
            self._run()
        except Killed:
            raise
        except StateServerError as error:
            text = str(error)
            ended = Ended(6, text[-1500:], expected=any(name in text for name in EXPECTED))
        except SluiceError as error:
            name = type(error).__name__
            expected = any(word in f"{name}: {error}" for word in EXPECTED)
            ended = Ended(error.exit_code, f"{name}: {error}", expected=expected)
        except (OSError, EOFError) as error:
            ended = Ended(6, repr(error), expected=True)
        self.ended.append(ended)
        here.say(process, f"exit code {ended.code}: {ended.what}")
        here.kill(process, ended.code)

    def _run(self) -> None:
        if not self._lead:
            self._serve()
            return
        here, process = world(), world().running.process
        with Lead(self.pipeline.settings.kafka, self.pipeline.name, lambda: here.kill(process, 5)) as lead:
            while not lead.wait(1.0):
                pass
            self._serve()

    def _serve(self) -> None:
        while True:
            start = str(world().random.getrandbits(64))
            with patience(RETRY_TIMEOUT_S):
                plan = open_checkpoint(self.pipeline, self.topics, start)
            with suppress(PartsClosedError):
                Query(plan, self._most, cluster=self._cluster).run()


def with_checkpoint(pipeline: Pipeline, folder: str, **settings: Any) -> Pipeline:
    return replace(pipeline, settings=replace(pipeline.settings, checkpoint=folder, **settings))
