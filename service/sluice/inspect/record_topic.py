"""Reads the last records of a topic as events of a replay."""

from __future__ import annotations

import heapq
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import orjson
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from sluice.kafka.kafka_errors import TopicError
from sluice.kafka.reading import ends, tail
from sluice.kafka.requests import REQUEST
from sluice.kafka.topics import reach

#: an event of a replay (docs/replay.md)
Event = dict[str, Any]


def record(kafka: Mapping[str, str], topic: str, most: int) -> Iterator[Event]:
    """The last committed records of each topic partition, at most `most` of each, ordered by their timestamps.

    The records of a topic partition keep their order: a record with an earlier timestamp than one before it gets the
    timestamp of that one, as in a service. Raises TopicError if there is no such topic.
    """
    asking = reach(kafka)

    def list_partitions(client: AdminClient) -> list[int]:
        found = client.list_topics(topic, timeout=REQUEST).topics[topic]
        return [] if found.error is not None else sorted(found.partitions)

    partitions = asking.ask("list topics", list_partitions)
    if not partitions:
        message = f"no such topic: {topic}"
        raise TopicError(message)
    until = ends(asking, [(topic, partition) for partition in partitions])
    stretches = [_events(place[1], tail(kafka, place, end, most)) for place, end in until.items()]
    for *_, event in heapq.merge(*stretches, key=lambda one: one[:3]):
        yield event


def _events(partition: int, messages: list[Message]) -> list[tuple[int, int, int, Event]]:
    """An event for each record, with its time in milliseconds, its topic partition and its offset."""
    found, newest = [], 0
    for message in messages:
        newest = max(newest, message.timestamp()[1])
        content = {"value": message.value(), "key": message.key()}
        parts = {name: shown_bytes(part) for name, part in content.items() if part is not None}
        if message.headers():
            parts["headers"] = {
                name: None if value is None else shown_bytes(value) for name, value in message.headers()
            }
        event = {
            "at": float(Decimal(newest).scaleb(-3)), "topic_partition": partition, "offset": message.offset(),
            "record": parts,
        }  # fmt: skip
        found.append((newest, partition, message.offset() or 0, event))
    return found


def shown_bytes(content: bytes) -> Any:  # noqa: ANN401 - a JSON value
    """The JSON object of these bytes if it is written as these bytes again, else their text, else base64."""
    if content.startswith(b"{"):
        with suppress(ValueError):
            document = orjson.loads(content)
            if isinstance(document, dict) and document.keys() != {"base64"} and orjson.dumps(document) == content:
                return document
    try:
        return content.decode()
    except ValueError:
        return {"base64": b64encode(content).decode()}
