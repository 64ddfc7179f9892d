"""One schedule: a setting and faults that a seed chooses, and what they led to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

from sluice.batch.query_plan import Bounds
from sluice.kafka import ledger
from sluice.kafka.batch_report import Entry
from sluice.model.spec import Pipeline
from tests.chaos.simulation import workload
from tests.chaos.simulation.processes import Instance, with_checkpoint
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
KINDS = {"one": 4, "buckets": 4, "power": 3, "copy": 3, "standby": 2, "changes": 2, "snapshots": 2}
#: faults of processes, of which several are in the choice, and others; and those for which a kind of schedule stands
PROCESSES = ("kill driver", "kill state", "kill all", "kill all", "stop driver", "stop state", "kill copy")
OTHERS = ("outage", "clock", "disk full", "disk full", "flip snapshot", "flip snapshot", "stale leader")
OF_KIND = {
    "power": ("lose power",), "copy": ("start a copy",), "standby": ("kill driver", "stop driver", "kill all"),
    "changes": ("change buckets", "change writers"), "snapshots": ("flip snapshot", "kill copy"),
}  # fmt: skip
#: simulated seconds within which all must have come out after the last record, and within which nothing may be hidden
REST_S, HIDDEN_S = 500.0, 80.0
#: operations before which a fault comes: of all of a role, and of those of one kind
MOST_STEPS_BEFORE, MOST_WORDS_BEFORE = 400, 12


class Setting(NamedTuple):
    """What a seed chooses beside the faults.

    kind       one of KINDS: one writer; a writer for each bucket; losses of power; a second instance with a copy of the
               checkpoint; two instances of which one waits for the lead; other buckets and writers after restarts;
               many batches and snapshots
    most       records of a topic partition in a batch
    forked     whether snapshots are written by copies of the state servers
    eager      whether a snapshot is due after each batch
    """

    kind: str
    buckets: int
    writers: str
    records: int
    most: int
    forked: bool
    eager: bool

    @classmethod
    def draw(cls, seeded: Random) -> Setting:
        kind = seeded.choices([*KINDS], [*KINDS.values()])[0]
        writers = {"one": "one", "buckets": "buckets"}.get(kind) or seeded.choice(["one", "buckets"])
        buckets, records, most = seeded.choice([1, 2, 2, 3]), seeded.randint(8, 28), seeded.randint(2, 8)
        forked, eager = seeded.random() < 0.4, seeded.random() < 0.4
        if kind == "snapshots":  # enough batches to remove what is old
            return cls(kind, 1, writers, records + 20, 2, forked, eager=True)
        return cls(kind, buckets, writers, records, most, forked, eager)


class Planned(NamedTuple):
    """A fault: after so many operations since the fault before, of processes of a role or whose text begins so."""

    role: str
    word: str
    after: int
    name: str


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

    def __init__(self, seed: int, trace: Callable[[str], object] | None = None, *, verifies: bool = True) -> None:
        """`verifies`: whether the brokers implement part 1 of KIP-890."""
        self._seed = seed
        self._seeded = Random(f"faults {seed}")
        self.setting = Setting.draw(self._seeded)
        self.world = World(f"world {seed}", trace)
        self.disk, self.network = Disk(), Network()
        self.world.disk, self.world.network = self.disk, self.network  # type: ignore[attr-defined]
        self.kafka = Kafka(self.world, verifies=verifies)
        self.world.kafka = self.kafka  # type: ignore[attr-defined]
        self.load = workload.Load(Random(f"load {seed}"), self.setting.records)
        self.happened: list[str] = []
        self._pending = self._drawn()
        self.world.watch = self._watch
        self._base = workload.pipeline()
        self.instances: list[Instance] = []
        self.wrong: list[str] = []
        self._copied = False

    def run(self) -> Outcome:
        for topic, partitions in workload.TOPICS.items():
            self.kafka.create(topic, partitions)
        bounds = Bounds(snapshot=0) if self.setting.forked else Bounds()
        with simulated(bounds, eager=self.setting.eager):
            self.world.run(self._run)
        if self.world.stood_still:
            self.wrong.append(self.world.stood_still)
        for instance in self.instances:
            ends = Counter(f"a service ended with {one.code}: {one.what}" for one in instance.ended if not one.expected)
            self.wrong += [f"{what} ({count} times)" for what, count in ends.items()]
        entries = sum(1 for _ in self.kafka.partitions[ledger.TOPIC, 0].records)
        happened = [*self.happened, *self.network.happened]
        return Outcome(self._seed, self.setting, self.wrong, happened, self.world.steps, self.world.now, entries)

    def _run(self) -> None:
        self._add_instance("a", lead=self.setting.kind == "standby")
        if self.setting.kind == "standby":
            self._add_instance("b", lead=True)
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
        self.wrong += violations(self)

    def _all_read(self) -> bool:
        """Whether the ledger has a batch that ends at the ends of all inputs."""
        return self._read() == {place: one.end for place, one in self.kafka.partitions.items() if place[0] == "in"}

    def _read(self) -> dict[tuple[str, int], int]:
        """The offsets at which the last batch of the ledger ends; empty if it has none."""
        visible, _ = self.kafka.partitions[ledger.TOPIC, 0].visible(0, committed=True)
        entries = [record.value for _, record in visible if record.key == workload.NAME.encode() and record.value]
        planned = Entry.from_json(entries[-1]).planned if entries else None
        return {} if planned is None else dict(planned.offsets)

    def _hidden(self) -> list[tuple[str, int]]:
        return [place for place, one in self.kafka.partitions.items() if one.stable < one.end]

    # ---- instances ---------------------------------------------------------------------------------------------------

    def _add_instance(self, name: str, *, lead: bool = False) -> Instance:
        instance = Instance(name, self._pipeline(name), workload.topics(), self.setting.most, lead=lead)
        seeded = self._seeded
        instance.restart = lambda: None if self._replaced(instance) else seeded.random() * 2.0
        self.instances.append(instance)
        assert self.disk.root.entries is not None
        self.disk.root.entries.setdefault(name, Inode(folder=True))
        self.world.spawn(self._outside, f"orchestrator of {name}", instance.keep_running)
        return instance

    def _replaced(self, instance: Instance) -> bool:
        """Whether another instance has fenced this one, which an operator then does not start again."""
        return self.setting.kind == "copy" and len(self.instances) > 1 and instance is self.instances[0]

    @property
    def _outside(self) -> Process:
        return self.world.running.process if self.world.running.process.role == "world" else self.kafka.process

    def _pipeline(self, name: str) -> Pipeline:
        durability = "machine" if self.setting.kind == "power" else "process"
        return with_checkpoint(
            self._base, f"/{name}/checkpoint", buckets=self.setting.buckets, writers=self.setting.writers,
            durability=durability,
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
            drawn.append(Planned(*when, seeded.choice(names)))
        if own := OF_KIND.get(self.setting.kind):
            at = seeded.randrange(len(drawn))
            drawn[at] = drawn[at]._replace(name=seeded.choice(own))
        return drawn

    def _names(self) -> list[str]:
        requests = [f"{api} {effect.name}" for api in APIS for effect in Effect]
        return [*PROCESSES * 2, *self._seeded.sample(requests, 12), *OTHERS, *OF_KIND.get(self.setting.kind, [])]

    def _watch(self, process: Process, what: str) -> None:
        """Called at each operation: counts down to the next fault."""
        if not self._pending or process.role == "world":
            return
        first = self._pending[0]
        if not (process.role == first.role if first.role else what.startswith(first.word)):
            return
        if first.after > 0:
            self._pending[0] = first._replace(after=first.after - 1)
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

    def _stop_driver(self, seconds: float) -> None:
        for process in self._alive("driver")[:1]:
            self.world.freeze(process, seconds)

    def _stop_state(self, seconds: float) -> None:
        for process in self._alive("state")[:1]:
            self.world.freeze(process, seconds)

    def _outage(self, seconds: float) -> None:
        self.kafka.down_until = self.world.now + seconds

    def _clock(self, seconds: float) -> None:
        self.world.jump += self._seeded.choice([-1, 1]) * seconds

    def _disk_full(self, seconds: float) -> None:
        self.disk.full = True

        def heal() -> None:
            self.disk.full = False

        self.world.spawn(self.kafka.process, "room", heal, after=seconds / 4)

    def _lose_power(self, _seconds: float) -> None:
        """What was read is gone from Kafka, too, so the folder is the only copy of the state."""
        self._kill_all(0.0)
        self.disk.lose_power(self._seeded)
        for place, offset in self._read().items():
            self.kafka.partitions[place].start = offset

    def _flip_snapshot(self, _seconds: float) -> None:
        """A bit of the newest snapshot of a bucket, while no process runs."""
        self._kill_all(0.0)
        snapshots = [
            path for path in self._buckets(self._seeded.randrange(self.setting.buckets)) if path.suffix == ".state"
        ]
        if snapshots:
            data = self.disk.need(max(snapshots, key=lambda path: int(path.stem))).data
            if data:
                data[self._seeded.randrange(len(data))] ^= 1

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
        self.world.spawn(self.kafka.process, "start of a copy", lambda: self._add_instance("b"), after=later)

    def _change_buckets(self, _seconds: float) -> None:
        self._changed(buckets=self._seeded.choice([1, 2, 3]))

    def _change_writers(self, _seconds: float) -> None:
        self._changed(writers=self._seeded.choice(["one", "buckets"]))

    def _changed(self, **settings: object) -> None:
        instance = self.instances[0]
        instance.pipeline = replace(instance.pipeline, settings=replace(instance.pipeline.settings, **settings))  # type: ignore[arg-type]
        self._kill("driver")
