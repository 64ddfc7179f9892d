"""What a reader of committed records sees, compared with what the flows calculate: nothing lost, doubled, out of order.

The checker uses nothing of the product but the name of the ledger's topic. It reads all along, so a record that is
wrong is seen when it is written, with the faults of that minute.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.chaos.flows import EXTRA, LAST, Flow, Tuple, numbers_by_key
from tests.chaos.flows import MARK as MARKED
from tests.chaos.load import TOPIC_PARTITIONS, Load
from tests.recovery.harness.output_reader import topic_partition

LEDGER = "sluice.ledger"
MARK = "sluice-mark"
#: a header of each dead letter
REASON = "sluice-reason"
#: seconds that an open transaction may hide records: a broker aborts it after `transaction.timeout.ms`, one minute, and
#: looks every 10 s; a new writer does so at once
HIDDEN_S = 80.0
#: milliseconds after which the reader takes a broker for stopped: the default of a minute would hide what others have
STOPPED_MS = 10_000
#: differences that are shown
SHOWN = 5


@dataclass
class Seen:
    """The committed records, as they were read."""

    #: stream and key -> the tuples in the order of their topic partition
    tuples: dict[tuple[str, str], list[Tuple]] = field(default_factory=lambda: defaultdict(list))
    letters: Counter[bytes] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    #: the ledger's entries of each query: of the pipeline, or of each of its stages
    entries: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    #: records by topic, without those of the ledger
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Reader:
    """Reads the outputs, the dead letters and the ledger from a thread, until `stop`."""

    def __init__(self, kafka: Mapping[str, str], name: str, flows: Sequence[Flow], *, dead: str) -> None:
        own = {"group.id": "chaos", "isolation.level": "read_committed", "enable.auto.commit": False,
               "enable.partition.eof": False, "fetch.wait.max.ms": 100, "log_level": 0,
               "socket.timeout.ms": STOPPED_MS}  # fmt: skip
        self._consumer = Consumer(dict(kafka) | own)
        self._name, self._dead = name, f"{name}.{dead}"
        streams = [*(stream for flow in flows for stream in flow.outputs), EXTRA, dead]
        places = [TopicPartition(f"{name}.{stream}", n, 0) for stream in streams for n in range(TOPIC_PARTITIONS)]
        self._consumer.assign([*places, TopicPartition(LEDGER, 0, 0)])
        self.seen = Seen()
        self.last_record = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def stop(self) -> Seen:
        self._over.set()
        self._thread.join()
        self._consumer.close()
        return self.seen

    def _run(self) -> None:
        while not self._over.is_set():
            for message in self._consumer.consume(10_000, 0.2):
                if message.error() is None:
                    try:
                        self._take(message)
                    except (ValueError, KeyError, TypeError) as error:
                        place = f"{message.topic()} [{message.partition()}] at {message.offset()}"
                        self.seen.wrong.append(f"{place}: {error!r} in {message.value()!r}, {message.headers()}")

    def _take(self, message: Message) -> None:
        headers = dict(message.headers() or ())
        if message.topic() == LEDGER:
            query = (message.key() or b"").decode()
            if message.value() and (query == self._name or query.startswith(f"{self._name}.")) and "/" not in query:
                self.seen.entries[query].append(json.loads(message.value()))
            return
        self.last_record = time.monotonic()
        self.seen.counts[str(message.topic())] += 1
        if message.topic() == self._dead:
            self.seen.letters[message.value()] += 1
            self.seen.reasons[headers.get(REASON, b"").decode().partition(":")[0]] += 1
        else:
            self._take_output(message, headers.get(MARK))

    def _take_output(self, message: Message, mark: bytes | None) -> None:
        """A tuple, a mark, or a tuple with the mark of its firing."""
        stream = str(message.topic()).removeprefix(f"{self._name}.")
        value = json.loads(message.value()) if message.value() else None
        key = value["k"] if value else (message.key() or b"").decode()
        if topic_partition(key, TOPIC_PARTITIONS) != message.partition():
            self.seen.wrong.append(f"{stream}: {value} is in topic partition {message.partition()}, not in its key's")
        if value:
            self.seen.tuples[stream, key].append(value)
        if mark:
            self.seen.tuples[stream, key].append({"k": key, MARKED: mark.decode()})


class OpenTransactions:
    """Watches how long a transaction hides records from readers: the last stable offset stands below the end."""

    def __init__(self, admin: AdminClient, topics: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._admin, self._clock = admin, clock
        self._places = [TopicPartition(topic, n) for topic in topics for n in range(TOPIC_PARTITIONS)]
        self._hidden: dict[tuple[str, int], tuple[int, float]] = {}
        #: the longest time in seconds that a transaction hid records
        self.longest = 0.0

    def look(self) -> None:
        """Once every second or so. Nothing is learnt while brokers do not answer."""
        try:
            stable = self._offsets(IsolationLevel.READ_COMMITTED)
            ends = self._offsets(IsolationLevel.READ_UNCOMMITTED)
        except KafkaException:
            self._hidden.clear()
            return
        now = self._clock()
        for place, end in ends.items():
            offset = stable[place]
            if offset >= end:
                self._hidden.pop(place, None)
                continue
            since = self._hidden.get(place, (offset, now))
            self._hidden[place] = since if since[0] == offset else (offset, now)
            self.longest = max(self.longest, now - self._hidden[place][1])

    def _offsets(self, level: IsolationLevel) -> dict[tuple[str, int], int]:
        asked = self._admin.list_offsets(
            dict.fromkeys(self._places, OffsetSpec.latest()), isolation_level=level, request_timeout=5
        )
        return {(place.topic, place.partition): answer.result().offset for place, answer in asked.items()}


def text_of(row: Tuple) -> str:
    return json.dumps(row, sort_keys=True)


def wanted(load: Load) -> tuple[int, int]:
    """How many tuples and how many dead letters must come. Calculates all outputs, so it is called once."""
    tuples = sum(len(some) for flow, sent in load.sent.items() for some in flow.expected(sent).values())
    return tuples, sum(1 for flow, sent in load.sent.items() for _ in flow.letters(sent))


def complete(seen: Seen, tuples: int, letters: int) -> bool:
    """Whether as many records were seen as must come; more are a violation, too, which `violations` finds."""
    return sum(map(len, [*seen.tuples.values()])) >= tuples and seen.letters.total() >= letters


def violations(seen: Seen, load: Load) -> list[str]:
    """What is lost, doubled or out of order; empty if nothing is."""
    of_ledger = [*_of_ledger(seen), *_of_counts(seen)]
    return [*seen.wrong, *_of_outputs(seen, load), *_of_extra(seen, load), *_of_letters(seen, load), *of_ledger]


def _of_outputs(seen: Seen, load: Load) -> Iterator[str]:
    for flow, sent in load.sent.items():
        expected = flow.expected(sent)
        for stream in flow.outputs:
            for key in sorted({key for name, key in (*expected, *seen.tuples) if name == stream and key != LAST}):
                yield from _differences(flow, stream, key, expected.get((stream, key), []), seen.tuples[stream, key])


def _differences(flow: Flow, stream: str, key: str, expected: list[Tuple], found: list[Tuple]) -> Iterator[str]:
    if not flow.ordered:
        expected, found = sorted(expected, key=text_of), sorted(found, key=text_of)
    if expected == found:
        return
    place = f"{stream}, key {key!r}: {len(found)} tuples, expected {len(expected)}"
    missing, more = Counter(map(text_of, expected)), Counter(map(text_of, found))
    lost, extra = list((missing - more).elements()), list((more - missing).elements())
    if not lost and not extra:
        number = next(n for n, (one, other) in enumerate(zip(expected, found, strict=True)) if one != other)
        yield f"{place}: out of order from tuple {number} on: {found[number]}, expected {expected[number]}"
    else:
        yield f"{place}: lost {lost[:SHOWN]}, doubled or wrong {extra[:SHOWN]}"


def _of_extra(seen: Seen, load: Load) -> Iterator[str]:
    """The operator that comes and goes writes each tuple at most once, in order, and all while it is there."""
    sent = [one for flow, records in load.sent.items() if load.extra in flow.streams for one in records]
    for key, numbers in numbers_by_key([one for one in sent if one.stream == load.extra]).items():
        places = {number: place for place, number in enumerate(numbers)}
        steps = [now - before for before, now in pairwise(places[row["n"]] for row in seen.tuples[EXTRA, key])]
        gaps = sum(step > 1 for step in steps)
        if any(step < 1 for step in steps) or gaps > load.changes // 2:
            backs = [step for step in steps if step < 1]
            yield f"{EXTRA}, key {key!r}: {gaps} gaps after {load.changes} changes of the file; steps back: {backs}"


def _of_letters(seen: Seen, load: Load) -> Iterator[str]:
    expected = Counter(value for flow, sent in load.sent.items() for value in flow.letters(sent))
    for value, count in ((expected - seen.letters) + (seen.letters - expected)).most_common(SHOWN):
        yield f"dead letters: {value!r} came {seen.letters[value]} times, expected {expected[value]} ({count})"


def _of_ledger(seen: Seen) -> Iterator[str]:
    """The batches of a query are numbered without gaps, each once."""
    for query, entries in seen.entries.items():
        numbers = [entry["batch"] for entry in entries]
        steps = [(one, other) for one, other in pairwise(numbers) if other != one + 1]
        if steps:
            yield f"ledger of {query}: batches do not follow each other: {steps[:SHOWN]}"


def _of_counts(seen: Seen) -> Iterator[str]:
    """The entries of the ledger count the visible tuples."""
    counted, visible = Counter[str](), Counter[str]()
    for entry in (one for entries in seen.entries.values() for one in entries):
        for stream, by_kind in entry["report"]["written"].items():
            counted[stream] += by_kind.get("tuple", 0)
    for (stream, _), rows in seen.tuples.items():
        visible[stream] += sum(MARKED not in row for row in rows)
    for stream, count in sorted(visible.items()):
        if counted[stream] != count:
            yield f"the ledger counts {counted[stream]} tuples of {stream}, {count} are visible"
