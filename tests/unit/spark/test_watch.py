import threading

import pytest

from sluice.kafka.kafka_errors import FencedError, UnavailableError
from sluice.ops.health import Health
from sluice.processes import LastResort
from sluice.spark.service import offsets_of
from sluice.spark.session import overrides
from sluice.spark.watch import WatchedQuery, watch

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
        self.lastProgress, self.recentProgress = None, []

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
    """The last resort is armed with the failure's code, for what may hang after that."""
    hangs, ended = threading.Event(), []
    failed = Query(SPARK_SAYS.format(error="UnavailableError"))
    resort = LastResort(60.0, lambda code, message: ended.append((code, message)))
    with resort, pytest.raises(UnavailableError, match="what happened: and why"):
        watch(watched(Query(stopping=hangs), failed, other := Query()), threading.Event(), Health(), resort, stop=0.05)
    assert other.stopped
    hangs.set()


def test_the_last_resort_knows_the_failure_before_the_others_are_stopped():
    armed, failed = [], Query(SPARK_SAYS.format(error="FencedError"))

    class Resort(LastResort):
        def arm(self, exit_code=0, message=""):
            armed.append((exit_code, message, other.stopped))

    other = Query()
    with pytest.raises(FencedError):
        watch(watched(failed, other), threading.Event(), Health(), Resort(60.0))
    assert armed == [(5, "what happened: and why", False)]


def test_the_age_of_a_batch_grows_until_something_is_reported():
    query = Query()
    (one,) = watched(query)
    assert [one.age(now) for now in (100.0, 101.0, 130.0)] == [0.0, 1.0, 30.0]
    query.lastProgress = {"batchId": 4, "timestamp": "2026-01-01T00:00:00Z"}
    one.last = 4
    one.report()
    assert [one.age(now) for now in (131.0, 132.0)] == [0.0, 1.0]
    one.report()
    assert one.age(133.0) == 2.0


@pytest.mark.parametrize(
    "status",
    [
        {"isTriggerActive": False, "message": "Processing new data"},
        {"isTriggerActive": True, "message": "Waiting for data to arrive"},
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
