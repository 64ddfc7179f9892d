"""The supervisor with runs that only a test ends, on a clock that only a test moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from sluice.config.load import load_text
from sluice.kafka.kafka_errors import TopicError
from sluice.model.errors import SluiceError
from sluice.ops.metrics import Metrics
from sluice.ops.pipelines import Pipelines, State
from sluice.running.pipeline_folder import Wanted
from sluice.running.service_options import Options, Restart
from sluice.running.supervisor import FINISH_S, Outcome, Supervisor
from sluice.spark.failures import JavaEndedError

FILE = """
pipeline: {name}
streams:
  in: {{topic: {read}, schema: {{k: string}}}}
  out: {{topic: {topic}}}
operators:
  - {{name: copy, map: in, output: [out]}}
checkpoint: {checkpoint}
"""


def pipeline(name, topic="", checkpoint="", more="", read="in"):
    text = more + FILE.format(name=name, read=read, topic=topic or f"{name}.out", checkpoint=checkpoint or f"c/{name}")
    return load_text(text, f"{name}.yaml")


@dataclass
class FakeRun:
    first: bool
    stops: list[float | None] = field(default_factory=list)
    end: Outcome | None = None
    prepared: bool = True

    def stop(self, finish=None):
        self.stops.append(finish)

    def outcome(self):
        return self.end


class Service:
    """A supervisor and what it has launched, by pipeline."""

    def __init__(self, restart=Restart.ON_FAILURE):
        self.now = 1000.0
        self.runs: dict[str, list[FakeRun]] = {}
        #: names of pipelines whose topics do not exist when they are launched
        self.unprepared: set[str] = set()
        self.pipelines = Pipelines(several=True, now=lambda: self.now)
        restart_of = Options("local", None, restart=restart).restart_of
        self.supervisor = Supervisor(
            self.launch, self.pipelines, restart_of, lambda: self.now, lambda _: Metrics("1")
        )  # fmt: skip
        self.wanted: dict[str, Wanted] = {}

    def launch(self, member, *, first):
        member.health.report(began=True)
        self.runs.setdefault(member.name, []).append(FakeRun(first, prepared=member.name not in self.unprepared))
        return self.runs[member.name][-1]

    def set_wanted(self, *pipelines):
        self.wanted = {one.name: Wanted(f"{one.name}.yaml", one) for one in pipelines}
        self.supervisor.set_wanted(self.wanted)
        self.supervisor.tick()

    def end(self, name, error=None, *, fatal=False):
        """The last run of the pipeline ends."""
        self.runs[name][-1].end = Outcome(error, fatal)
        self.supervisor.tick()

    def wait(self, seconds):
        self.now += seconds
        self.supervisor.tick()

    def starts(self):
        return {name: len(runs) for name, runs in self.runs.items()}

    def states(self):
        return {member.name: member.state for member in self.pipelines.members}


@pytest.fixture
def service():
    return Service()


def test_all_pipelines_are_started_once(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    service.wait(100)
    assert service.starts() == {"a": 1, "b": 1}
    assert service.states() == {"a": State.RUNNING, "b": State.RUNNING}


def test_a_failed_pipeline_starts_again_later_and_disturbs_no_other(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    service.end("a", TopicError("no topic"))
    assert service.states() == {"a": State.WAITING, "b": State.RUNNING}
    assert service.pipelines.ready() == "a: failed, starts again in 1 seconds: no topic"
    assert service.pipelines.healthy() is None
    service.wait(0.9)
    assert service.starts() == {"a": 1, "b": 1}
    service.wait(0.2)
    assert service.starts() == {"a": 2, "b": 1}
    assert (service.states()["a"], service.pipelines.ready()) == (State.RUNNING, None)
    assert service.runs["b"][0].stops == []
    assert service.pipelines.described()["pipelines"][0]["starts"] == 2


def test_a_reader_starts_when_the_topics_of_its_writer_exist(service):
    service.unprepared = {"z"}
    service.set_wanted(pipeline("a", read="z.out"), pipeline("b"), pipeline("z"))
    service.wait(100)
    assert service.starts() == {"b": 1, "z": 1}
    service.runs["z"][0].prepared = True
    service.wait(0.25)
    assert service.starts() == {"a": 1, "b": 1, "z": 1}


def test_a_reader_does_not_wait_for_a_writer_that_has_failed(service):
    service.unprepared = {"z"}
    service.set_wanted(pipeline("a", read="z.out"), pipeline("z"))
    service.end("z", TopicError("no topic"))
    assert service.starts() == {"a": 1, "z": 1}


def test_pipelines_of_a_cycle_start_in_the_order_of_their_names(service):
    service.unprepared = {"a", "b"}
    service.set_wanted(pipeline("a", read="b.out"), pipeline("b", read="a.out"))
    assert service.starts() == {"a": 1}
    service.runs["a"][0].prepared = True
    service.wait(0.25)
    assert service.starts() == {"a": 1, "b": 1}


def test_only_the_first_start_is_the_first(service):
    service.set_wanted(pipeline("a"))
    service.end("a", TopicError("no topic"))
    service.wait(1)
    assert [run.first for run in service.runs["a"]] == [True, False]


def test_each_failure_doubles_the_time_until_one_run_lasts(service):
    service.set_wanted(pipeline("a"))
    waits = []
    for lasts in (0, 0, 0, 100, 0):
        service.wait(lasts)
        service.end("a", TopicError("no topic"))
        waits.append(service.pipelines.members[0].status.next_start - service.now)
        service.wait(waits[-1])
    assert waits == [1, 2, 4, 1, 2]


def test_counters_survive_a_restart(service):
    service.set_wanted(pipeline("a"))
    before = service.pipelines.members[0].metrics
    service.end("a", TopicError("no topic"))
    service.wait(1)
    assert service.pipelines.members[0].metrics is before


@pytest.mark.parametrize(
    ("restart", "error", "state", "again"),
    [
        (Restart.NEVER, TopicError("x"), State.FAILED, False),
        (Restart.NEVER, None, State.ENDED, False),
        (Restart.ON_FAILURE, TopicError("x"), State.WAITING, True),
        (Restart.ON_FAILURE, None, State.ENDED, False),
        (Restart.ALWAYS, None, State.WAITING, True),
    ],
)
def test_which_ends_are_followed_by_a_start(restart, error, state, again):
    service = Service(restart)
    service.set_wanted(pipeline("a"), pipeline("b"))
    service.end("a", error)
    assert service.states()["a"] is state
    service.wait(100)
    assert service.starts()["a"] == (2 if again else 1)


@pytest.mark.parametrize("restart", [*Restart])
def test_a_pipeline_that_has_lost_its_lead_waits_for_it_again(restart):
    service = Service(restart)
    service.set_wanted(pipeline("a"))
    service.runs["a"][-1].end = Outcome(lost_lead=True)
    service.wait(0)
    assert service.states() == {"a": State.WAITING}
    service.wait(1)
    assert service.starts() == {"a": 2}
    assert service.supervisor.failure is None


def test_a_pipeline_that_loses_its_lead_again_and_again_waits_for_it_after_a_second_each_time(service):
    service.set_wanted(pipeline("a"))
    for start in range(2, 9):
        service.runs["a"][-1].end = Outcome(lost_lead=True)
        service.wait(0)
        service.wait(1)
        assert service.starts() == {"a": start}
    service.end("a", TopicError("no topic"))
    service.wait(1)
    assert service.starts() == {"a": 9}, "a failure after them is a first one"


def test_a_pipeline_that_stops_does_not_wait_for_a_lost_lead(service):
    service.set_wanted(pipeline("a"))
    service.supervisor.stop()
    service.runs["a"][-1].end = Outcome(lost_lead=True)
    service.wait(100)
    assert service.states() == {"a": State.ENDED}


@pytest.mark.parametrize("own", [*Restart])
def test_the_file_of_a_pipeline_has_precedence_over_the_default_of_the_service(own):
    service = Service(Restart.NEVER if own is Restart.ON_FAILURE else Restart.ON_FAILURE)
    service.set_wanted(pipeline("a", more=f"restart: {own}"))
    service.end("a", TopicError("no topic"))
    assert service.states() == {"a": State.FAILED if own is Restart.NEVER else State.WAITING}


def test_the_service_has_nothing_left_to_do_when_all_have_ended_and_knows_the_first_failure():
    service = Service(Restart.NEVER)
    service.set_wanted(pipeline("a"), pipeline("b"))
    first = TopicError("first")
    service.end("b", first)
    assert service.supervisor.active
    service.end("a", TopicError("second"))
    assert not service.supervisor.active
    assert service.supervisor.failure is first


class RefusedError(SluiceError):
    """A failure that lasts until the test says otherwise."""

    gone = False

    def lasts(self):
        return not self.gone


def test_a_refused_start_is_repeated_only_when_its_cause_is_gone(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    refusal = RefusedError("state would be lost")
    service.end("a", refusal)
    service.end("b")
    service.wait(1000)
    assert service.starts() == {"a": 1, "b": 1}
    assert service.pipelines.ready() == "a: failed: state would be lost"
    assert service.supervisor.active, "it waits for a change"
    refusal.gone = True
    service.wait(0.25)
    assert service.starts() == {"a": 2, "b": 1}
    service.end("a", TopicError("no topic"))
    service.wait(1)
    assert service.starts() == {"a": 3, "b": 1}, "another failure is followed by a new start"


def test_a_change_of_the_file_starts_a_pipeline_that_was_refused(service):
    service.set_wanted(pipeline("a"))
    service.end("a", RefusedError("state would be lost"))
    service.set_wanted(pipeline("a", topic="other"))
    assert service.starts() == {"a": 2}
    service.wait(1000)
    assert service.starts() == {"a": 2}


def test_a_refused_pipeline_does_not_delay_the_end_of_the_service(service):
    service.set_wanted(pipeline("a"))
    service.end("a", RefusedError("state would be lost"))
    service.supervisor.stop()
    assert not service.supervisor.active


def test_a_refusal_is_final_if_nothing_is_started_again():
    service = Service(Restart.NEVER)
    service.set_wanted(pipeline("a"))
    refusal = RefusedError("state would be lost")
    service.end("a", refusal)
    assert (service.supervisor.active, service.supervisor.failure) == (False, refusal)


def test_the_end_of_java_ends_the_service(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    error = JavaEndedError("killed")
    service.end("a", error, fatal=True)
    service.wait(100)
    assert service.supervisor.fatal is error
    assert service.starts() == {"a": 1, "b": 1}, "nothing starts any more"


def test_a_removed_pipeline_may_finish_its_batch_and_is_forgotten_when_it_has_ended(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    service.set_wanted(pipeline("b"))
    assert service.runs["a"][0].stops == [FINISH_S]
    assert service.states() == {"a": State.STOPPING, "b": State.RUNNING}
    service.set_wanted(pipeline("b"))
    assert service.runs["a"][0].stops == [FINISH_S], "it is asked once"
    service.end("a")
    assert service.states() == {"b": State.RUNNING}
    service.wait(100)
    assert service.starts() == {"a": 1, "b": 1}


def test_a_pipeline_that_fails_while_it_is_removed_does_not_start_again(service):
    service.set_wanted(pipeline("a"))
    service.set_wanted()
    service.end("a", TopicError("x"))
    service.wait(100)
    assert (service.states(), service.starts()) == ({}, {"a": 1})


def test_a_changed_pipeline_starts_when_the_earlier_one_has_ended(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    service.set_wanted(pipeline("a", "other"), pipeline("b"))
    service.wait(100)
    assert service.starts() == {"a": 1, "b": 1}
    service.end("a")
    assert service.starts() == {"a": 2, "b": 1}
    assert service.pipelines.members[0].pipeline == pipeline("a", "other")


def test_a_start_after_a_change_is_no_restart_and_not_the_first_start_of_the_service(service):
    service.set_wanted(pipeline("a"))
    service.end("a", TopicError("no topic"))
    service.wait(1)
    assert service.pipelines.described()["pipelines"][0]["starts"] == 2
    service.set_wanted(pipeline("a", topic="other"))
    service.end("a")
    assert service.pipelines.described()["pipelines"][0]["starts"] == 1
    assert [run.first for run in service.runs["a"]] == [True, False, False]


def test_a_change_starts_a_pipeline_that_waits_at_once(service):
    service.set_wanted(pipeline("a"))
    for _ in range(8):
        service.end("a", TopicError("x"))
        service.wait(60)
    service.end("a", TopicError("x"))
    before = service.starts()["a"]
    service.set_wanted(pipeline("a", "other"))
    assert service.starts()["a"] == before + 1


def test_a_change_starts_a_pipeline_that_had_failed_for_good():
    service = Service(Restart.NEVER)
    service.set_wanted(pipeline("a"))
    service.end("a", TopicError("x"))
    service.set_wanted(pipeline("a", "other"))
    assert (service.starts(), service.states()) == ({"a": 2}, {"a": State.RUNNING})


def test_a_file_with_another_name_and_the_same_pipeline_changes_nothing(service):
    service.set_wanted(pipeline("a"))
    service.supervisor.set_wanted({"a": Wanted("other.yaml", pipeline("a"))})
    service.wait(100)
    assert service.starts() == {"a": 1}
    assert service.pipelines.members[0].status.file == "other.yaml"


def test_a_changed_module_of_its_classes_starts_a_pipeline_again(service):
    def wanted(digest: str) -> dict[str, Wanted]:
        return {name: Wanted(f"{name}.yaml", pipeline(name), {"m": digest} if name == "a" else {}) for name in "ab"}

    service.supervisor.set_wanted(wanted("1"))
    service.wait(1)
    service.supervisor.set_wanted(wanted("1"))
    service.supervisor.set_wanted(wanted("2"))
    service.end("a")
    assert service.starts() == {"a": 2, "b": 1}


def test_a_pipeline_that_is_removed_and_comes_back_before_it_has_ended_starts_again(service):
    service.set_wanted(pipeline("a"))
    service.set_wanted()
    service.set_wanted(pipeline("a"))
    service.end("a")
    assert service.starts() == {"a": 2}
    assert service.states() == {"a": State.RUNNING}


def test_a_change_that_is_taken_back_before_the_pipeline_has_ended_starts_the_first_again(service):
    service.set_wanted(pipeline("a"))
    service.set_wanted(pipeline("a", "other"))
    service.set_wanted(pipeline("a"))
    service.end("a")
    assert service.starts() == {"a": 2}
    assert service.pipelines.members[0].pipeline == pipeline("a")


@pytest.mark.parametrize("other", [pipeline("b", "shared"), pipeline("b", checkpoint="c/a")], ids=["topic", "folder"])
def test_a_pipeline_waits_for_one_that_still_stops_and_has_its_topic_or_folder(service, other):
    service.set_wanted(pipeline("a", "shared"))
    service.set_wanted(other, pipeline("c"))
    service.wait(100)
    assert service.starts() == {"a": 1, "c": 1}
    service.end("a")
    assert service.starts() == {"a": 1, "b": 1, "c": 1}


def test_the_end_of_the_service_stops_all_at_once_and_starts_nothing(service):
    service.set_wanted(pipeline("a"), pipeline("b"), pipeline("c"))
    service.end("c", TopicError("x"))
    service.supervisor.stop()
    assert [service.runs[name][0].stops for name in "ab"] == [[None], [None]]
    service.end("a")
    service.end("b", TopicError("x"))
    service.wait(100)
    assert not service.supervisor.active
    assert service.starts() == {"a": 1, "b": 1, "c": 1}


def test_the_end_of_the_service_waits_for_no_pipeline_that_was_to_start_after_a_change(service):
    service.set_wanted(pipeline("a"), pipeline("b"))
    service.set_wanted(pipeline("a", "other"))
    service.supervisor.stop()
    service.end("a")
    service.end("b")
    assert not service.supervisor.active
    assert service.starts() == {"a": 1, "b": 1}


def test_pipelines_differ_by_what_their_files_mean_alone():
    text = FILE.format(name="a", read="in", topic="t", checkpoint="c")
    one, other = load_text(text, "a.yaml"), load_text(f"# a comment\n{text}\n", "a.yaml")
    assert one == other
    assert one != replace(one, settings=replace(one.settings, buckets=2))
