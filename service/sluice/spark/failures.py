"""Turns a failure of Spark into an error with one sentence and an exit code (docs/exit-codes.md).

Spark describes the failure of a query by a text: the stack traces of Java and Python, which contain the cause. This
module finds the cause by patterns, and writes the whole text to the log.
"""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NamedTuple, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.kafka.kafka_errors import (
    DataLossError,
    FencedError,
    PartsClosedError,
    TopicDeletedError,
    TopicError,
    TopicsChangedError,
    UnavailableError,
)
from sluice.model.errors import SluiceError
from sluice.model.secrets import masked
from sluice.spark.spark_internals import java_process

T = TypeVar("T")

LOGGER = logging.getLogger("sluice.spark")
#: the logger of py4j for calls from Java
PY4J = logging.getLogger("py4j.clientserver")
#: maximum seconds from the closing of the connections to the end of the Java process
ENDING = 5.0

GO_ON = "to continue with the records that exist, start with on_data_loss: continue"
#: It says nothing of what readers see: parts of the batch may be visible (docs/exactly-once.md), or all of it.
AGAIN = "the next start repeats the batch"


class QueryError(SluiceError):
    """A batch failed, and the next start repeats it."""

    exit_code = 6


class JavaEndedError(SluiceError):
    """The Java process in which Spark runs has ended or did not start."""

    exit_code = 3


class UnexpectedError(SluiceError):
    """An error that is no SluiceError: a defect of Sluice itself."""

    exit_code = 70


class Cause(NamedTuple):
    """A kind of failure that a regular expression finds in Spark's text.

    `{0}` in the sentence stands for the text of the pattern's first group.
    """

    pattern: str
    kind: type[SluiceError]
    sentence: str


#: The first pattern that matches is used, so a cause must be listed before its consequences.
CAUSES = (
    Cause(
        r"Some data may have been lost.*?Reason: (.*?)(?:SQLSTATE|===|\s+at org\.|\Z)", DataLossError,
        f"records were deleted before they were read ({{0}}); {GO_ON}",
    ),
    Cause(
        r"java\.lang\.OutOfMemoryError: ([^\n]*)", QueryError,
        f"a batch failed: Java ran out of memory ({{0}}); {AGAIN}. Give it more (SLUICE_SPARK_driver_memory=4g), or "
        "make batches smaller (max_records_per_batch)",
    ),
    Cause(
        r"Python worker exited unexpectedly|Python worker.{0,40}crashed", QueryError,
        f"a batch failed: one of Spark's Python processes ended unexpectedly. It may have been killed because memory "
        f"was short; {AGAIN}",
    ),
    Cause(r"^MemoryError|\bMemoryError\b", QueryError, f"a batch failed: a Python process ran out of memory; {AGAIN}"),
    Cause(
        r"([^\n:]*): No space left on device|No space left on device", QueryError,
        f"a batch failed: the disk is full; {AGAIN}",
    ),
    Cause(
        r"CONCURRENT_STREAM_LOG_UPDATE", FencedError,
        "another instance of this pipeline writes to the same checkpoint; this one must stop",
    ),
    Cause(
        # Spark's error classes; older messages of Spark; the line before a stack trace from the decoding of a log file
        r"((?:INVALID_LOG_VERSION|MALFORMED_LOG_FILE|BATCH_METADATA_NOT_FOUND|STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
        r"|CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED)[^\n]*"
        r"|Error reading stream metadata from [^\n]*|Incomplete log file[^\n]*|batch \d+ doesn't exist[^\n]*"
        r"|^[^\n]*(?=(?:\n\s+at [^\n]*)*?\n\s+at [^\n]*(?:Log\.deserialize|StreamMetadata\$\.read)\())",
        CheckpointError,
        "checkpoint: one of Spark's files in it is damaged ({0}). Restore an older copy of the folder, or start anew "
        "with an empty folder and --reset-ledger",
    ),
    Cause(
        r"(?:Topic|Group|Cluster|TransactionalId)AuthorizationException: ([^\n]*)", TopicError,
        "the user of the `kafka:` block lacks a permission: {0}",
    ),
    Cause(
        r"(?:Sasl|Ssl)AuthenticationException: ([^\n]*)", UnavailableError,
        "the brokers refuse the login of the `kafka:` block: {0}",
    ),
    Cause(
        r"kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable"
        r"|CoordinatorNotAvailable)Exception: ([^\n]*)",
        UnavailableError, f"the brokers do not answer ({{0}}); {AGAIN}",
    ),
    Cause(r"(No resolvable bootstrap urls[^\n]*)", UnavailableError, "the brokers do not answer ({0})"),
)  # fmt: skip

#: with these words the text of an error of Java begins in a stack trace of Python
JAVA_ERROR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
#: the exceptions of Java by which Spark recognises that it has stopped a query itself
INTERRUPTIONS = (
    "java.lang.InterruptedException", "java.io.InterruptedIOException", "java.nio.channels.ClosedByInterruptException",
)  # fmt: skip

#: an error class of this package in a stack trace from another process, and its message
SLUICE_ERROR = re.compile(r"\bsluice\.((?:\w+\.)*\w+)\.(\w+Error): ([^\n]*)")


