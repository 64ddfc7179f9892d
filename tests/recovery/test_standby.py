"""Two instances of a pipeline with --standby: one leads, the other one waits, and goes on when the leader has gone.

Each instance has a checkpoint folder of its own, as on two machines, unless the test says otherwise. The outputs equal
those of an undisturbed run, each once.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from contextlib import ExitStack, contextmanager

import pytest

from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.recovery.harness.process_table import processes, send_signal
from tests.recovery.harness.service import Service
from tests.recovery.harness.sums_and_runs import FILE, tuples

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

WAITS, LEADS, TAKEN_OVER = "standby: waiting for the lead", "leading", "another instance has taken over"
#: the exit code of a service whose Java process has ended
NO_JAVA = 3
#: where a batch is when its service is killed (pausing/sitecustomize.py)
MOMENTS = ("feeding", "produced", "written")


class Pair:
    """Two instances. The first one leads when the second one starts."""

    def __init__(
        self,
        services: Callable[..., Service],
        text: str = FILE,
        *,
        shared_folder: bool = False,
        before: Callable[[Service], None] = lambda _: None,
        **settings,
    ) -> None:
        """`before` is called with the leader before the standby starts."""
        arguments = ["--standby", "--log-level", "debug"]
        self.leader = services(text, arguments=arguments, http=True, **settings)
        self.leader.create("in")
        more = {"checkpoint": self.leader.checkpoint} if shared_folder else {}
        self.standby = services(text, name=self.leader.name, arguments=arguments, http=True, **settings, **more)
        self.standby.adopt(self.leader)
        self.leader.start()
        self.send(50)
        self.leader.await_outputs()
        before(self.leader)
        self.standby.start()
        self.standby.await_log(WAITS)
        self.send(50)
        self.leader.await_outputs()

    def send(self, count: int) -> None:
        self.leader.send("in", tuples(count))

    def change(self) -> None:
        """The roles change."""
        self.leader, self.standby = self.standby, self.leader


@pytest.fixture
def pair(services):
    with ended(Pair(services)) as pair:
        yield pair


@contextmanager
def ended(pair: Pair):
    with ExitStack() as stack:
        stack.callback(pair.leader.clean_up)
        stack.callback(pair.standby.clean_up)
        yield pair


def readiness(service: Service) -> tuple[int, str]:
    status, text = service.page("/readyz")
    return status, text.strip()


def metric(service: Service, name: str) -> float:
    found = re.search(rf"^{name}{{.*}} (.*)$", service.page("/metrics")[1], re.MULTILINE)
    assert found
    return float(found[1])


def test_readiness_and_metrics_say_which_instance_leads(pair):
    pair.standby.wait_until(lambda: readiness(pair.standby) == (200, "standby"), "the standby is ready")
    pair.leader.wait_until(lambda: readiness(pair.leader) == (200, "leader"), "the leader is ready")
    assert metric(pair.leader, "sluice_leader") == 1
    assert metric(pair.standby, "sluice_leader") == 0
    assert metric(pair.standby, "sluice_standby_ready") == 1
    assert ">standby<" in pair.standby.page("/")[1]
    assert ">leader<" in pair.leader.page("/")[1]


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_standby_goes_on_when_the_leader_is_killed_in_a_batch(pair, moment):
    pair.leader.at(moment)
    pair.send(50)
    pair.leader.await_moment(moment)
    pair.leader.kill()
    pair.standby.await_log(LEADS)
    pair.send(50)
    pair.standby.await_outputs()
    pair.change()
    pair.standby.start()  # with the folder that it had as the leader
    pair.standby.await_log(WAITS)
    pair.send(50)
    pair.leader.await_outputs()
    pair.leader.kill()
    pair.send(50)
    pair.standby.await_outputs()


def test_a_leader_that_stands_still_becomes_a_standby(pair):
    stopped = [one.pid for one in processes(pair.leader.pid)]
    send_signal(stopped, signal.SIGSTOP)
    pair.send(50)
    pair.standby.await_outputs()
    send_signal(stopped, signal.SIGCONT)
    pair.leader.await_log(TAKEN_OVER)
    pair.send(50)
    pair.standby.await_outputs()
    pair.leader.wait_until(lambda: readiness(pair.leader) == (200, "standby"), "the old leader is a standby")
    pair.standby.kill()
    pair.send(50)
    pair.leader.await_outputs()


def test_a_leader_that_ends_in_order_gives_the_lead_up(pair):
    pair.leader.end()
    pair.send(50)
    pair.standby.await_outputs()
    assert TAKEN_OVER not in pair.standby.log()
    pair.standby.end()


def test_the_death_of_the_standby_changes_nothing(pair):
    pair.standby.kill()
    pair.send(50)
    pair.leader.await_outputs()
    pair.standby.start()
    pair.standby.await_log(WAITS)
    pair.standby.signal("jvm")
    assert pair.standby.await_end() == NO_JAVA
    pair.standby.start()
    pair.standby.await_log(WAITS)
    pair.leader.kill()
    pair.send(50)
    pair.standby.await_outputs()


def test_two_instances_that_were_killed_together_go_on_after_their_start(pair):
    pair.leader.at("produced")
    pair.send(50)
    pair.leader.await_moment("produced")
    pair.leader.kill()
    pair.standby.kill()
    pair.leader.start()
    pair.standby.start()
    pair.send(50)
    pair.leader.await_outputs()
    pair.leader.end()
    pair.standby.end()


def test_a_folder_that_both_use_belongs_to_the_leader(services):
    """The standby gets the lock on the folder when the processes of the killed leader have ended."""
    with ended(Pair(services, shared_folder=True)) as pair:
        pair.leader.kill()
        pair.send(50)
        pair.standby.await_outputs()
        pair.change()
        pair.standby.start()
        pair.standby.await_log(WAITS)
        pair.leader.end()
        pair.send(50)
        pair.standby.await_outputs()


def test_a_standby_follows_the_snapshots_of_the_store(services, tmp_path):
    """The ledger no longer has the plans of the first batches, so there is no other way to the state."""
    text = f"state: {tmp_path}/snapshots\nsnapshot_interval: 0.5\nsnapshot_records: 30\n{FILE.replace('400', '20')}"

    def snapshots(leader: Service) -> None:
        leader.send("in", tuples(200))
        leader.await_outputs()
        leader.wait_until(lambda: len([*tmp_path.rglob("*.state")]) >= 4, "each bucket has two snapshots in the store")

    with ended(Pair(services, text, before=snapshots)) as pair:
        assert re.search("checkpoint restored: .* from=.*the store", pair.standby.log())
        pair.leader.kill()
        pair.send(50)
        pair.standby.await_outputs()


def test_both_go_on_after_a_restart_of_the_broker(services):
    with EmbeddedBroker() as broker, ended(Pair(services, kafka={"bootstrap.servers": broker.bootstrap})) as pair:
        for end in (broker.terminate, broker.kill):
            end()
            broker.restart()
            pair.send(50)
            pair.leader.await_outputs()
        assert pair.standby.running


def test_two_instances_without_standby_fence_each_other(services):
    first = services(FILE)
    first.create("in")
    first.send("in", tuples(50))
    first.start()
    first.await_outputs()
    second = services(FILE, name=first.name)
    second.adopt(first)
    second.start()
    second.await_log("message=running")  # the first instance notices it with its next batch
    second.send("in", tuples(50))
    assert first.await_end() == 5
    second.await_outputs()
