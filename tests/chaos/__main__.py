"""`make chaos SEED=7 MINUTES=20`: a random pipeline under faults in an order that a seed chooses; at the end, a page.

    load --> three brokers --(proxies)--> service --> brokers --> checker
                  ^                          ^
                  +------- faults -----------+

The seed chooses the pipeline, the faults, their order, their lengths and pauses. The moments are those of real
processes, so a seed repeats what happens, and not each instant of it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.machine import busy, machine
from benchmarks.results_page import write
from sluice.kafka import ledger
from sluice.kafka.topics import LEDGER_CONFIG, create
from tests.chaos.brokers import Brokers
from tests.chaos.checker import HIDDEN_S, OpenTransactions, Reader, complete, violations, wanted
from tests.chaos.faults import FAULTS, RESTARTED, World, group_of, modes_of, possible
from tests.chaos.flows import EXTRA, random_flows
from tests.chaos.load import TOPIC_PARTITIONS, Load
from tests.chaos.resources import Resources
from tests.chaos.surroundings import CHECKPOINT, Mode, Surroundings
from tests.recovery.harness.sluice_process import SluiceProcess
from tests.unit.kafka.broker_tools import add_topic_partitions

NAME, DEAD = "chaos", "dead"
RATE = 150.0
#: seconds within which the service must write again and be ready after the last fault of a mode
READY_S = 60.0
#: seconds for all that waits to come out after the last record
REST_S = 240.0
#: minutes of a mode of the service, at least
MODE_MINUTES = 4.0
#: faults that may be under way at once
AT_ONCE = 2
#: seconds before the first fault, in which the service runs undisturbed
QUIET_S = 5.0


@dataclass
class Happened:
    """A fault and how long the service needed until it wrote again."""

    at: float
    kind: str
    what: str
    recovery: float | None = None

    @property
    def met(self) -> bool:
        """Whether there was something to harm."""
        return not self.what.startswith("no ")


@dataclass
class Result:
    seed: int
    flows: list[str]
    happened: list[Happened]
    records: int
    outputs: int
    letters: int
    batches: int
    starts: int
    hidden: float
    ready: float
    wrong: list[str] = field(default_factory=list)
    slopes: list[str] = field(default_factory=list)
    #: the words of `sluice replay --checkpoint` at the end
    replay: str = ""


class Campaign:
    def __init__(
        self, seed: int, minutes: float, folder: Path, *,
        kinds: Sequence[str] = (), modes: Sequence[Mode] = (), rate: float = RATE, with_store: bool = True,
        ready_s: float = READY_S,
    ) -> None:  # fmt: skip
        """`kinds`: the kinds of faults that happen, all by default. `modes`: how the service runs, one after the other;
        by default as many of the modes in which these faults may happen as there are times MODE_MINUTES, and in an
        order that the seed chooses. `ready_s`: the bound READY_S, which a busy machine does not keep.
        """
        self._seed, self._minutes = seed, minutes
        some = random.Random(f"modes {seed}").sample(fitting := modes_of(kinds), len(fitting))
        self.modes = list(modes) or some[: max(1, int(minutes / MODE_MINUTES))]
        self._random = random.Random(seed)
        self._kinds = list(kinds or FAULTS)
        self._rate, self._ready_s = rate, ready_s
        self._folder = folder
        self.flows = random_flows(random.Random(seed))
        self._surroundings = Surroundings(folder, with_store=with_store)
        self._happened: list[Happened] = []
        self._starts = 0
        self._over = threading.Event()
        self._restart = threading.Lock()
        #: when the last fault was healed, and the longest time in seconds from the last fault of a mode until the
        #: service wrote and was ready
        self._healed, self._ready = 0.0, 0.0

    def run(self) -> Result:
        with Brokers() as self._brokers, self._surroundings:
            self._create_topics()
            self._load = load = Load(self._brokers.direct, NAME, self.flows, self._seed, self._rate)
            load.send_before()
            self._surroundings.change(self.modes[0])
            self._service = self._surroundings.instance(self._write_file())
            reader = Reader(self._brokers.direct, NAME, self.flows, dead=DEAD)
            try:
                return self._run(load, reader)
            finally:
                self._over.set()
                self._service.clean_up()

    def _run(self, load: Load, reader: Reader) -> Result:
        self._start()
        watch = threading.Thread(target=self._keep_running, daemon=True)
        topics = [f"{NAME}.{stream}" for flow in self.flows for stream in flow.outputs]
        hidden = OpenTransactions(AdminClient(self._brokers.direct | {"log_level": 0}), topics)
        listed = lambda: self._surroundings.processes(self._service)  # noqa: E731
        resources = {mode: Resources(listed, self._folder) for mode in self.modes}
        looking = threading.Thread(target=self._look, args=(hidden, resources), daemon=True)
        watch.start()
        looking.start()
        load.start()
        self._await_ready()
        self._pause(QUIET_S)
        self._faults(reader)
        load.finish()
        self._await_rest(reader, load)
        time.sleep(2)  # what is doubled may come late
        self._over.set()
        watch.join()
        looking.join()
        return self._result(reader, load, (hidden, resources), self._replayed())

    def _replayed(self) -> subprocess.CompletedProcess[str]:
        """`sluice replay --checkpoint`, when the service has ended: what it computes again is what was written."""
        self._service.clean_up()
        command = [sys.executable, "-m", "sluice", "replay", str(self._service.file), "--checkpoint"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def _faults(self, reader: Reader) -> None:
        """Faults until the time is up, an equal time for each mode."""
        begun = time.monotonic()
        for number, mode in enumerate(self.modes, 1):
            if self._over.is_set():
                return
            if mode is not self._surroundings.mode:
                self._change(mode)
            self._faults_until(begun + 60 * self._minutes * number / len(self.modes), reader, begun)
            self._await_ready()
            self._ready = max(self._ready, time.monotonic() - self._healed)

    def _change(self, mode: Mode) -> None:
        """The service ends in order, and starts in another mode with the same checkpoint."""
        with self._restart:
            with suppress(AssertionError, ProcessLookupError):
                os.kill(self._service.pid, signal.SIGTERM)
                self._service.await_end(120)
            self._service.kill()
            self._surroundings.change(mode)
            self._service = self._surroundings.instance(self._service.file)
            self._start()
        print(f"{mode}, ready after {self._await_ready():.1f} s", flush=True)  # noqa: T201

    def _faults_until(self, until: float, reader: Reader, begun: float) -> None:
        """At most AT_ONCE at a time, of different groups."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            under_way: dict[str, Any] = {}
            for kind in self._order():
                if time.monotonic() > until or self._over.is_set():
                    break
                while True:
                    under_way = {group: one for group, one in under_way.items() if not one.done()}
                    if len(under_way) < AT_ONCE and group_of(kind) not in under_way:
                        break
                    time.sleep(0.1)
                world = self._world()
                under_way[group_of(kind)] = pool.submit(self._one, kind, world, reader, begun)
                self._pause(self._random.choice([0.5, 1, 3, 8]))

    def _world(self) -> World:
        seeded = random.Random(self._random.getrandbits(32))
        return World(self._service, self._brokers, seeded, self._surroundings, self._load, self._replace, self._grow)

    def _replace(self, service: SluiceProcess) -> None:
        self._service = service

    def _grow(self) -> str:
        """One more topic partition for an input, which only the last records reach: keys keep their topic partitions.

        A stream with event times does not get one: an empty topic partition holds its watermark back.
        """
        grown = [name for flow in self.flows for name in flow.inputs if "event_time" not in flow.streams[name]]
        stream = self._random.choice(grown) if grown else ""
        if not stream or stream in self._load.grown:
            return "no topic to grow"
        add_topic_partitions(self._brokers.direct, f"{NAME}.{stream}", TOPIC_PARTITIONS + 1)
        self._load.grown.add(stream)
        return f"the topic of {stream} has {TOPIC_PARTITIONS + 1} topic partitions"

    def _order(self) -> Iterator[str]:
        """Each kind once before one of them comes again."""
        while True:
            yield from (kind for kind in self._random.sample(self._kinds, len(self._kinds)) if self._possible(kind))

    def _possible(self, kind: str) -> bool:
        return possible(kind, self._surroundings, self._load)

    def _one(self, kind: str, world: World, reader: Reader, begun: float) -> None:
        at = time.monotonic()
        happened = Happened(at - begun, kind, "")
        self._happened.append(happened)
        with self._restart if group_of(kind) == "service" else threading.Lock():
            try:
                happened.what = FAULTS[kind](world)
            except Exception as error:
                self._failed(f"{kind} could not be done or healed: {error}")
                raise
            self._start()
        self._healed = healed = time.monotonic()
        while reader.last_record < healed and time.monotonic() < healed + 120 and not self._over.is_set():
            time.sleep(0.05)
        happened.recovery = max(0.0, reader.last_record - healed)
        written = f"written again after {happened.recovery:.1f} s"
        print(f"{happened.at:7.1f} s  {kind:28} {happened.what}; {written}", flush=True)  # noqa: T201

    # ---- the service -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._service.running and not self._over.is_set():
            self._starts += 1
            self._service.start()

    def _keep_running(self) -> None:
        """Starts the service again, as an orchestrator does."""
        while not self._over.wait(0.5):
            with self._restart:
                if not self._service.running and not self._over.is_set():
                    code = self._service.exit_code
                    if code not in RESTARTED:
                        self._failed(f"the service ended with exit code {code}: {self._service.log()[-2000:]}")
                        return
                    self._service.await_no_process()
                    self._start()

    def _failed(self, what: str) -> None:
        print(what, file=sys.stderr, flush=True)  # noqa: T201
        self._over.set()
        self._happened.append(Happened(0, "end", what))

    def _await_ready(self) -> float:
        begun = time.monotonic()
        while self._service.page("/readyz")[0] != 200 and time.monotonic() < begun + 2 * self._ready_s:
            time.sleep(0.2)
        return time.monotonic() - begun

    def _await_rest(self, reader: Reader, load: Load) -> None:
        until, counts = time.monotonic() + REST_S, wanted(load)
        while not complete(reader.seen, *counts) and time.monotonic() < until:
            time.sleep(1)
        if not complete(reader.seen, *counts) and self._service.running:
            self._service.stacks()  # in its log

    def _look(self, hidden: OpenTransactions, resources: Mapping[Mode, Resources]) -> None:
        def once() -> None:
            hidden.look()
            resources[self._surroundings.mode].look()

        look_until(self._over, once, self._failed)

    def _pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    # ---- the pipeline ------------------------------------------------------------------------------------------------

    def _create_topics(self) -> None:
        create(self._brokers.direct, NewTopic(ledger.TOPIC, 1, 3, config=LEDGER_CONFIG))
        for stream in [*self._streams(), EXTRA]:
            create(self._brokers.direct, NewTopic(f"{NAME}.{stream}", TOPIC_PARTITIONS, 3))

    def _streams(self) -> dict[str, Any]:
        return {name: settings for flow in self.flows for name, settings in flow.streams.items()} | {DEAD: {}}

    def _write_file(self) -> Path:
        streams = {name: {"topic": f"{NAME}.{name}"} | settings for name, settings in self._streams().items()}
        file = {
            "pipeline": NAME,
            "kafka": self._brokers.through,
            "checkpoint": str(self._surroundings.first / CHECKPOINT),
            "buckets": random.Random(f"buckets {self._seed}").choice([2, 3]),  # three write their own topic partitions
            "streams": streams,
            "operators": [operator for flow in self.flows for operator in flow.operators],
            "dead_letters": DEAD,
            **(self._surroundings.store.settings if self._surroundings.store else {}),
        }
        path = self._surroundings.first / "pipeline.yaml"
        path.write_text(yaml.safe_dump(file, sort_keys=False))
        return path

    def _result(
        self, reader: Reader, load: Load, watched: tuple[OpenTransactions, Mapping[Mode, Resources]],
        replayed: subprocess.CompletedProcess[str],
    ) -> Result:  # fmt: skip
        seen, (hidden, resources) = reader.stop(), watched
        wrong = violations(seen, load)
        wrong += [one.what for one in self._happened if one.kind == "end"]
        if hidden.longest > HIDDEN_S:
            wrong.append(f"an open transaction hid records for {hidden.longest:.0f} s")
        if self._ready > self._ready_s:
            wrong.append(f"not ready within {self._ready_s:.0f} s after the last fault of a mode: {self._ready:.0f} s")
        if replayed.returncode:
            said = f"{replayed.stdout[-500:]} {replayed.stderr[-500:]}"
            wrong.append(f"`sluice replay --checkpoint` ended with {replayed.returncode}: {said}")
        return Result(
            self._seed, [type(flow).__name__ for flow in self.flows], self._happened, load.count,
            sum(map(len, seen.tuples.values())), seen.letters.total(), sum(map(len, seen.entries.values())),
            self._starts, hidden.longest, self._ready, wrong, [*self._slopes(resources)],
            "; ".join(replayed.stderr.splitlines()),
        )  # fmt: skip

    @staticmethod
    def _slopes(resources: Mapping[Mode, Resources]) -> Iterator[str]:
        for mode, own in resources.items():
            grown = ", ".join(row.split("|")[1].strip() for row in own.grown())
            yield from [f"Mode {mode}: {f'not flat: {grown}' if grown else 'flat'}", "", *own.slopes(), ""]


