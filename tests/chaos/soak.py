"""`make soak`: a service under a steady load, and its memory, descriptors, threads and backlog meanwhile.

The peak is measured first: the rate at which the service reads what a loader sends as fast as it can. Scenarios:

    half     half of the peak, for all the minutes
    triple   half of the peak of costly records, for a third of the minutes three times that, and then half again
    hot      half of the peak, nine records of ten with one key
    keys     two million keys, a SIGKILL to all processes in the midst of them
    kill     a state of --state MB, five SIGKILLs, each until the next visible output

Broker, loader and reader run on the same processors. At the end each record must have come out once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from confluent_kafka import Consumer, TopicPartition

from benchmarks.load import PARTITIONS, make_topic, quick_producer
from benchmarks.machine import busy, machine
from benchmarks.results_page import write
from benchmarks.state import plant
from sluice.config.load import load_text
from sluice.kafka.embedded_broker import EmbeddedBroker
from tests.chaos.resources import Resources
from tests.recovery.harness.sluice_process import SluiceProcess

NAME = "soak"
INPUT, OUTPUT = f"{NAME}-records", f"{NAME}-results"
#: keys of most scenarios, and of the scenario `keys`
KEYS, MANY = 10_000, 2_000_000
#: seconds of the measurement of the peak, until a service must have started, and until a backlog must be gone
PEAK_S, START_S, CATCH_UP_S = 10.0, 120.0, 900.0
#: records between two looks of the loader at its rate; bytes of the state for each value of a window, by measurement
PIECE, VALUE_BYTES = 500, 26
#: the values of a window
LENGTH = 10
#: how many times as much a costly record takes, at least
COSTLY_FACTOR = 10
SHARE_HOT = 0.9


# ---- the load --------------------------------------------------------------------------------------------------------


class Load:
    """A process that sends records, `rate` a second, whose rate can be changed. `sent` is their number."""

    def __init__(self, bootstrap: str, keys: int, hot: float = 0.0, most: int = sys.maxsize) -> None:
        context = multiprocessing.get_context("spawn")
        self._rate, self._sent, self._over = context.Value("d", 0.0), context.Value("q", 0), context.Event()
        given = (bootstrap, keys, hot, most, self._rate, self._sent, self._over)
        self._process = context.Process(target=send, args=given, daemon=True)
        self._process.start()

    def at(self, rate: float) -> None:
        self._rate.value = rate

    @property
    def sent(self) -> int:
        return int(self._sent.value)

    def finish(self) -> int:
        """The number of records when the broker has all of them."""
        self._over.set()
        self._process.join()
        return self.sent

    def await_end(self) -> int:
        """As `finish`, of a load that has a number of records."""
        self._process.join()
        return self.sent


def send(  # noqa: PLR0917 - the arguments of a process
    bootstrap: str, keys: int, hot: float, most: int, rate: Any, sent: Any, over: Any
) -> None:
    producer, chance, debt, before = quick_producer(bootstrap), np.random.default_rng(7), 0.0, time.monotonic()
    while not over.is_set() and sent.value < most:
        now = time.monotonic()
        debt, before = min(debt + rate.value * (now - before), 2 * rate.value + PIECE), now
        if debt < PIECE:
            time.sleep(0.01)
            continue
        numbers = np.arange(sent.value, sent.value + PIECE) % keys
        numbers[chance.random(PIECE) < hot] = 0
        for number in numbers.tolist():
            _produce(producer, b'{"k":"k%d","v":%d.5}' % (number, number % 100), number)
        debt -= PIECE
        sent.value += PIECE
    producer.flush()


def _produce(producer: Any, value: bytes, number: int) -> None:
    while True:
        try:
            producer.produce(INPUT, value, b"k%d" % number, number % PARTITIONS)
        except BufferError:
            producer.poll(0.05)
        else:
            producer.poll(0)
            return


# ---- the service -----------------------------------------------------------------------------------------------------


#: what makes a record so costly that a loader sends more than the service reads, beside it on the same processors
COSTLY = 'length(regexReplace(repeat(k, 300), "[0-9]", "x"))'


def pipeline_text(bootstrap: str, folder: Path, length: int, *, costly: bool) -> str:
    """An output for each record: the last values of its key."""
    output = {"k": "k", "n": "Count()", "s": "Sum(v)"} | ({"c": COSTLY} if costly else {})
    return yaml.safe_dump({
        "pipeline": NAME, "checkpoint": str(folder / "checkpoint"), "kafka": {"bootstrap.servers": bootstrap},
        "streams": {
            "records": {"topic": INPUT, "schema": {"k": "string", "v": "float64"}},
            "results": {"topic": OUTPUT, "marks": "none", "partitions": PARTITIONS},
        },
        "operators": [{
            "name": "last", "aggregate": "records", "window": f"sliding, count({length}), count(1), partitioned",
            "partition_by": ["k"], "output": {"results": output},
        }],
    }, sort_keys=False)  # fmt: skip


class Seen(NamedTuple):
    """A look at the service: seconds, unread records, milliseconds until /readyz answered (-1: not ready), its text."""

    at: float
    unread: int
    ready_ms: float
    says: str


class Watch:
    """Looks at the service once a second."""

    def __init__(self, service: SluiceProcess, folder: Path) -> None:
        self._service, self.resources = service, Resources(service.processes, folder)
        self.seen: list[Seen] = []

    def during(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def until(self, done: Callable[[], bool], seconds: float) -> float:
        """Returns the seconds until it is done, at most `seconds`."""
        begun = time.monotonic()
        while not done():
            if time.monotonic() - begun > seconds:
                return seconds
            self.look()
            time.sleep(1)
        return time.monotonic() - begun

    def look(self) -> None:
        begun = time.monotonic()
        status, text = self._service.page("/readyz")
        took = (time.monotonic() - begun) * 1000 if status == 200 else -1.0
        self.seen.append(Seen(begun, self.unread(), took, text))
        self.resources.look()

    def unread(self) -> int:
        status, text = self._service.page("/status")
        return int(json.loads(text)["pipelines"][0]["unread"]) if status == 200 else -1

    def caught_up(self) -> bool:
        """Whether less is unread than comes in two seconds at the half of a small peak."""
        return 0 <= self.unread() < 50_000


class Outputs:
    """Committed records of the output topic."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "soak", "isolation.level": "read_committed",
            "enable.auto.commit": False, "fetch.wait.max.ms": 20, "fetch.queue.backoff.ms": 10,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(OUTPUT, number, 0) for number in range(PARTITIONS)])
        self.count = 0

    def read(self, seconds: float = 0.2) -> int:
        """The number of records that came now."""
        messages = [one for one in self._consumer.consume(50_000, seconds) if one.error() is None]
        self.count += len(messages)
        return len(messages)

    def read_all(self, most: int, silence: float = 20.0) -> int:
        """Reads until `most` records were there and two seconds passed, or nothing comes for a while."""
        last = time.monotonic()
        while time.monotonic() - last < (2.0 if self.count >= most else silence):
            last = time.monotonic() if self.read() else last
        return self.count


