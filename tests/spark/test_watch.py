import pytest

from service.kafka.errors import FencedError, LedgerError
from service.spark.checkpoint import CheckpointError
from service.spark.service import offsets_of
from service.spark.session import overrides
from service.spark.watch import QueryError, explained

SPARK_SAYS = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "transactions.py", line 84, in write
service.kafka.errors.{error}: what happened: and why
 SQLSTATE: 38000 SQLSTATE: XXKST"""


@pytest.mark.parametrize("error", [FencedError, LedgerError])
def test_our_own_error_is_found_in_what_spark_says(error):
    found = explained(SPARK_SAYS.format(error=error.__name__))
    assert type(found) is error
    assert str(found) == "what happened: and why"


def test_a_checkpoint_that_cannot_be_read_ends_with_its_own_exit_code():
    says = SPARK_SAYS.replace("service.kafka.errors.{error}", "service.spark.checkpoint.CheckpointError")
    found = explained(says)
    assert type(found) is CheckpointError
    assert found.exit_code == 4


def test_any_other_failure_is_told_as_it_is():
    found = explained("java.lang.OutOfMemoryError: Java heap space")
    assert type(found) is QueryError
    assert "OutOfMemoryError" in str(found)


def test_offsets_of_a_progress_report():
    source = {"endOffset": {"a": {"0": 5, "1": 7}}, "latestOffset": {"a": {"0": 9, "1": 7}}}
    read, ends = offsets_of({"sources": [source, {"endOffset": {"pulse": 3}}]})
    assert read == {("a", 0): 5, ("a", 1): 7}
    assert ends == {("a", 0): 9, ("a", 1): 7}


def test_the_environment_sets_properties_of_spark():
    assert overrides({"SLUICE_SPARK_driver_memory": "4g", "SLUICE_JARS": "x"}) == {"spark.driver.memory": "4g"}