def look_until(
    over: threading.Event, look: Callable[[], object], failed: Callable[[str], object], pause: float = 1.0
) -> None:
    """Calls `look` again and again. If it raises, the campaign has `failed`: it checks less than its page says."""
    try:
        while not over.wait(pause):
            look()
    except Exception as error:
        failed(f"nothing looks at open transactions and resources any more: {error!r}")
        raise


def page(result: Result) -> str:
    """The result as Markdown."""
    faults = [one for one in result.happened if one.kind != "end" and one.met]
    kinds = Counter(one.kind for one in faults)
    recoveries = {kind: sorted(one.recovery or 0.0 for one in faults if one.kind == kind) for kind in kinds}
    rows = [
        f"| {kind} | {count} | {recoveries[kind][len(recoveries[kind]) // 2]:.1f} | {recoveries[kind][-1]:.1f} |"
        for kind, count in sorted(kinds.items())
    ]
    verdict = "Nothing was lost, doubled, torn or out of order." if not result.wrong else "VIOLATIONS:"
    sums = (
        f"{result.records:,} records, {result.outputs:,} outputs, {result.letters:,} dead letters, "
        f"{result.batches:,} batches, {kinds.total()} faults of {len(kinds)} kinds, {result.starts} starts of the "
        f"service. Open transactions hid records for at most {result.hidden:.1f} s; the service wrote again and was "
        f"ready at most {result.ready:.1f} s after the last fault of a mode."
    )
    sums += f" `sluice replay --checkpoint`: {result.replay or 'nothing to compare'}."
    head = "| fault | times | s until the next output, median | most |"
    lines = [f"Seed {result.seed}: {', '.join(result.flows)}.", "", sums, "", f"**{verdict}**", *result.wrong, ""]
    return "\n".join([*lines, head, "| --- | --- | --- | --- |", *rows, "", *result.slopes])


