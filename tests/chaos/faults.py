"""The kinds of faults of `make chaos`. Each does its harm and heals it; two of them may overlap.

A fault gets the world (the service, the brokers) and a random generator, and returns when it has healed what it can.
What stays down, as a service that was killed, the campaign starts again.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from tests.chaos.brokers import Brokers, Node
from tests.chaos.kafka_frames import Api, Effect, FrameFault
from tests.chaos.surroundings import Store, Surroundings
from tests.recovery.harness.process_table import by_role, frozen, send_signal
from tests.recovery.harness.sluice_process import SluiceProcess
from tests.unit.state.damage import flip

#: exit codes after which the campaign starts the service again: a process of it was killed, the brokers did not answer,
#: another instance has taken over, a batch failed
RESTARTED = (1, 3, 5, 6, -signal.SIGKILL, 128 + signal.SIGKILL)


#: what a standby says in its log
WAITS, LEADS = "standby: waiting for the lead", "leading"


@dataclass
class World:
    """What a fault works on.

    surroundings   what is around the service and the brokers in this campaign
    replace        called with the instance that is the service from now on
    grow           called with the name of an input topic, which gets one more topic partition
    """

    service: SluiceProcess
    brokers: Brokers
    seed: random.Random
    surroundings: Surroundings
    replace: Callable[[SluiceProcess], None]
    grow: Callable[[], str]

    @property
    def checkpoint(self) -> Path:
        return Path(yaml.safe_load(self.service.file.read_text())["checkpoint"])

    def seconds(self, most: float) -> float:
        """How long a fault lasts."""
        return self.seed.uniform(0.2, most)

    def node(self) -> Node:
        return self.seed.choice(self.brokers.nodes)


Fault = Callable[[World], str]


def killed(role: str) -> Fault:
    """SIGKILL to a process of this role, if there is one."""

    def harm(world: World) -> str:
        pids = _pids(world, role)
        send_signal(pids[:1])
        return f"{role} killed" if pids else f"no {role} to kill"

    return harm


def stopped(role: str) -> Fault:
    """SIGSTOP, and SIGCONT after up to 12 s."""

    def harm(world: World) -> str:
        pids = _pids(world, role)
        if not pids:
            return f"no {role} to stop"
        duration = world.seconds(12)
        with suppress(ProcessLookupError), frozen(pids[0]):
            time.sleep(duration)
        return f"{role} stopped for {duration:.1f} s"

    return harm


def _pids(world: World, role: str) -> Sequence[int]:
    return by_role(world.service.pid)[role] if world.service.running else ()


def machine(world: World) -> str:
    world.service.kill()
    return "all processes of the service killed"


def second_instance(world: World) -> str:
    """It is refused, and the first one goes on."""
    other = SluiceProcess(world.service.file, world.service.folder / "second")
    other.start()
    try:
        code = other.await_end(120)
    finally:
        other.clean_up()
    return f"a second instance on the same checkpoint: exit code {code}"


def standby_takes_over(world: World) -> str:
    """A second machine waits for the lead with a folder of its own, which it may have from an earlier lead, and gets it
    when the first machine is lost.
    """
    before = world.service
    other = world.surroundings.other(before)
    other.start()
    other.await_log(WAITS)
    before.kill()
    other.await_log(LEADS)
    world.replace(other)
    return "the machine of the leader was lost, and the standby has the lead"


def store(harm: Callable[[Store], None], what: str) -> Fault:
    """Of the store of `state:`, for up to 15 s."""

    def harmed(world: World) -> str:
        one, duration = world.surroundings.store, world.seconds(15)
        if one is None:
            return "this campaign has no store"
        harm(one)
        time.sleep(duration)
        one.heal()
        return f"the store {what} for {duration:.1f} s"

    return harmed


def clock_set(world: World) -> str:
    """The wall clock of the service's Python processes jumps forward or back, and stays so until the next jump. Beyond
    an hour the service would take the records for future ones (`max_future`).
    """
    seconds = world.seed.choice([-900.0, -60.0, -2.0, 0.0, 2.0, 60.0, 900.0])
    world.surroundings.clock.set(seconds)
    return f"the clock of the service is {seconds:+.0f} s from that of the machine"


def topic_grown(world: World) -> str:
    return world.grow()


def broker_killed(chosen: Callable[[Brokers], Node], what: str) -> Fault:
    """SIGKILL, and a restart after up to 8 s."""

    def harm(world: World) -> str:
        node = chosen(world.brokers)
        node.broker.kill()
        time.sleep(world.seconds(8))
        node.broker.restart()
        return f"{what} killed and restarted"

    return harm


def broker_restarted(world: World) -> str:
    node = world.node()
    node.broker.terminate()
    node.broker.restart()
    return "a broker restarted in order"


def broker_stopped(world: World) -> str:
    node, duration = world.node(), world.seconds(15)
    with frozen(node.broker.pid):
        time.sleep(duration)
    return f"a broker stopped for {duration:.1f} s"


def frame(api: Api, effect: Effect) -> Fault:
    """Of one of the next requests of this kind to whichever broker gets it."""

    def harm(world: World) -> str:
        seconds, nth = world.seconds(8), world.seed.randint(1, 3)
        armed = [FrameFault(api, effect, nth, seconds) for _ in world.brokers.nodes]
        for node, fault in zip(world.brokers.nodes, armed, strict=True):
            node.frames.arm(fault)
        deadline = time.monotonic() + 20
        while not any(fault.happened.is_set() for fault in armed) and time.monotonic() < deadline:
            time.sleep(0.05)
        for node in world.brokers.nodes:
            node.frames.disarm()
        met = sum(fault.happened.is_set() for fault in armed)
        return f"{api.name}: {effect}" + (f" ({met} requests)" if met else ": no such request came")

    return harm


def connections_reset(world: World) -> str:
    for node in world.brokers.nodes:
        node.proxy.reset()
    return "all connections reset"


def one_way(world: World) -> str:
    """A broker gets requests, and its answers do not arrive; or the reverse."""
    node, duration = world.node(), world.seconds(10)
    requests = world.seed.random() < 0.5
    (node.proxy.hold_requests if requests else node.proxy.hold_answers)()
    time.sleep(duration)
    node.proxy.resume()
    return f"{'requests to' if requests else 'answers of'} a broker held for {duration:.1f} s"


def slow_network(world: World) -> str:
    duration = world.seconds(10)
    for node in world.brokers.nodes:
        node.proxy.delay(0.05, 0.05)
    time.sleep(duration)
    for node in world.brokers.nodes:
        node.proxy.resume()
    return f"100 ms between service and brokers for {duration:.1f} s"


def refused(world: World) -> str:
    node, duration = world.node(), world.seconds(8)
    node.proxy.refuse()
    node.proxy.cut()
    time.sleep(duration)
    node.proxy.accept()
    return f"connections to a broker refused for {duration:.1f} s"


def disk_full(role: str) -> Fault:
    def harm(world: World) -> str:
        if not _pids(world, role):
            return f"no {role} whose disk is full"
        duration = world.seconds(5)
        with world.service.unable_to_write(role):
            time.sleep(duration)
        return f"the disk of {role} full for {duration:.1f} s"

    return harm


def bit_flipped(world: World) -> str:
    """In a file of a bucket, while the service is down."""
    world.service.kill()
    files = [path for path in world.checkpoint.rglob("*") if path.is_file() and _of_bucket(path)]
    if not files:
        return "no file of a bucket to damage"
    path = world.seed.choice(sorted(files))
    flip(path, world.seed.randrange(path.stat().st_size))
    return f"a bit of {path.relative_to(world.checkpoint)} flipped"


def _of_bucket(path: Path) -> bool:
    return path.stat().st_size > 0 and any(part.startswith("bucket") or part == "state" for part in path.parts)


def other_buckets(world: World) -> str:
    """The service ends in order, and starts with another number of buckets."""
    if world.service.running:
        os.kill(world.service.pid, signal.SIGTERM)
        with suppress(AssertionError):
            world.service.await_end(120)
    file = yaml.safe_load(world.service.file.read_text())
    file["buckets"] = world.seed.choice([number for number in (1, 2, 3) if number != file["buckets"]])
    world.service.file.write_text(yaml.safe_dump(file, sort_keys=False))
    return f"{file['buckets']} buckets"


def changed_file(world: World) -> str:
    """The service is killed, and starts with a changed file: `upgrade` happens at the start."""
    world.service.kill()
    file = yaml.safe_load(world.service.file.read_text())
    file["max_records_per_batch"] = world.seed.choice([20, 100, 5000, 250_000])
    file["trigger_interval"] = world.seed.choice([0, 0.05, 0.5])
    file["direct_records"] = world.seed.choice([0, 50, 10_000])
    world.service.file.write_text(yaml.safe_dump(file, sort_keys=False))
    return f"batches of {file['max_records_per_batch']} records, {file['direct_records']} of them direct"


#: name of a kind of fault -> the fault
PROCESSES = ("driver", "jvm", "fork server", "pool", "state", "reader")
FAULTS: dict[str, Fault] = {
    **{f"kill {role}": killed(role) for role in PROCESSES},
    **{f"stop {role}": stopped(role) for role in ("driver", "jvm", "pool", "state")},
    "kill machine": machine,
    "second instance": second_instance,
    "kill leader": broker_killed(lambda brokers: brokers.leader("sluice.ledger"), "the leader of the ledger"),
    "kill coordinator": broker_killed(Brokers.transaction_coordinator, "the coordinator of transactions"),
    "kill controller": broker_killed(Brokers.controller, "the controller"),
    "restart broker": broker_restarted,
    "stop broker": broker_stopped,
    **{f"{api.name} {effect.name}": frame(api, effect) for api in Api for effect in Effect},
    "reset connections": connections_reset,
    "one way": one_way,
    "slow network": slow_network,
    "refuse connections": refused,
    "standby takes over": standby_takes_over,
    "store gone": store(Store.refuse, "was gone"),
    "store slow": store(Store.delay, "was slow"),
    **{f"store {code}": store(partial(Store.answer, code=code), f"answered {code}") for code in (500, 503)},
    "set the clock": clock_set,
    "grow a topic": topic_grown,
    "disk full": disk_full("state"),
    "disk full of driver": disk_full("driver"),
    "flip a bit": bit_flipped,
    "other buckets": other_buckets,
    "changed file": changed_file,
}
#: faults of which the brokers take only one at a time: with two of three brokers gone nothing can be written
OF_BROKERS = ("kill leader", "kill coordinator", "kill controller", "restart broker", "stop broker")
#: faults that start or end the service themselves
OF_THE_SERVICE = ("kill machine", "second instance", "flip a bit", "other buckets", "changed file",
                  "standby takes over")  # fmt: skip


def group_of(kind: str) -> str:
    """Faults of one group do not overlap."""
    if kind in OF_BROKERS:
        return "brokers"
    if kind in OF_THE_SERVICE:
        return "service"
    if kind.startswith("store "):
        return "store"
    return "requests" if kind.split(" ", maxsplit=1)[0] in Api.__members__ else kind