# ---- scenarios -------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    """What a scenario has: the broker, a folder, the options, and what it has found to be wrong."""

    bootstrap: str
    folder: Path
    options: argparse.Namespace

    def service(self, length: int = LENGTH, *, costly: bool = False) -> SluiceProcess:
        for topic in (INPUT, OUTPUT):
            make_topic(self.bootstrap, topic)
        file = self.folder / "pipeline.yaml"
        file.write_text(pipeline_text(self.bootstrap, self.folder, length, costly=costly))
        return SluiceProcess(file, self.folder, http=True)

    @property
    def seconds(self) -> float:
        return float(self.options.minutes) * 60


def peak(load: Load, outputs: Outputs, most: float) -> float:
    """Records a second that the service handles: what a loader sends in PEAK_S, at most `most` a second, over the
    seconds until all outputs are visible. The service's own number of unread records is that of the last batch.
    """
    begun = time.monotonic()
    load.at(most)
    time.sleep(PEAK_S)
    load.at(0)
    while outputs.count < load.sent:
        outputs.read()
        if time.monotonic() - begun > CATCH_UP_S:
            raise TimeoutError(f"{outputs.count:,} outputs of {load.sent:,} records after {CATCH_UP_S:.0f} s")
    return load.sent / (time.monotonic() - begun)


def steady(
    run: Run, phases: Callable[[float], Sequence[tuple[float, float]]], *, hot: float = 0.0, costly: bool = False
) -> list[str]:
    """A run whose rates, as shares of the peak, and their seconds `phases` gives."""
    service, load, outputs = run.service(costly=costly), Load(run.bootstrap, KEYS, hot), Outputs(run.bootstrap)
    service.start()
    watch = Watch(service, run.folder)
    try:
        watch.until(lambda: service.page("/readyz")[0] == 200, START_S)
        most = peak(load, outputs, run.options.most / (COSTLY_FACTOR if costly else 1))
        watch = Watch(service, run.folder)
        for share, seconds in phases(run.seconds):
            load.at(share * most)
            watch.during(seconds)
        sent = load.finish()
        behind = watch.until(watch.caught_up, CATCH_UP_S)
        count = outputs.read_all(sent)
    finally:
        service.clean_up()
    return [
        f"Peak {most:,.0f} records/s, {sent:,} records, {count:,} outputs. {verdict(sent == count)}",
        "", *of_watch(watch, behind), flat(watch.resources), "", *watch.resources.slopes(),
    ]  # fmt: skip


def verdict(right: bool) -> str:  # noqa: FBT001 - the one argument
    return "Each record came out once." if right else "**Records are lost or doubled.**"


def of_watch(watch: Watch, behind: float) -> list[str]:
    ready = [one.ready_ms for one in watch.seen]
    slowest = max((took for took in ready if took >= 0), default=-1)
    unread, good = max(one.unread for one in watch.seen), sum(took >= 0 for took in ready)
    behind_looks = sum("catching up" in one.says for one in watch.seen)
    return [
        f"At most {unread:,} records were unread; {behind:.0f} s after the load the service had read all.",
        most_memory(watch),
        f"`/readyz` was 200 in {good} of {len(ready)} looks, after at most {slowest:.0f} ms.",
        f"In {behind_looks} looks it said `catching up`; at the end it said `{watch.seen[-1].says.strip()}`.",
    ]


