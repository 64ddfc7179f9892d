"""What Spark and Java say when something fails -> one sentence and the exit code of docs/exit-codes.md."""

from __future__ import annotations

import logging
import subprocess
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from sluice.checkpoint.checkpoint_identity import CheckpointError, UnreadableStateError
from sluice.columns.saved_columns import StateError
from sluice.kafka.kafka_errors import (
    DataLossError,
    ExpiredError,
    FencedError,
    LedgerError,
    TopicDeletedError,
    TopicError,
    UnavailableError,
)
from sluice.model.errors import SluiceError
from sluice.spark.failures import (
    CAUSES,
    JAVA_ERROR,
    CallError,
    JavaEndedError,
    QueryError,
    explained,
    explaining,
    log_failures_once,
    shown_to_spark,
    stopped,
)
from tests.recovery.harness.waiting import PATIENCE

PYTHON = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "transactions.py", line 84, in write
cimpl.KafkaException: KafkaError{{code=_FENCED,val=-144}}

The above exception was the direct cause of the following exception:

sluice.{error}: what happened: and why
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
"""
JAVA = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted SQLSTATE: XXKST

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query terminated with exception
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run(StreamExecution.scala:372)
Caused by: {error}
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""

OWN = {
    "kafka.kafka_errors.FencedError": (FencedError, 5),
    "kafka.kafka_errors.LedgerError": (LedgerError, 4),
    "kafka.kafka_errors.UnavailableError": (UnavailableError, 3),
    "kafka.kafka_errors.ExpiredError": (ExpiredError, 6),
    "checkpoint.checkpoint_identity.CheckpointError": (CheckpointError, 4),
    "checkpoint.checkpoint_identity.UnreadableStateError": (UnreadableStateError, 6),
    "columns.saved_columns.StateError": (StateError, 4),
}


@pytest.mark.parametrize(("name", "kind", "code"), [(name, *meant) for name, meant in OWN.items()])
def test_an_error_of_our_own_is_found_in_what_spark_says(name: str, kind: type[SluiceError], code: int):
    found = explained(PYTHON.format(error=name))
    assert (type(found), str(found), found.exit_code) == (kind, "what happened: and why", code)


#: what Java or Python says -> the error, its exit code, and a part of the sentence
OTHERS = {
    "java.lang.OutOfMemoryError: Java heap space": (QueryError, 6, "Java ran out of memory (Java heap space)"),
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": (
        QueryError, 6, "Python processes ended unexpectedly",
    ),
    "org.apache.spark.api.python.PythonException: Traceback\nMemoryError": (
        QueryError, 6, "a Python process ran out of memory",
    ),
    "java.io.IOException: No space left on device": (QueryError, 6, "the disk is full"),
    "org.apache.spark.SparkConcurrentModificationException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update": (
        FencedError, 5, "another instance",
    ),
    "java.lang.IllegalStateException: Incomplete log file /c/offsets/3": (
        CheckpointError, 4, "is damaged (Incomplete log file /c/offsets/3)",
    ),
    "org.apache.spark.SparkIllegalStateException: [MALFORMED_LOG_FILE] Log file was malformed: no version": (
        CheckpointError, 4, "is damaged (MALFORMED_LOG_FILE] Log file was malformed: no version)",
    ),
    "com.fasterxml.jackson.core.JsonParseException: Unrecognized token\n\tat a.B.parse(B.java:1)"
    "\n\tat org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog.deserialize(OffsetSeqLog.scala:60)": (
        CheckpointError, 4, "is damaged (Caused by: com.fasterxml.jackson.core.JsonParseException: Unrecognized token)",
    ),
    "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [a]": (
        TopicError, 3, "lacks a permission: Not authorized to access topics: [a]",
    ),
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed": (
        UnavailableError, 3, "refuse the login of the `kafka:` block: Authentication failed",
    ),
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listOffsets": (
        UnavailableError, 3, "the brokers do not answer (Timed out waiting for a node assignment",
    ),
    "org.apache.spark.SparkException: Some data may have been lost.\n. Reason: it is\ngone SQLSTATE: 1": (
        DataLossError, 3, "were deleted before they were read (it is gone); to continue",
    ),
    "Some data may have been lost. Reason: Could not read [1, 2)\n\tat org.apache.spark.A$.b(A.scala:94)\n\tat org.c": (
        DataLossError, 3, "were deleted before they were read (Could not read [1, 2)); to continue",
    ),
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x, Subscribe[a, b]": (
        TopicDeletedError, 3, "an input topic was deleted; the input topics are a, b",
    ),
    "java.lang.IllegalStateException: something new": (
        QueryError, 6, "a batch failed: java.lang.IllegalStateException: something new",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "kind", "code", "sentence"), [(said, *meant) for said, meant in OTHERS.items()])
def test_a_failure_is_one_sentence(said: str, kind: type[SluiceError], code: int, sentence: str):
    found = explained(JAVA.format(error=said))
    assert (type(found), found.exit_code) == (kind, code)
    assert sentence in str(found)
    assert "\n" not in str(found)
    assert "Traceback" not in str(found)
    assert len(str(found)) < 1_000


def test_no_cause_says_that_nothing_is_visible():
    """Where the buckets write, parts of the batch that failed may be."""
    assert not [cause.sentence for cause in CAUSES if "visible" in cause.sentence]


def test_what_spark_says_is_in_the_log(caplog: pytest.LogCaptureFixture):
    explained(JAVA.format(error="java.lang.IllegalStateException: something new"))
    assert "StreamExecution.scala:372" in caplog.records[0].failure  # type: ignore[attr-defined]


def test_a_text_without_a_cause_is_a_failed_batch():
    assert str(explained("")).startswith("a batch failed: Spark gives no reason; the next start repeats the batch")


# ---- the Java process --------------------------------------------------------------------------------------------


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[bytes]:
    """The process that stands for Java's, which runs."""
    process = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(), Py4JError()]
)
def test_a_killed_java_process_is_named(java: subprocess.Popen[bytes], error: Exception):
    java.kill()
    killed = "ended unexpectedly, by the signal SIGKILL, as the system does when"
    with pytest.raises(JavaEndedError, match=killed), explaining(PATIENCE):
        raise error
    assert JavaEndedError.exit_code == 3


