"""Random pipelines (tests/chaos/flows.py) through one, two and three executors: what local mode writes, and what the
independent calculation of each flow expects. SLUICE_TEST_SEED=7 draws others.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from sluice.kafka.topics import create
from tests.chaos.flows import LAST, Flow, Outputs, Sent, random_flows
from tests.recovery.harness.output_reader import topic_partition
from tests.recovery.harness.sluice_process import SluiceProcess
from tests.unit.kafka.broker_tools import visible

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SEED = int(os.environ.get("SLUICE_TEST_SEED", "1"))
#: topic partitions of the inputs, and of the outputs: a multiple of 1, 2 and 3 buckets
INPUT, OUTPUT = 2, 6
RECORDS, START = 3000, 1_700_000_000.0
#: stream and number of the topic partition -> key, value and headers of its records
Seen = dict[tuple[str, int], list[tuple[object, ...]]]


class Random:
    """A random pipeline, whose records are all sent before it starts: so each run plans the same batches.

    flows  its kinds of flows; four random ones by default
    most   records of a batch
    """

    def __init__(self, broker: str, seed: int, flows: Sequence[type[Flow]] = (), most: int = 400) -> None:
        self._kafka, self._name, self._seed, self._most = {"bootstrap.servers": broker}, f"random-{seed}", seed, most
        seeded = random.Random(seed)
        self.flows = [flow(random.Random(seeded.getrandbits(32))) for flow in flows] or random_flows(seeded, count=4)
        self.sent: dict[Flow, list[Sent]] = defaultdict(list)
        for flow in self.flows:
            create(self._kafka, *(NewTopic(f"{self._name}.{stream}", INPUT) for stream in flow.inputs))
        self._send()

    def _send(self) -> None:
        producer = Producer(self._kafka | {"linger.ms": 20, "enable.idempotence": True})
        seeded, numbers = random.Random(self._seed), range(RECORDS)
        records = [(flow, record, START) for flow in self.flows for record in flow.before()]
        for number in numbers:
            flow = seeded.choice(self.flows)
            now = START + 1 + number / 100
            records.append((flow, flow.record(now), now))
        end = START + 1 + RECORDS / 100
        records += [(flow, record, end) for flow in self.flows for record in flow.last(end)]
        for flow, record, now in records:
            own = [topic_partition(record.key, INPUT)] if record.key else range(INPUT)
            self.sent[flow] += [record] if record.key else []
            for place in own:
                topic, at = f"{self._name}.{record.stream}", round(now * 1000)
                producer.produce(topic, record.data, record.key or None, place, timestamp=at)
            producer.poll(0)
        assert producer.flush(60) == 0

    @property
    def outputs(self) -> list[str]:
        return [stream for flow in self.flows for stream in flow.outputs]

    def file(self, run: str, folder: Path) -> Path:
        """The pipeline file of a run, whose outputs are its own."""
        streams: dict[str, Any] = {}
        for flow in self.flows:
            for name, settings in flow.streams.items():
                own = {"topic": f"{self._name}.{name}"} if name in flow.inputs else {
                    "topic": f"{self._name}-{run}.{name}", "partitions": OUTPUT,
                }  # fmt: skip
                streams[name] = own | settings
        file = {
            "pipeline": f"{self._name}-{run}", "kafka": self._kafka, "checkpoint": str(folder / "checkpoint"),
            "clock": "records", "max_records_per_batch": self._most,
            "buckets": random.Random(self._seed).choice([2, 3]),
            "streams": streams | {"dead": {"topic": f"{self._name}-{run}.dead", "partitions": 1}},
            "operators": [operator for flow in self.flows for operator in flow.operators], "dead_letters": "dead",
        }  # fmt: skip
        path = folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(file, sort_keys=False))
        return path

    def run(
        self, stack: ExitStack, run: str, folder: Path, master: str, count: int, *,
        disturb: Callable[[SluiceProcess], object] = lambda _: None,
    ) -> Seen:  # fmt: skip
        """What a run writes, once that are so many records with other keys than LAST. `disturb` gets the service."""
        folder.mkdir()
        service = SluiceProcess(self.file(run, folder), folder, ["--master", master])
        stack.callback(service.clean_up)
        service.start()
        service.await_log("message=running")
        disturb(service)
        service.wait_until(lambda: len(by_key(self._seen(run))) >= count, f"{count} records are there")
        service.end()
        return self._seen(run)

    def _seen(self, run: str) -> Seen:
        return {
            (stream, place): [
                (message.key(), message.value(), tuple(message.headers() or ()), message.timestamp())
                for message in visible(self._kafka, f"{self._name}-{run}.{stream}", place)
            ]
            for stream in self.outputs
            for place in range(OUTPUT)
        }

    def expected(self) -> Outputs:
        found: Outputs = {}
        for flow in self.flows:
            found |= {place: rows for place, rows in flow.expected(self.sent[flow]).items() if rows}
        return found


def by_key(seen: Seen) -> list[tuple[str, dict[str, Any]]]:
    """The tuples of all streams, without those of LAST."""
    rows = [(stream, json.loads(str(row[1], "utf-8"))) for (stream, _), some in seen.items() for row in some]  # type: ignore[arg-type]
    return [(stream, row) for stream, row in rows if row["k"] != LAST]


def grouped(seen: Seen) -> Outputs:
    found: Outputs = defaultdict(list)
    for stream, row in by_key(seen):
        found[stream, row["k"]].append(row)
    return dict(found)


def in_any_order(outputs: Outputs) -> dict[tuple[str, str], list[str]]:
    """For flows whose order does not follow from the records (`Flow.ordered`)."""
    return {place: sorted(json.dumps(row, sort_keys=True) for row in rows) for place, rows in outputs.items()}


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_a_random_pipeline_gives_the_same_on_any_number_of_executors(broker, tmp_path, seed):
    pipeline = Random(broker, seed)
    expected = pipeline.expected()
    count = sum(map(len, expected.values()))
    with ExitStack() as stack:
        local = pipeline.run(stack, "local", tmp_path / "local", "local[2]", count)
    assert in_any_order(grouped(local)) == in_any_order(expected)
    for executors in (1, 2, 3):
        with ExitStack() as stack:
            master = f"local-cluster[{executors},1,1024]"
            found = pipeline.run(stack, str(executors), tmp_path / str(executors), master, count)
        assert {place: len(rows) for place, rows in found.items()} == {
            place: len(rows) for place, rows in local.items()
        }
        assert found == local
