"""One schedule: a setting and faults that a seed chooses, and what they led to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from sluice.batch.query_plan import Bounds
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from sluice.model.spec import Pipeline
from sluice.time_units import SECOND
from tests.chaos.simulation import workload
from tests.chaos.simulation.processes import Ended, Instance, with_checkpoint
from tests.chaos.simulation.scheduler import Process, World
from tests.chaos.simulation.seams import simulated
from tests.chaos.simulation.simulated_broker import Kafka
from tests.chaos.simulation.simulated_clients import Effect, Network
from tests.chaos.simulation.simulated_files import Disk, Inode, Path
from tests.chaos.simulation.threads import TIME
from tests.chaos.simulation.verdict import violations

APIS = ("INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN", "PRODUCE", "TXN_OFFSET_COMMIT", "END_TXN", "FETCH", "OFFSET_FETCH")
#: whose operations are counted down to a fault
ROLES = ("driver", "driver", "state", "broker")
#: how the texts of operations begin
WORDS = (
    "write",
    "open",
    "force",
    "rename",
    "unlink",
    "read",
    "send",
    "connect",
    "mark",
    *APIS,
    *(f"{api} answered" for api in APIS),
)
#: kinds of schedules, and how often each comes
KINDS = {
    "one": 4,
    "buckets": 4,
    "power": 3,
    "copy": 4,
    "twins": 2,
    "standby": 2,
    "changes": 2,
    "snapshots": 3,
    "cluster": 2,
    "damage": 2,
    "store": 2,
}
#: faults of processes, of which several are in the choice, and others; and those for which a kind of schedule stands
PROCESSES = ("kill driver", "kill state", "kill all", "kill all", "stop driver", "stop state", "kill copy")
OTHERS = (
    "outage", "clock", "disk full", "a write fails", "a write fails", "kill tasks", "flip snapshot", "flip log",
    "stale leader", "cut off",
)  # fmt: skip
OF_KIND = {
    "one": ("END_TXN LATE", "END_TXN LOSE", "PRODUCE LATE", "TXN_OFFSET_COMMIT LATE", "kill driver", "forget groups"),
    "power": ("lose power",), "store": ("lose machine",), "buckets": ("forget groups",), "copy": ("start a copy",),
    "standby": ("kill driver", "stop driver", "kill all"),
    "changes": ("change buckets", "change writers", "grow outputs", "lose disk", "forget groups"),
    "snapshots": ("flip snapshot", "kill copy", "kill copy"),
    "cluster": ("a write fails", "a write fails", "disk full", "kill state", "kill tasks", "kill tasks"),
    "damage": ("flip log", "flip log", "flip snapshot"),
    "twins": ("cut off", "stop driver", "kill state", "move back"),
}  # fmt: skip
#: faults that do not belong to a kind of schedule: without the records in Kafka nothing replaces a damaged log
NEVER = {("power", "flip log"), ("store", "flip log")}
#: changes after which a batch that is in parts is one of another shape
CHANGES = ("change buckets", "change writers", "grow outputs")
#: what an instance says that another one has replaced between a look at the ledger and a request
REPLACED = (
    "belongs to the checkpoint", "another instance of this pipeline goes on with a copy",
    "the batch was written with another copy of this checkpoint",
)  # fmt: skip
#: bytes of the head of an entry of the log
HEAD_BYTES = 40
#: what may come right before a copy starts, and some time after that
BEFORE_A_COPY, AFTER_A_COPY = (
    ("cut off", "stop driver", "outage"),
    ("move back", "move back", "heal", "heal", "kill all"),
)
#: bounds in bytes that cut a batch of a few records
BYTES = (100, 400)
#: the operators of a pipeline: both in some schedules, one in most, which takes less time
PIPELINES = (("sums",), ("ranks",), ("ranks",), ("sums", "ranks"))
#: simulated seconds within which all must have come out after the last record, and within which nothing may be hidden
REST_S, HIDDEN_S = 500.0, 80.0
#: operations before which a fault comes: of all of a role, and of those of one kind
MOST_STEPS_BEFORE, MOST_WORDS_BEFORE = 200, 10
#: operations of all processes after which a fault comes in any case, so that few schedules have none
PATIENCE = 250


class Setting(NamedTuple):
    """What a seed chooses beside the faults.

    kind       one of KINDS: one writer; a writer for each bucket; losses of power; a second instance with a copy of the
               checkpoint; two new instances; two instances of which one waits for the lead; other buckets, writers and
               topic partitions after restarts, and lost disks; many batches and snapshots; tasks that Spark repeats;
               damaged files; machines that are lost, with a store of `state:`
    operators  names of operators of the pipeline
    most       records of a topic partition in a batch
    forked     whether snapshots are written by copies of the state servers
    eager      whether a snapshot is due after each batch
    cluster    whether each batch is a job, whose tasks Spark repeats
    bytes      bound on pieces and parts of a batch and on what is not spooled, and the size of a large batch; 0: the
               product's bounds, below which all batches are
    states     whether the state at the end is compared, which takes a seventh of the time
    """

    kind: str
    operators: tuple[str, ...]
    buckets: int
    writers: str
    records: int
    most: int
    forked: bool
    eager: bool
    cluster: bool
    bytes: int
    states: bool

    @classmethod
    def draw(cls, seeded: Random, kinds: Collection[str] = ()) -> Setting:
        """`kinds`: those of KINDS from which the kind is drawn; all by default."""
        drawn = {kind: count for kind, count in KINDS.items() if kind in (kinds or KINDS)}
        kind = seeded.choices([*drawn], [*drawn.values()])[0]
        writers = {"one": "one", "buckets": "buckets"}.get(kind) or seeded.choice(["one", "buckets"])
        operators = seeded.choice(PIPELINES)
        buckets, records, most = seeded.choice([1, 1, 2, 2, 3]), seeded.randint(6, 16), seeded.randint(2, 8)
        forked, eager = seeded.random() < 0.4, seeded.random() < 0.4
        small = seeded.choice([0, 0, *BYTES])
        many = kind in ("snapshots", "store")
        if many:  # enough batches to remove what is old
            buckets, records, most, eager = 1 if kind == "snapshots" else buckets, records + 16, 2, True
        states = many or kind in ("power", "damage") or seeded.random() < 0.3
        cluster = not many and (seeded.random() < 0.1 or kind == "cluster")
        return cls(kind, operators, buckets, writers, records, most, forked, eager, cluster, small, states)

    @property
    def bounds(self) -> Bounds:
        snapshot = 0 if self.forked else Bounds().snapshot
        if not self.bytes:
            return Bounds(snapshot=snapshot)
        return Bounds(self.bytes, self.bytes, self.bytes, self.bytes, snapshot)


class Planned(NamedTuple):
    """A fault: after so many operations since the fault before, of processes of a role or whose text begins so; or
    after `patience` operations of any kind.
    """

    role: str
    word: str
    after: int
    name: str
    patience: int = PATIENCE


@dataclass
class Outcome:
    seed: int
    setting: Setting
    wrong: list[str]
    faults: list[str] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    batches: int = 0


class Simulation:
    """Runs one schedule."""

    def __init__(
        self, seed: int, trace: Callable[[str], object] | None = None, *,
        verifies: bool = True, kinds: Collection[str] = (),
    ) -> None:  # fmt: skip
        """`verifies`: whether the brokers implement part 1 of KIP-890. `kinds` as in `Setting.draw`."""
        self._seed = seed
        self._seeded = Random(f"faults {seed}")
        self.setting = Setting.draw(self._seeded, kinds)
        self.world = World(f"world {seed}", trace)
        self.disk, self.network = Disk(), Network()
        self.world.disk, self.world.network = self.disk, self.network  # type: ignore[attr-defined]
        self.kafka = Kafka(self.world, verifies=verifies)
        self.world.kafka = self.kafka  # type: ignore[attr-defined]
        self.load = workload.Load(Random(f"load {seed}"), self.setting.records)
        self.happened: list[str] = []
        self._pending = self._drawn()
        self.world.watch = self._watch
        self._base = workload.pipeline(self.setting.operators)
        self.instances: list[Instance] = []
        self.wrong: list[str] = []
        self._copied = False
        #: where the ledger was when the folder was lost
        self._restored_from: dict[tuple[str, int], int] | None = None
        #: the number of the instance that the operator wants; the other one is not started again
        self.active = 0

    def run(self) -> Outcome:
        for topic, partitions in workload.TOPICS.items():
            self.kafka.create(topic, partitions)
        with simulated(self.setting.bounds, eager=self.setting.eager, large=self.setting.bytes):
            self.world.run(self._run)
        if self.world.stood_still:
            self.wrong.append(self.world.stood_still)
        for instance in self.instances:
            unexpected = (one for one in instance.ended if not self._expected(one))
            ends = Counter(f"a service ended with {one.code}: {one.what}" for one in unexpected)
            self.wrong += [f"{what} ({count} times)" for what, count in ends.items()]
        entries = sum(1 for _ in self.kafka.partitions[ledger.TOPIC, 0].records)
        happened = [*self.happened, *self.network.happened]
        return Outcome(self._seed, self.setting, self.wrong, happened, self.world.steps, self.world.now, entries)

    def _expected(self, ended: Ended) -> bool:
        """Whether a service may end so after the faults that happened."""
        if "UnreadableStateError" in ended.what:  # the snapshot before a damaged one, and the log, lead to the state
            return "flip log" in self.happened or self.happened.count("flip snapshot") > 1
        return ended.expected or (len(self.instances) > 1 and any(text in ended.what for text in REPLACED))

    def _run(self) -> None:
        self._add_instance("a", lead=self.setting.kind == "standby")
        if self.setting.kind in ("standby", "twins"):
            self._add_instance("b", lead=self.setting.kind == "standby")
        seeded = Random(f"arrivals {self._seed}")
        number = 0
        while number < len(self.load.sent):
            for _ in range(min(seeded.randint(1, 4), len(self.load.sent) - number)):
                self.load.arrive(self.kafka, number, aborted=seeded.random() < 0.05)
                number += 1
            TIME.sleep(seeded.random() * 0.5)
        self._await_outputs()

    def _await_outputs(self) -> None:
        until = self.world.now + REST_S
        while not self._all_read() and self.world.now < until:
            TIME.sleep(0.5)
        if not self._all_read():
            self.wrong.append(f"not all records were handled within {REST_S:g} s")
            return
        self._pending = []
        hidden_until = self.world.now + HIDDEN_S
        TIME.sleep(0.3)
        while self._hidden() and self.world.now < hidden_until:
            TIME.sleep(1.0)
        if hidden := self._hidden():
            self.wrong.append(f"open transactions hide records of {hidden}")
        for instance in self.instances:
            instance.restart = lambda: None
        for process in self.world.processes:
            if process.role in ("driver", "state", "copy"):
                self.world.kill(process)
        self.network.faults.clear()  # what is left would hit the reads of the verdict
        self.kafka.stale_until = self.kafka.down_until = 0.0
        self.wrong += violations(self)

    def _all_read(self) -> bool:
        """Whether the ledger has a batch that ends at the ends of all inputs."""
        return self._read() == {place: one.end for place, one in self.kafka.partitions.items() if place[0] == "in"}

    def _read(self) -> dict[tuple[str, int], int]:
        """The offsets at which the last batch of the ledger ends; empty if it has none."""
        entries = self._entries()
        return self._end_of(entries[-1]) if entries else {}

    def _entries(self) -> list[Entry]:
        visible, _ = self.kafka.partitions[ledger.TOPIC, 0].visible(0, committed=True)
        values = [record.value for _, record in visible if record.key == workload.NAME.encode() and record.value]
        return [Entry.from_json(value) for value in values]

    @staticmethod
    def _end_of(entry: Entry) -> dict[tuple[str, int], int]:
        return {} if entry.planned is None else dict(entry.planned.offsets)

    def _hidden(self) -> list[tuple[str, int]]:
        return [place for place, one in self.kafka.partitions.items() if one.stable < one.end]

    # ---- instances ---------------------------------------------------------------------------------------------------

    def _add_instance(self, name: str, *, lead: bool = False) -> Instance:
        of, cluster = self.setting.most, self.setting.cluster
        instance = Instance(name, self._pipeline(name), workload.topics(), of, lead=lead, cluster=cluster)
        seeded = self._seeded
        instance.restart = lambda: None if self._replaced(instance) else seeded.random() * 2.0
        self.instances.append(instance)
        assert self.disk.root.entries is not None
        self.disk.root.entries.setdefault(name, Inode(folder=True))
        self.world.spawn(self._outside, f"orchestrator of {name}", instance.keep_running)
        return instance

    def _replaced(self, instance: Instance) -> bool:
        """Whether the operator has another instance in its place, and does not start it again."""
        return self.setting.kind in ("copy", "twins") and instance is not self.instances[self.active]

    @property
    def _outside(self) -> Process:
        return self.world.running.process if self.world.running.process.role == "world" else self.kafka.process

    def _pipeline(self, name: str) -> Pipeline:
        durability = "machine" if self.setting.kind == "power" else "process"
        store = {"state": "/store", "snapshot_interval": SECOND} if self.setting.kind == "store" else {}
        return with_checkpoint(
            self._base, f"/{name}/checkpoint", buckets=self.setting.buckets, writers=self.setting.writers,
            durability=durability, **store,
        )  # fmt: skip

    # ---- faults ------------------------------------------------------------------------------------------------------

    def _drawn(self) -> list[Planned]:
        """One half of the faults come at any operation, the other half at one of a kind, so that rare ones are met. One
        is of those for which the kind of schedule stands.
        """
        seeded, names, drawn = self._seeded, self._names(), list[Planned]()
        for _ in range(seeded.randint(1, 5)):
            far = seeded.random() ** 2
            if seeded.random() < 0.5:
                when = seeded.choice(ROLES), "", int(MOST_STEPS_BEFORE * far)
            else:
                when = "", seeded.choice(WORDS), int(MOST_WORDS_BEFORE * far)
            name = seeded.choice(names)
            if name == "kill copy":  # which lives for a few operations
                when = "copy", "", seeded.randrange(8)
            drawn.append(Planned(*when, name))
        if own := OF_KIND.get(self.setting.kind):
            at = seeded.randrange(len(drawn))
            drawn[at] = drawn[at]._replace(name=seeded.choice(own))
            if self.setting.kind == "copy":
                self._surround(drawn, at)
            if self.setting.kind == "changes":
                drawn[at:at] = self._in_parts()
            if self.setting.kind == "power" and seeded.random() < 0.4:  # the folder that is left is a restored one
                written = Planned("", "END_TXN answered", 1 + seeded.randrange(4), "lose power")
                drawn[: at + 1] = [Planned("driver", "", seeded.randrange(150), "lose disk"), written]
            if self.setting.kind == "snapshots" and seeded.random() < 0.5:  # one is incomplete, and a later one damaged
                killed = Planned("copy", "", seeded.randrange(8), "kill copy")
                drawn[at:] = [killed, Planned("driver", "", seeded.randrange(200), "flip snapshot")]
        return drawn

    def _surround(self, drawn: list[Planned], at: int) -> None:
        """Faults around the start of a copy, without which the instance before it ends too soon to do harm."""
        seeded = self._seeded
        if seeded.random() < 0.6:
            drawn[at] = drawn[at]._replace(patience=seeded.randint(0, 40))
            before = seeded.random() < 0.5  # or while the copy is there and is not started yet
            drawn.insert(at + (not before), Planned("driver", "", seeded.randrange(100), seeded.choice(BEFORE_A_COPY)))
        if seeded.random() < 0.6:
            commit = Planned("", "END_TXN answered", seeded.randrange(4), seeded.choice(AFTER_A_COPY))
            drawn.insert(at + 2, commit)

    def _in_parts(self) -> list[Planned]:
        """A change, and one more or a loss of the disk while the first batch after it is perhaps in parts."""
        seeded = self._seeded
        between = Planned(
            "", "END_TXN answered", seeded.randrange(3), seeded.choice([*CHANGES, "lose disk", "lose disk"])
        )
        return [Planned("driver", "", seeded.randrange(100), seeded.choice(CHANGES)), between]

    def _names(self) -> list[str]:
        requests = [f"{api} {effect.name}" for api in APIS for effect in Effect]
        others = [one for one in OTHERS if (self.setting.kind, one) not in NEVER]
        return [*PROCESSES * 2, *self._seeded.sample(requests, 12), *others, *OF_KIND.get(self.setting.kind, [])]

    def _watch(self, process: Process, what: str) -> None:
        """Called at each operation: counts down to the next fault."""
        if not self._pending or process.role == "world" or not self.instances:
            return
        first = self._pending[0]
        counts = process.role == first.role if first.role else what.startswith(first.word)
        if first.patience > 0 and not (counts and first.after == 0):
            self._pending[0] = first._replace(after=first.after - counts, patience=first.patience - 1)
            return
        self._pending.pop(0)
        self._do(first.name)

    def _do(self, name: str) -> None:
        api, _, effect = name.rpartition(" ")
        seconds = self._seeded.uniform(0.01, 8.0) if self._seeded.random() < 0.7 else self._seeded.uniform(8.0, 70.0)
        if effect in Effect.__members__:
            self.network.faults[api].append((Effect[effect], seconds))
            return
        self.world.say(None, f"FAULT: {name}")
        self.happened.append(name)
        getattr(self, f"_{name.replace(' ', '_')}")(seconds)

    def _alive(self, role: str) -> list[Process]:
        return [one for one in self.world.processes if one.alive and one.role == role]

    def _kill(self, role: str) -> None:
        for process in self._seeded.sample(found := self._alive(role), min(1, len(found))):
            self.world.kill(process)

    def _kill_driver(self, _seconds: float) -> None:
        self._kill("driver")

    def _kill_state(self, _seconds: float) -> None:
        self._kill("state")

    def _kill_copy(self, _seconds: float) -> None:
        self._kill("copy")

    def _kill_all(self, _seconds: float) -> None:
        """All processes of the instance at once."""
        for process in [*self._alive("state"), *self._alive("copy"), *self._alive("driver")]:
            if process.name.startswith(self.instances[0].machine.name):
                self.world.kill(process)

    def _kill_tasks(self, _seconds: float) -> None:
        """The state servers go on with requests whose answers are lost, and get the same requests again."""
        for instance in self.instances:
            while instance.machine.connections:
                instance.machine.connections.pop().close()

    def _stop_driver(self, seconds: float) -> None:
        for process in self._alive("driver")[:1]:
            self.world.freeze(process, seconds)

    def _stop_state(self, seconds: float) -> None:
        for process in self._alive("state")[:1]:
            self.world.freeze(process, seconds)

    def _outage(self, seconds: float) -> None:
        self.kafka.down_until = self.world.now + 1.5 * seconds  # at times longer than the service tries

    def _cut_off(self, seconds: float) -> None:
        """No request of the first instance arrives, while those of a second one do."""
        self.network.cut_off["a"] = self.world.now + seconds

    def _heal(self, _seconds: float) -> None:
        """What was cut off or stopped goes on."""
        self.network.cut_off.clear()
        for process in self.world.processes:
            process.stopped_until = min(process.stopped_until, self.world.now)

    def _clock(self, seconds: float) -> None:
        self.world.jump += self._seeded.choice([-1, 1]) * seconds

    def _disk_full(self, seconds: float) -> None:
        self.disk.full = True

        def heal() -> None:
            self.disk.full = False

        self.world.spawn(self.kafka.process, "room", heal, after=seconds / 4)

    def _a_write_fails(self, _seconds: float) -> None:
        self.disk.failing = self._seeded.choice(["state", "state", "driver"])

    def _lose_power(self, _seconds: float) -> None:
        """What was read is gone from Kafka, too, so the folder is the only copy of the state; unless the folder was
        lost, and no batch was written since then.
        """
        self._kill_all(0.0)
        self.disk.lose_power(self._seeded)
        if self._read() != self._restored_from:
            self._delete_records(self._read())

    def _delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Kafka deletes the records before these offsets."""
        self.happened.append("delete records")
        for place, offset in before.items():
            self.kafka.partitions[place].start = offset

    def _flip_snapshot(self, _seconds: float) -> None:
        """A bit of the newest snapshot of a bucket, while no process runs."""
        self._kill_all(0.0)
        self._flip(".state")

    def _flip_log(self, _seconds: float) -> None:
        """A bit of the newest file of the log of a bucket, while no process runs; often one of its head. Or the file is
        gone.
        """
        self._kill_all(0.0)
        self._flip(".log", self._seeded.choice([HEAD_BYTES, 1 << 30]), lost=self._seeded.random() < 0.25)

    def _flip(self, suffix: str, most: int = 1 << 30, *, lost: bool = False) -> None:
        """`most`: of so many bytes at the begin of the file."""
        paths = [path for path in self._buckets(self._seeded.randrange(self.setting.buckets)) if path.suffix == suffix]
        if not paths:
            return
        path = max(paths, key=lambda path: int(path.stem))
        data = self.disk.need(path).data
        if lost:
            del self.disk.folder_of(path)[path.name]
        elif data:
            data[self._seeded.randrange(min(most, len(data)))] ^= 1

    def _buckets(self, number: int) -> Sequence[Path]:
        inode = self.disk.find(Path(f"/a/checkpoint/buckets/{number}"))
        return [Path(f"/a/checkpoint/buckets/{number}/{name}") for name in sorted(inode.entries or ())] if inode else []

    def _stale_leader(self, seconds: float) -> None:
        self.kafka.stale_until = self.world.now + seconds

    def _start_a_copy(self, seconds: float) -> None:
        """A second instance with a copy of the checkpoint, or with none. The first one goes on until it starts."""
        if self._copied:
            return
        self._copied = True
        source = self.disk.find(Path("/a"))
        if source is not None and self._seeded.random() < 0.7:
            self.disk.copy(source, Path("/b"))
        later = seconds / 8 if self._seeded.random() < 0.6 else 0.0
        self.world.spawn(self.kafka.process, "start of a copy", self._start_copied, after=later)

    def _start_copied(self) -> None:
        self._add_instance("b")
        self.active = 1

    def _move_back(self, _seconds: float) -> None:
        """The operator ends one instance and starts the other one, with the checkpoint that it has."""
        if len(self.instances) < 2:
            return
        before, self.active = self.instances[self.active], 1 - self.active
        for process in self.world.processes:
            if process.host == before.machine.name:
                self.world.kill(process)
        now = self.instances[self.active]
        if not now.kept:
            self.world.spawn(self._outside, f"orchestrator of {now.machine.name} again", now.keep_running)

    def _change_buckets(self, _seconds: float) -> None:
        self._changed(buckets=self._seeded.choice([1, 2, 3]))

    def _change_writers(self, _seconds: float) -> None:
        self._changed(writers=self._seeded.choice(["one", "buckets"]))

    def _grow_outputs(self, _seconds: float) -> None:
        """The topic of an output gets topic partitions."""
        instance, stream = self.instances[0], self._seeded.choice(self.setting.operators)
        topic = instance.topics[stream]
        more = self._seeded.choice([1, 1, 2, 3])
        instance.topics = instance.topics | {stream: replace(topic, partitions=topic.partitions + more)}
        self.kafka.create(stream, topic.partitions + more)
        self._changed()

    def _lose_disk(self, _seconds: float) -> None:
        """The checkpoint of the first instance is gone. Kafka has all records."""
        if "lose power" in self.happened:  # it has not
            return
        self._kill_all(0.0)
        self._restored_from = self._read()
        if self.disk.find(Path("/a/checkpoint")) is not None:
            del self.disk.folder_of(Path("/a/checkpoint"))["checkpoint"]

    def _lose_machine(self, seconds: float) -> None:
        """The checkpoint is gone, and so are the records that the snapshots in the store make needless. Of one bucket
        the newest of two may be damaged.
        """
        self._lose_disk(seconds)
        stored = [self._stored(number) for number in range(self.setting.buckets)]
        if not all(stored):
            return
        damaged = self._seeded.choice(stored) if self._seeded.random() < 0.4 else []
        if len(damaged) > 1:
            data = self.disk.need(damaged.pop()[1]).data
            data[self._seeded.randrange(len(data))] ^= 1
        version = min(snapshots[-1][0] for snapshots in stored)
        self._delete_records(next(self._end_of(entry) for entry in self._entries() if entry.batch == version - 1))

    def _stored(self, number: int) -> list[tuple[int, Path]]:
        """The snapshots of a bucket in the store, the oldest first: version and file."""
        folder = Path(f"/store/{workload.NAME}/snapshots/{self.setting.buckets}/{number}")
        inode = self.disk.find(folder)
        names = [name for name in (inode.entries or () if inode else ()) if name.endswith(".state")]
        return sorted((int(name.partition("-")[0]), folder / name) for name in names)

    def _forget_groups(self, _seconds: float) -> None:
        """The service stands for a week: the brokers remove the offsets of its groups, and its transactional ids."""
        self._kill_all(0.0)
        self.kafka.forget()

    def _changed(self, **settings: object) -> None:
        instance = self.instances[0]
        instance.pipeline = replace(instance.pipeline, settings=replace(instance.pipeline.settings, **settings))  # type: ignore[arg-type]
        self._kill("driver")