def test_an_error_of_a_java_process_that_runs_is_not_its_end(java: subprocess.Popen[bytes]):
    assert java.poll() is None
    with pytest.raises(QueryError, match=r"a batch failed: java\.lang\.IllegalStateException: no"), explaining(0.0):
        raise Py4JError("java.lang.IllegalStateException: no")


def test_the_failure_of_a_query_is_explained_wherever_it_is_raised():
    with pytest.raises(CheckpointError), explaining():
        raise PySparkException("Incomplete log file /c/offsets/3")


def test_errors_of_our_own_pass():
    with pytest.raises(LedgerError, match="as it is"), explaining():
        raise LedgerError("as it is")


def test_spark_whose_java_process_is_gone_needs_no_stop():
    def stop() -> None:
        raise ConnectionRefusedError

    stopped(stop)


@pytest.mark.parametrize(("error", "lines"), [("TopicPartitionsAddedError", 0), ("FencedError", 1)])
def test_a_change_of_topics_is_no_error_in_the_log(caplog, error, lines):
    """The query starts again, and the log then says why in one line."""
    explained(f"Traceback (most recent call last):\nsluice.kafka.kafka_errors.{error}: what happened")
    assert [record.levelname for record in caplog.records].count("ERROR") == lines


def test_py4j_does_not_log_a_failure_beside_it(caplog):
    log_failures_once()
    logging.getLogger("py4j.clientserver").error("There was an exception while executing the Python Proxy.")
    logging.getLogger("py4j.clientserver").error("the connection is gone")
    assert [record.getMessage() for record in caplog.records] == ["the connection is gone"]


def shown(text):
    """What Spark reads about an error of Java with this text."""
    with pytest.raises(CallError) as error, shown_to_spark():
        raise RuntimeError(f"{JAVA_ERROR} o1.collect: {text}")
    return str(error.value)


def test_spark_finds_an_interruption_in_a_short_text():
    text = shown("SparkException " + "x" * 100_000 + " caused by java.lang.InterruptedException")
    assert text == f"{JAVA_ERROR} Spark: java.lang.InterruptedException"


def test_spark_has_nothing_to_search_in_the_text_of_another_error_of_java():
    text = shown("NumberFormatException")
    assert JAVA_ERROR not in text
    assert "an error of Java while calling o1.collect: NumberFormatException" in text


def test_errors_without_java_are_shown_as_they_are():
    with pytest.raises(TopicError, match="as it is"), shown_to_spark():
        raise TopicError("as it is")


def test_an_error_after_one_of_java_keeps_its_class_for_the_explanation():
    with pytest.raises(CallError) as error, shown_to_spark():
        raise TopicError("what happened") from RuntimeError(f"{JAVA_ERROR} o1.collect: x")
    assert JAVA_ERROR not in str(error.value)
    assert str(explained(str(error.value))) == "what happened"