def explained(failure: str) -> SluiceError:
    """The error for a failed query, with one sentence about the cause. Spark's whole text is written to the log, unless
    topics have changed: then the query may start again, and the sentence says it all.
    """
    error = _own(failure) or _known(failure) or _unknown_topic(failure) or _unknown(failure)
    level = logging.DEBUG if isinstance(error, TopicsChangedError | PartsClosedError) else logging.ERROR
    LOGGER.log(level, "a query failed; Spark's description follows", extra={"failure": failure})
    return error


def log_failures_once() -> None:
    """Keeps py4j from logging each error of a function that Java calls: `explained` logs it."""
    PY4J.addFilter(_is_no_failure_of_a_call)


def _is_no_failure_of_a_call(record: logging.LogRecord) -> bool:
    return "while executing the Python Proxy" not in record.getMessage()


def unexpected(error: Exception) -> UnexpectedError:
    """The error that stands for one that is no SluiceError, without secrets."""
    return UnexpectedError(masked(f"an unexpected error ({type(error).__name__}: {error})"))


def _own(failure: str) -> SluiceError | None:
    """The SluiceError that Spark's text contains, as a new object of the same class and message; None if none."""
    for module, name, text in SLUICE_ERROR.findall(failure):
        kind = getattr(import_module(f"sluice.{module}"), name, None)
        if isinstance(kind, type) and issubclass(kind, SluiceError):
            error = kind.__new__(kind, text)
            error.args = (text,)
            return error
    return None


def _known(failure: str) -> SluiceError | None:
    for pattern, kind, sentence in CAUSES:
        if match := re.search(pattern, failure, re.DOTALL | re.MULTILINE):
            groups = [" ".join(str(group or "").split())[:300] for group in match.groups()]
            return kind(sentence.format(*groups))
    return None


def _unknown_topic(failure: str) -> SluiceError | None:
    if "UnknownTopicOrPartitionException" not in failure:
        return None
    topics = re.search(r"Subscribe\[(.*?)\]", failure)
    return TopicDeletedError(f"an input topic was deleted; the input topics are {topics[1] if topics else 'unknown'}")


def _unknown(failure: str) -> SluiceError:
    """A QueryError with the innermost cause in the text or, if it names none, with the first line of the text."""
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    raised = [line for line in lines if re.match(r"(?!(?:java|org|scala|py4j)\.)[\w.]+(?:Error|Exception): \S", line)]
    cause = next(iter([*raised[-1:], *causes[-1:], *lines[:1]]), "Spark gives no reason")
    return QueryError(f"a batch failed: {cause[:300]}; {AGAIN}")


@contextmanager
def explaining(ending: float = ENDING) -> Iterator[None]:
    """Converts errors of Spark, and of the connection to its Java process, into a SluiceError.

    After an error of the connection it waits at most `ending` seconds for the end of the Java process.
    """
    try:
        yield
    except PySparkException as error:
        raise explained(str(error)) from error
    except (Py4JError, ConnectionError, EOFError) as error:
        raise (_java_ended(ending) or explained(_text(error))) from error


def stopped(stop: Callable[[], None]) -> None:
    """Calls `stop`, which stops Spark or a query. Errors are ignored: the Java process may have ended already."""
    with suppress(Py4JError, ConnectionError, EOFError):
        stop()


def require_java() -> None:
    """Raises JavaEndedError if the Java process has ended."""
    if (ended := _java_ended(0.0)) is not None:
        raise ended


class CallError(Exception):
    """What went wrong in a function that Spark has called, as the text of a stack trace."""


@contextmanager
def shown_to_spark() -> Iterator[None]:
    """Raises errors of Java, in a function that Spark calls for a batch, as a CallError that Spark can read.

    When a query is stopped, Spark searches the text after JAVA_ERROR for INTERRUPTIONS, by a regular expression that
    recurses for each character (`StreamExecution.isInterruptionException`). A text of some thousand characters
    overflows the stack, and a thousand lines are printed. So the text of an interruption is short, and the text of
    another error does not contain JAVA_ERROR.
    """
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if JAVA_ERROR not in text:
            raise
        if interruption := next((name for name in INTERRUPTIONS if name in text), None):
            text = f"{JAVA_ERROR} Spark: {interruption}"
        else:
            text = text.replace(JAVA_ERROR, "an error of Java while calling")
        raise CallError(text) from None


def result_within(work: Future[T], seconds: float, overdue: SluiceError) -> T:
    """The result of the work. Raises what the work raises; `overdue` if it has not ended after so many seconds."""
    try:
        return work.result(seconds)
    except TimeoutError as error:
        if work.done():  # the work itself has raised it
            raise
        raise overdue from error


def _java_ended(seconds: float) -> JavaEndedError | None:
    """The error with the exit code of the Java process; None if it still runs after so many seconds."""
    process = java_process()
    if process is None:
        return None
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    outcome = f"with exit code {code}" if code >= 0 else f"by the signal {signal.Signals(-code).name}"
    memory = ", as the system does when memory is short" if code == -signal.SIGKILL else ""
    return JavaEndedError(f"the Java process of Spark has ended unexpectedly, {outcome}{memory}; {AGAIN}")


def _text(error: Exception) -> str:
    try:
        return str(error)  # Py4J requests the text from Java
    except (Py4JError, OSError):
        return type(error).__name__
