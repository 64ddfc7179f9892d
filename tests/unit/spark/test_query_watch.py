import json
import threading

import pytest

from sluice.kafka.kafka_errors import (
    FencedError,
    TopicCreatedAgainError,
    TopicPartitionsAddedError,
    TopicsChangedError,
    UnavailableError,
)
from sluice.ops.pipelines import Health
from sluice.spark import idle_clock, quiet_wait
from sluice.spark.failures import QueryError
from sluice.spark.java.java_process import overrides
from sluice.spark.pipeline.pipeline_run import offsets_of
from sluice.spark.query_watch import StopRequest, WatchedQuery, _finish_batch, watch

SPARK_SAYS = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "transactions.py", line 84, in write
sluice.kafka.kafka_errors.{error}: what happened: and why
 SQLSTATE: 38000 SQLSTATE: XXKST"""


def test_offsets_of_a_progress_report():
    source = {"endOffset": {"a": {"0": 5, "1": 7}}, "latestOffset": {"a": {"0": 9, "1": 7}}}
    read, ends = offsets_of({"sources": [source, {"endOffset": {"pulse": 3}}]})
    assert read == {("a", 0): 5, ("a", 1): 7}
    assert ends == {("a", 0): 9, ("a", 1): 7}


def test_the_environment_sets_properties_of_spark():
    assert overrides({"SLUICE_SPARK_driver_memory": "4g", "SLUICE_JARS": "x"}) == {"spark.driver.memory": "4g"}


class Query:
    """A query of Spark's, as far as it is looked after."""

    def __init__(self, failure=None, stopping=None):
        self.failure, self.stopping, self.stopped = failure, stopping, False
        self.status = {"isTriggerActive": True, "message": "Processing new data"}
        #: Spark's own object; this one is both
        self._jsq, self.reports = self, []

    def lastProgress(self):  # noqa: N802
        return self.reports[-1] if self.reports else None

    def recentProgress(self):  # noqa: N802
        return self.reports

    @property
    def isActive(self):  # noqa: N802
        return self.failure is None and not self.stopped

    def exception(self):
        return self.failure

    def stop(self):
        if self.stopping:
            self.stopping.wait()
        self.stopped = True


def watched(*queries):
    return [WatchedQuery(query, lambda _: None) for query in queries]


def test_a_failed_query_is_reported_though_another_does_not_stop():
    hangs = threading.Event()
    failed, other = Query(SPARK_SAYS.format(error="UnavailableError")), Query()
    with pytest.raises(UnavailableError, match="what happened: and why"):
        watch(watched(Query(stopping=hangs), failed, other), StopRequest(), Health(), stop_s=0.05)
    assert other.stopped
    hangs.set()


def test_a_query_that_ends_without_an_error_before_a_stop_is_a_failure():
    silent = Query()
    silent.stopped = True
    with pytest.raises(QueryError, match="has ended without an error of Spark"):
        watch(watched(silent, Query()), StopRequest(), Health())


def test_the_end_is_bounded_with_the_failure_before_the_others_are_stopped():
    endings, failed, other = [], Query(SPARK_SAYS.format(error="FencedError")), Query()
    with pytest.raises(FencedError):
        watch(
            watched(failed, other), StopRequest(), Health(),
            lambda failure: endings.append((failure.exit_code, str(failure), other.stopped)),
        )  # fmt: skip
    assert endings == [(5, "what happened: and why", False)]


def test_the_waits_of_queries_end_before_they_are_stopped():
    woken, failed, other = [], Query(SPARK_SAYS.format(error="FencedError")), Query()
    with pytest.raises(FencedError):
        watch(watched(failed, other), StopRequest(), Health(), wake=lambda: woken.append(other.stopped))
    assert woken == [False]


class Looks(StopRequest):
    """A stop after this many looks; notes the seconds before each."""

    def __init__(self, count):
        super().__init__()
        self.count, self.seconds = count, []

    def wait(self, seconds):
        self.seconds.append(seconds)
        if len(self.seconds) > self.count:
            self.set()
        return self.is_set()


def test_looks_become_rarer_while_a_query_reports_nothing():
    query, stop = Query(), Looks(6)
    query.status = {"isTriggerActive": False, "message": "Waiting for data to arrive"}

    def look():
        if len(stop.seconds) == 5:
            query.reports = [worked(1, 0)]

    watch(watched(query), stop, Health(), look=look)
    assert stop.seconds == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0, 0.25]


def refuse(_):
    raise ValueError("a report that nothing can read")


def reported(listener):
    """A running query with a report for this listener."""
    query = Query()
    query.reports = [worked(4, 0)]
    return WatchedQuery(query, listener)


def test_an_error_of_a_listener_stops_all_queries_and_is_raised():
    endings, queries = [], [reported(refuse), reported(lambda _: None)]
    with pytest.raises(ValueError, match="that nothing can read"):
        watch(
            queries, StopRequest(), Health(),
            lambda failure: endings.append((failure.exit_code, str(failure), queries[1].query.stopped)),
        )  # fmt: skip
    assert all(one.query.stopped for one in queries)
    message = "an unexpected error (ValueError: a report that nothing can read)"
    assert endings == [(70, message, False)], "the end is bounded before the queries are stopped"


