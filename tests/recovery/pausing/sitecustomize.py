"""On PYTHONPATH of a service: stops or fails one of its processes at a moment that a test requested.

A test requests it by a file in folder SLUICE_TEST_MOMENTS. The file's name is the moment (MOMENTS below), and its text
says what happens there:

    pause   the process sleeps until the test removes `<moment>.reached`, or kills it
    fail    the function raises RuntimeError
    signal  nothing; only the file is renamed

The first process that comes to the moment renames the file to `<moment>.reached`, so one request has one effect, and
writes its number to `<moment>.pid`.
"""

import faulthandler
import io
import os
import signal
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from pathlib import Path

FOLDER = "SLUICE_TEST_MOMENTS"
#: a file to which each call of `fsync` is written, so that a test can lose what was not forced to the disk
FORCED = "SLUICE_TEST_FORCED"
#: a file with the seconds by which the wall clock of this process differs from that of the machine
CLOCK = "SLUICE_TEST_CLOCK"
INTERVAL = 0.02


def come_to(moment):
    """Does what the test asked for at this moment, if it asked for anything."""
    asked = Path(os.environ[FOLDER], moment)
    reached = Path(f"{asked}.reached")
    try:
        what = asked.read_text()
        asked.rename(reached)
    except FileNotFoundError:
        return
    Path(f"{asked}.pid").write_text(str(os.getpid()))
    while what == "pause" and reached.exists():
        time.sleep(INTERVAL)
    if what == "fail":
        msg = f"a test asked for a failure at the moment {moment!r}"
        raise RuntimeError(msg)


def requested(moment):
    return Path(os.environ[FOLDER], moment).exists()


def before(moment):
    """The function starts after the moment."""

    def wrapped(function):
        def run(*arguments, **named):
            come_to(moment)
            return function(*arguments, **named)

        return run

    return wrapped


def after(moment):
    """The function has done its work and has not returned."""

    def wrapped(function):
        def run(*arguments, **named):
            result = function(*arguments, **named)
            come_to(moment)
            return result

        return run

    return wrapped


def fed_rows(function):
    """A state server has the rows of a batch and has not fed them to the engine."""

    def run(bucket, version, rows, *others, **named):
        if rows:
            come_to("feeding")
        return function(bucket, version, rows, *others, **named)

    return run


def produced(function):
    """The broker has all records of the batch in an open transaction."""

    def run(producer):
        if requested("produced"):
            producer.client.flush(30)
        come_to("produced")
        return function(producer)

    return run


def half_an_entry(function):
    """A log file ends with the first half of an entry."""

    def run(message, write):
        if isinstance(getattr(write, "__self__", None), io.BufferedWriter) and requested("entry-half"):
            data = b"".join([message.head, *message.bodies])
            write(data[: len(data) // 2])
            write.__self__.flush()
            come_to("entry-half")
        return function(message, write)

    return run


def half_a_snapshot(function):
    """A snapshot's bytes are in its `.part` file, which does not have its final name."""

    def run(snapshots, version, write, **named):
        def pausing(file):
            write(file)
            come_to("snapshot-half")

        return function(snapshots, version, pausing, **named)

    return run


def hanging(producer):
    """The client library is asked for a commit, and does not return."""

    class Producer(producer):
        def commit_transaction(self, *arguments):
            come_to("commit-call")
            return super().commit_transaction(*arguments)

    return Producer


#: module -> class (or "" for the module), what is wrapped, and how
MOMENTS = {
    "sluice.engine.graph": [("Graph", "feed", after("fed"))],
    "sluice.kafka.batch_producers": [
        ("ExactlyOnce", "finish", produced),
        ("ExactlyOnce", "_committed", before("committing")),
        ("ExactlyOnce", "_committed", after("committed")),
        ("", "Producer", hanging),
    ],
    "sluice.kafka.batch_writer": [("TransactionalWriter", "write", after("written"))],
    "sluice.batch.commit": [
        ("", "commit", before("closing")),
        ("", "commit", after("closed")),
        ("", "commit_part", before("part")),
        ("", "commit_part", after("part-written")),
    ],
    "sluice.spark.query": [("", "prepare", before("preparing"))],
    "sluice.spark.lanes.direct_lane": [("DirectLane", "_made", before("direct"))],
    "sluice.state.restore": [("", "write_logs", before("restoring")), ("", "adopt", before("restored"))],
    "sluice.state.upgrade.state_conversion": [
        ("", "write_logs", before("converting")),
        ("", "adopt", before("converted")),
        ("", "begin_anew", before("adopted")),
        ("", "begin_anew", after("recorded")),
    ],
    "sluice.state.server.read_request": [("Reads", "_answer", after("read"))],
    "sluice.state.bucket": [("Bucket", "feed", fed_rows)],
    "sluice.state.message": [("Message", "write", half_an_entry)],
    "sluice.state.snapshots": [("Snapshots", "write", half_a_snapshot)],
}


class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in MOMENTS:
            return None
        spec = PathFinder.find_spec(name, path, target)
        spec.loader = Wrapping(spec.loader)
        return spec


class Wrapping(Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        for owner, function, wrapped in MOMENTS[module.__name__]:
            where = getattr(module, owner) if owner else module
            setattr(where, function, wrapped(getattr(where, function)))


def set_clock():
    """Lets the wall clock follow the file. The monotonic clock, and the clocks of C libraries, stay as they are."""
    seconds, nanoseconds, monotonic, read = time.time, time.time_ns, time.monotonic, [0.0, float("-inf")]

    def offset():
        if monotonic() > read[1] + INTERVAL:
            read[:] = float(Path(os.environ[CLOCK]).read_text()), monotonic()
        return read[0]

    time.time = lambda: seconds() + offset()
    time.time_ns = lambda: nanoseconds() + int(offset() * 1_000_000_000)


if CLOCK in os.environ:
    set_clock()
if FORCED in os.environ:
    from tests.recovery.harness.power_loss import recording

    os.fsync = recording(os.fsync, Path(os.environ[FORCED]))
    os.fdatasync = recording(os.fdatasync, Path(os.environ[FORCED]))
if FOLDER in os.environ:
    sys.meta_path.insert(0, Finder())
    # A test that waited in vain asks for the stacks of all threads; they get into the log of the service.
    faulthandler.register(signal.SIGUSR2)