def flat(resources: Resources) -> str:
    grown = ", ".join(row.split("|")[1].strip() for row in resources.grown())
    return f"**Not flat: {grown}.**" if grown else "Memory, descriptors, threads and files are flat."


def most_memory(watch: Watch) -> str:
    return f"At most {watch.resources.most_mb:,.0f} MB of memory beside the contents of files."


def half(run: Run) -> list[str]:
    return steady(run, lambda seconds: [(0.5, seconds)])


def triple(run: Run) -> list[str]:
    return steady(run, lambda seconds: [(0.5, seconds / 3), (1.5, seconds / 3), (0.5, seconds / 3)], costly=True)


def hot_key(run: Run) -> list[str]:
    return steady(run, lambda seconds: [(0.5, seconds)], hot=SHARE_HOT)


def many_keys(run: Run) -> list[str]:
    """Each of the keys three times; a SIGKILL after the first half, and a start at once, as an orchestrator does it."""
    service, most = run.service(), 3 * run.options.keys
    load, outputs = Load(run.bootstrap, run.options.keys, most=most), Outputs(run.bootstrap)
    load.at(run.options.most)
    service.start()
    watch = Watch(service, run.folder)
    try:
        watch.until(lambda: outputs.read() < 0 or outputs.count > most // 2, CATCH_UP_S)
        recovery = killed(service, outputs)
        sent = load.await_end()
        watch.until(lambda: outputs.read() < 0 or outputs.count >= sent, CATCH_UP_S)
        count = outputs.read_all(sent, 60)
    finally:
        service.clean_up()
    counts = f"{run.options.keys:,} keys, {sent:,} records, {count:,} outputs"
    took = f"{recovery:.1f} s from SIGKILL to the next output"
    return [f"{counts}; {took}. {verdict(sent == count)}", most_memory(watch)]


def killed(service: SluiceProcess, outputs: Outputs) -> float:
    """Seconds from SIGKILL to all processes, and a start at once, until the next output is visible."""
    service.kill()
    begun = time.monotonic()
    while outputs.read(0.05):  # what was committed before
        pass
    service.start()
    while not outputs.read(0.02):
        if time.monotonic() - begun > CATCH_UP_S:
            raise TimeoutError(service.log()[-3000:])
    return time.monotonic() - begun


def kill(run: Run) -> list[str]:
    """A state is planted in the checkpoint of a service that has run once; then 1,000 records a second come."""
    length, state = 100, run.options.state * 1_000_000
    keys = state // (length * VALUE_BYTES)
    service = run.service(length)
    load, outputs = Load(run.bootstrap, keys), Outputs(run.bootstrap)
    service.start()
    try:
        load.at(1000)
        while not outputs.read():
            pass
        load.at(0)
        time.sleep(3)  # until Spark has the batch in its log
        service.end()
        plant(load_text(service.file.read_text(), NAME, environment=None), run.folder / "checkpoint", 2, keys, length)
        load.at(1000)
        service.start()
        watch = Watch(service, run.folder)
        watch.until(lambda: outputs.read() > 0, CATCH_UP_S)
        watch.during(15)
        times = []
        for _ in range(5):
            times.append(killed(service, outputs))
            watch.during(8)
        held = json.loads(service.page("/status")[1])["pipelines"][0]["state_bytes"]
        sent = load.finish()
        count = outputs.read_all(sent)
    finally:
        service.clean_up()
    shown = ", ".join(f"{one:.1f}" for one in sorted(times))
    return [f"{held / 1e6:,.0f} MB of state: {shown} s from SIGKILL to the next output. {verdict(sent == count)}"]


SCENARIOS: dict[str, Callable[[Run], list[str]]] = {
    "half": half, "triple": triple, "hot": hot_key, "keys": many_keys, "kill": kill,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="all by default")
    parser.add_argument("--minutes", type=float, default=60.0, help="of a scenario with a load")
    parser.add_argument("--keys", type=int, default=MANY, help="of the scenario keys")
    parser.add_argument("--state", type=int, default=1000, help="MB of state of the scenario kill")
    parser.add_argument("--most", type=float, default=400_000, help="records a second that the loader may send")
    parser.add_argument("--write", action="store_true", help="put the results into docs/chaos.md")
    options = parser.parse_args()
    for scenario in options.scenarios or SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="sluice-soak-") as folder, EmbeddedBroker(heap="1g") as broker:
            run = Run(broker.bootstrap, Path(folder), options)
            text = [
                f"{machine()}, {datetime.now(UTC):%Y-%m-%d}, {options.minutes:g} minutes",
                "",
                *SCENARIOS[scenario](run),
            ]
            text[0] += f"; {busy()}."
        print(f"### {scenario}", *text, "", sep="\n", flush=True)  # noqa: T201
        if options.write:
            write(f"soak {scenario}", text, "docs/chaos.md")


if __name__ == "__main__":
    main()
