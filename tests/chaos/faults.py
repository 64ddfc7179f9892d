"""The kinds of faults of `make chaos`. Each does its harm and heals it; two of them may overlap.

A fault gets the world (the service, the brokers) and a random generator, and returns when it has healed what it can.
What stays down, as a service that was killed, the campaign starts again.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from tests.chaos.brokers import Brokers, Node
from tests.chaos.file_faults import (
    changed_settings,
    disk_full,
    flipped,
    identity_flipped,
    logs,
    of_buckets,
    of_spark,
    other_buckets,
    read_only,
    snapshots,
    upgraded,
)
from tests.chaos.kafka_frames import Api, Effect, FrameFault
from tests.chaos.load import Load
from tests.chaos.surroundings import Mode, Store, Surroundings
from tests.recovery.harness.process_table import by_role, frozen, send_signal
from tests.recovery.harness.sluice_process import SluiceProcess

#: exit codes after which the campaign starts the service again: a process of it was killed, the brokers did not answer,
#: another instance has taken over, a batch failed
RESTARTED = (1, 3, 5, 6, -signal.SIGKILL, 128 + signal.SIGKILL)


#: seconds of a long stop: as long as the time-outs of Kafka and of Spark, and longer
LONG = 45.0, 130.0
#: what a standby says in its log
WAITS, LEADS = "standby: waiting for the lead", "leading"


@dataclass
class World:
    """What a fault works on.

    surroundings   what is around the service and the brokers in this campaign
    load           the records that are sent
    replace        called with the instance that is the service from now on
    grow           called with the name of an input topic, which gets one more topic partition
    """

    service: SluiceProcess
    brokers: Brokers
    seed: random.Random
    surroundings: Surroundings
    load: Load
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

    def pids(self, role: str) -> Sequence[int]:
        """Of the processes of this role: of the service, or of its cluster."""
        if not self.service.running:
            return ()
        return by_role(self.service.pid).get(role) or self.surroundings.of_cluster(role)


Fault = Callable[[World], str]


def killed(role: str) -> Fault:
    """SIGKILL to a process of this role, if there is one."""

    def harm(world: World) -> str:
        pids = world.pids(role)
        send_signal(pids[:1])
        return f"{role} killed" if pids else f"no {role} to kill"

    return harm


def stopped(role: str, *, long: bool = False) -> Fault:
    """SIGSTOP, and SIGCONT after up to 12 s, or after more than the time-outs of Kafka and Spark."""

    def harm(world: World) -> str:
        pids = world.pids(role)
        if not pids:
            return f"no {role} to stop"
        duration = world.seed.uniform(*LONG) if long else world.seconds(12)
        with suppress(ProcessLookupError), frozen(pids[0]):
            time.sleep(duration)
        return f"{role} stopped for {duration:.1f} s"

    return harm


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
    other.await_log(WAITS, LEADS)  # on a busy machine the leader may have lost the lead before
    before.kill()
    other.await_log(LEADS)
    world.replace(other)
    return "the machine of the leader was lost, and the standby has the lead"


def store(harm: Callable[[Store], None], what: str) -> Fault:
    """Of the store of `state:`, for up to 15 s."""

    def harmed(world: World) -> str:
        one, duration = world.surroundings.store, world.seconds(15)
        if one is None:
            return "no store"
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


def records_clock_set(world: World) -> str:
    """The timestamps of records without event time jump forward or back, and stay so until the next jump."""
    world.load.clock = world.seed.choice([-3600.0, -900.0, -1.0, 0.0, 1.0, 900.0])
    return f"timestamps of records are {world.load.clock:+.0f} s from the time at which they are sent"


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


def brokers_restarted(world: World) -> str:
    """One after the other, by SIGKILL or in order; each answers before the next one ends."""
    hard = world.seed.random() < 0.5
    for node in world.brokers.nodes:
        (node.broker.kill if hard else node.broker.terminate)()
        time.sleep(world.seconds(3))
        node.broker.restart()
        time.sleep(world.seconds(3))
    return f"all brokers {'killed' if hard else 'ended in order'} and restarted, one after the other"


def broker_stopped(*, long: bool = False) -> Fault:
    def harm(world: World) -> str:
        node, duration = world.node(), world.seed.uniform(*LONG) if long else world.seconds(15)
        with frozen(node.broker.pid):
            time.sleep(duration)
        return f"a broker stopped for {duration:.1f} s"

    return harm


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
        return f"{api.name}: {effect} ({met} requests)" if met else f"no {api.name} came"

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


def cut_off(world: World) -> str:
    """No byte passes between the service and any broker, for up to twice as long as the service tries again; or its
    requests pass, and no answer.
    """
    duration, answers = world.seconds(120), world.seed.random() < 0.5
    for node in world.brokers.nodes:
        node.proxy.hold_answers()
        if not answers:
            node.proxy.hold_requests()
    time.sleep(duration)
    for node in world.brokers.nodes:
        node.proxy.resume()
    return f"{'answers of all brokers' if answers else 'all requests and answers'} held for {duration:.1f} s"


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


# ---- Spark -----------------------------------------------------------------------------------------------------------


def worker_killed(world: World) -> str:
    """SIGKILL to a Spark worker, with which its executors end; another one comes after up to 8 s."""
    world.surroundings.spark.kill_worker(world.seed.random())
    time.sleep(world.seconds(8))
    world.surroundings.spark.add_worker()
    return "a Spark worker killed, and another one added"


def master_killed(world: World) -> str:
    """SIGKILL to the Spark master, and a restart after up to 8 s."""
    world.surroundings.spark.kill_master()
    time.sleep(world.seconds(8))
    world.surroundings.spark.start_master()
    return "the Spark master killed and restarted"


#: requests that come all along; one to join a group comes at a start alone
REQUESTS = tuple(api for api in Api if api is not Api.JOIN_GROUP)
#: roles of processes of the service
PROCESSES = ("driver", "jvm", "fork server", "pool", "state", "reader")
#: name of a kind of fault -> the fault. A text that begins with "no" says that there was nothing to harm
FAULTS: dict[str, Fault] = {
    **{f"kill {role}": killed(role) for role in PROCESSES},
    **{f"stop {role}": stopped(role) for role in PROCESSES},
    **{f"stop {role} for long": stopped(role, long=True) for role in ("driver", "jvm", "state")},
    "kill machine": machine,
    "second instance": second_instance,
    "kill leader": broker_killed(lambda brokers: brokers.leader("sluice.ledger"), "the leader of the ledger"),
    "kill coordinator": broker_killed(Brokers.transaction_coordinator, "the coordinator of transactions"),
    "kill controller": broker_killed(Brokers.controller, "the controller"),
    "restart broker": broker_restarted,
    "restart all brokers": brokers_restarted,
    "stop broker": broker_stopped(),
    "stop broker for long": broker_stopped(long=True),
    **{f"{api.name} {effect.name}": frame(api, effect) for api in REQUESTS for effect in Effect},
    "reset connections": connections_reset,
    "one way": one_way,
    "cut off": cut_off,
    "slow network": slow_network,
    "refuse connections": refused,
    "standby takes over": standby_takes_over,
    "store gone": store(Store.refuse, "was gone"),
    "store slow": store(Store.delay, "was slow"),
    **{f"store {code}": store(partial(Store.answer, code=code), f"answered {code}") for code in (500, 503)},
    "kill executor": killed("executor"),
    **{f"stop {role}": stopped(role) for role in ("executor", "Spark worker", "Spark master")},
    "kill worker": worker_killed,
    "kill master": master_killed,
    "set the clock": clock_set,
    "set the clock of records": records_clock_set,
    "grow a topic": topic_grown,
    "disk full": disk_full("state"),
    "disk full of driver": disk_full("driver"),
    "read-only disk": read_only,
    "flip a bit": flipped("file of a bucket", of_buckets),
    "flip newest snapshot": flipped("snapshot", partial(snapshots, newest=True)),
    "flip older snapshot": flipped("older snapshot", partial(snapshots, newest=False)),
    "flip log": flipped("log", logs),
    "flip Spark's file": flipped("file of Spark", of_spark),
    "flip identity": identity_flipped,
    "other buckets": other_buckets,
    "changed settings": changed_settings,
    "upgrade": upgraded,
}
#: faults of which the brokers take only one at a time: with two of three brokers gone nothing can be written
OF_BROKERS = ("kill leader", "kill coordinator", "kill controller", "restart broker", "restart all brokers",
              "stop broker", "stop broker for long")  # fmt: skip
#: faults that start or end the service themselves
OF_THE_SERVICE = ("kill machine", "second instance", "read-only disk", "other buckets", "changed settings", "upgrade",
                  "standby takes over")  # fmt: skip
OF_A_STORE = ("store gone", "store slow", "store 500", "store 503")
OF_A_STANDBY = ("standby takes over", *(f"HEARTBEAT {effect.name}" for effect in Effect))
OF_A_CLUSTER = ("kill executor", "stop executor", "kill worker", "kill master", "stop Spark worker",
                "stop Spark master")  # fmt: skip
#: mode -> faults that have no meaning there: a refused start waits for the lead again; executors have what the service
#: has alone; a batch may be in parts when the file changes
NOT_IN: dict[Mode, tuple[str, ...]] = {
    Mode.ALONE: (*OF_A_STANDBY, *OF_A_CLUSTER),
    Mode.STANDBY: ("read-only disk", "flip identity", *OF_A_CLUSTER),
    Mode.CLUSTER: (*OF_A_STANDBY, "kill fork server", "kill pool", "kill reader", "stop fork server", "stop pool",
                   "stop reader", "disk full", "upgrade"),
}  # fmt: skip


def group_of(kind: str) -> str:
    """Faults of one group do not overlap."""
    if kind in OF_BROKERS:
        return "brokers"
    if kind in OF_THE_SERVICE or kind.startswith("flip "):
        return "service"
    if kind in OF_A_STORE:
        return "store"
    if kind in OF_A_CLUSTER:
        return "cluster"
    return "requests" if kind.split(" ", maxsplit=1)[0] in Api.__members__ else kind


def possible(kind: str, surroundings: Surroundings, load: Load) -> bool:
    """Whether there is what the fault harms."""
    if (kind == "upgrade" and not load.extra) or (kind in OF_A_STORE and surroundings.store is None):
        return False
    return kind not in NOT_IN[surroundings.mode] and (surroundings.may_mount or kind != "read-only disk")


def modes_of(kinds: Collection[str]) -> list[Mode]:
    """The modes in which all of these faults may happen; all modes if there is none."""
    return [mode for mode, absent in NOT_IN.items() if not {*kinds} & {*absent}] or [*Mode]