def lines_of(text: str) -> list[str]:
    """The page for the documentation: the kinds of faults in one paragraph, the growth of each mode in another."""
    head, _, behind = text.partition("\n| fault |")
    faults, *modes = behind.split("\nMode ")
    rows = [row for row in cells(faults) if row[1].isdecimal()]
    kinds = ", ".join(f"{kind} {count}" + f" ({median})" * (float(median) >= 1) for kind, count, median, _ in rows)
    about = f"{machine()}, {datetime.now(UTC):%Y-%m-%d}; {busy()}."
    return [
        about,
        "",
        *head.rstrip().splitlines(),
        "",
        f"Times of each fault (and the median of the seconds to the next output, from one on): {kinds}.",
        *(line for mode in modes for line in ("", of_mode(mode))),
    ]


def cells(text: str) -> list[list[str]]:
    """Of the rows of a table with four columns."""
    rows = ([cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("| "))
    return [row for row in rows if len(row) == 4 and row[0] != "---"]


def of_mode(text: str) -> str:
    quantities = ", ".join(f"{name} {first} and {last}" for name, first, last, _ in cells(text)[1:])
    title = text.partition("\n")[0]
    return f"Mode {title}: {quantities}." if quantities else f"Mode {title.partition(':')[0]}: too few samples."


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=RATE, help="records a second")
    kinds = sorted(FAULTS)
    parser.add_argument("--only", action="append", default=[], choices=kinds, help="a kind of fault; may be repeated")
    parser.add_argument("--mode", action="append", default=[], choices=[*Mode], type=Mode, help="may be repeated")
    parser.add_argument("--write", action="store_true", help="put the result into docs/chaos.md")
    parser.add_argument("--keep", action="store_true", help="keep the folder with log and checkpoint")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sluice-chaos-"))
    print(f"seed {arguments.seed}, {arguments.minutes:g} minutes; log and checkpoint are in {folder}", flush=True)  # noqa: T201
    campaign = Campaign(
        arguments.seed, arguments.minutes, folder, kinds=arguments.only, modes=arguments.mode, rate=arguments.rate
    )
    result = campaign.run()
    print(page(result), flush=True)  # noqa: T201
    if arguments.write:
        write(f"chaos {arguments.seed}", lines_of(page(result)), "docs/chaos.md")
    if not result.wrong and not arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