def test_an_error_of_a_listener_that_is_expected_keeps_its_exit_code():
    def fence(_):
        raise FencedError("another instance")

    endings, one = [], reported(fence)
    with pytest.raises(FencedError):
        watch([one], StopRequest(), Health(), endings.append)
    assert one.query.stopped
    assert [error.exit_code for error in endings] == [5]


def test_an_error_of_a_listener_after_a_failed_query_does_not_hide_the_failure():
    stop, other = StopRequest(), reported(refuse)
    stop.set(finish=0)
    with pytest.raises(UnavailableError, match="what happened: and why"):
        watch([*watched(Query(SPARK_SAYS.format(error="UnavailableError"))), other], stop, Health())
    assert other.query.stopped


def grown():
    return Query(SPARK_SAYS.format(error="TopicPartitionsAddedError"))


def test_nothing_ends_while_queries_start_again_for_new_topic_partitions():
    endings = []
    with pytest.raises(TopicPartitionsAddedError):
        watch(watched(grown()), StopRequest(), Health(), endings.append)
    assert endings == []


@pytest.mark.parametrize(
    ("restarts", "ended"), [((TopicsChangedError,), []), ((TopicPartitionsAddedError,), [3])], ids=["goes on", "ends"]
)
def test_a_topic_that_was_created_again_is_noticed_between_batches(restarts, ended):
    """Then the queries start again, or the service ends."""

    def look():
        raise TopicCreatedAgainError("topic in was deleted and created again")

    endings, query = [], Query()
    with pytest.raises(TopicCreatedAgainError):
        watch(
            watched(query), StopRequest(), Health(), lambda failure: endings.append(failure.exit_code),
            look=look, restarts=restarts,
        )  # fmt: skip
    assert endings == ended
    assert query.stopped


def test_new_topic_partitions_are_left_to_the_next_start_after_a_request_to_stop():
    stop, endings = StopRequest(), []
    stop.set()
    watch(watched(grown(), Query()), stop, Health(), endings.append)
    assert endings == [None]


def test_the_age_of_a_batch_grows_until_something_is_reported():
    query = Query()
    (one,) = watched(query)
    assert [one.age(now) for now in (100.0, 101.0, 130.0)] == [0.0, 1.0, 30.0]
    query.reports = [worked(4, 0)]
    one.report()
    assert [one.age(now) for now in (131.0, 132.0)] == [0.0, 1.0]
    one.report()
    assert one.age(133.0) == 2.0


class Report(dict):
    """A progress report of Spark."""

    def json(self):
        return json.dumps(self)

    def timestamp(self):
        return self["timestamp"]


def idle(batch, second):
    """What Spark reports while no batch runs: the number is that of the batch that comes next."""
    return Report(batchId=batch, timestamp=f"2026-01-01T00:00:{second:02}.000Z", durationMs={"triggerExecution": 2})


def worked(batch, second):
    return Report(idle(batch, second), durationMs={"addBatch": 40, "triggerExecution": 50})


def test_each_report_is_passed_on_once_in_order_though_an_idle_one_has_the_number_of_the_next_batch():
    query, seen = Query(), []
    one = WatchedQuery(query, seen.extend)
    arrivals = [[], [idle(0, 1)], [worked(0, 5), worked(1, 6)], [], [idle(2, 17)], [worked(2, 30)]]
    for new in arrivals:
        query.reports = [*query.reports, *new]
        one.report()
    assert seen == [report for new in arrivals for report in new]


def test_reports_after_the_clock_of_the_machine_was_set_back_are_passed_on():
    query, seen = Query(), []
    one = WatchedQuery(query, seen.extend)
    for second in (30, 20, 21):
        query.reports = [*query.reports, worked(second, second)]
        one.report()
    assert [report["batchId"] for report in seen] == [30, 20, 21]


def test_the_end_of_the_running_batch_is_seen_after_an_idle_report_with_its_number():
    query = Query()
    query.reports, looks = [idle(7, 1)], []

    def may_wait():
        looks.append(1)
        query.reports = [worked(7, 2)]
        return len(looks) < 3

    _finish_batch(query, may_wait)
    assert len(looks) == 1


@pytest.mark.parametrize(
    "status",
    [
        {"isTriggerActive": False, "message": "Processing new data"},
        {"isTriggerActive": True, "message": "Waiting for data to arrive"},
        {"isTriggerActive": True, "message": f"Getting offsets from {idle_clock.NAME}"},
        {"isTriggerActive": True, "message": f"Getting offsets from {quiet_wait.NAME}"},
    ],
)
def test_an_idle_query_has_no_batch_in_hand(status):
    query = Query()
    (one,) = watched(query)
    one.age(100.0)
    query.status = status
    assert one.age(200.0) == 0.0
    query.status = {"isTriggerActive": True, "message": "Processing new data"}
    assert one.age(300.0) == 0.0
