"""The program of docs/formats.md that sends dead letters again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from sluice.files import project_file
from sluice.kafka.topics import create

PAGE = project_file("docs/formats.md").read_text(encoding="utf-8")
TOPIC, LETTERS = "resent-orders", "resent-orders.dead"
HEADERS = {
    "trace": "t1",
    "sluice-reason": "wrong type: amount",
    "sluice-topic": TOPIC,
    "sluice-partition": "0",
    "sluice-offset": "4",
    "sluice-timestamp": "1700000000123",
}


def test_the_program_sends_original_records_again_once(broker: str, tmp_path: Path):
    create({"bootstrap.servers": broker}, NewTopic(TOPIC, 1), NewTopic(LETTERS, 1))
    producer = Producer({"bootstrap.servers": broker})
    producer.produce(TOPIC, b"the first", b"a", timestamp=1_600_000_000_000)
    for value, more in [
        (b"whole", {}),
        (b"late", {"sluice-reason": "late: 5 s"}),
        (b"tuple of an operator", {"sluice-value": "tuple"}),
        (b"truncated", {"sluice-truncated": "2000000"}),
    ]:
        producer.produce(LETTERS, value, b"a", headers=HEADERS | more)
    assert producer.flush(30) == 0
    (program,) = re.findall(r"```python\n(# python resend.py.*?)```", PAGE, re.DOTALL)
    (tmp_path / "resend.py").write_text(program.replace("poll(10)", "poll(5)"))  # seconds until it ends
    for _ in range(2):
        subprocess.run([sys.executable, "resend.py", broker, LETTERS], cwd=tmp_path, check=True, timeout=120)
    sent = records(broker, TOPIC)
    assert sorted(sent) == [
        (b"the first", b"a", 1_600_000_000_000, []),
        (b"whole", b"a", 1_700_000_000_123, [("trace", b"t1")]),
    ]


def records(broker: str, topic: str) -> list[tuple[bytes, bytes, int, list[tuple[str, bytes]]]]:
    """All records of the topic: value, key, timestamp, headers."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test-resend", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = []
    while record := consumer.poll(5):
        assert not record.error()
        read.append((record.value(), record.key(), record.timestamp()[1], record.headers() or []))
    consumer.close()
    return read
