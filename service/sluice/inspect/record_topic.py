"""Reads the last records of topics as events of a replay."""

from __future__ import annotations

import heapq
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import orjson
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from sluice.kafka.kafka_errors import TopicError
from sluice.kafka.range_reader import ends, headers_of, tail
from sluice.kafka.requests import REQUEST, RETRY_TIMEOUT_S
from sluice.kafka.topics import compacted, reach
from sluice.wire.mark_headers import HEADER

#: seconds for which a connection is tried: a user waits for the answer
RETRY_S = 10.0

#: an event of a replay (docs/replay.md)
Event = dict[str, Any]


def record(kafka: Mapping[str, str], topics: Mapping[str, str | None], limit: int) -> Iterator[Event]:
    """The last committed records of each topic partition, at most `limit` of each, ordered by their timestamps.

    `topics` has the name of the stream that the events of a topic get; None: they get none. Among records with one
    timestamp those of an earlier topic come first.

    The records of a topic partition keep their order: the event of a record with an earlier timestamp than one before
    it has the time of that one, as in a service, and the record in it has its own timestamp. Raises TopicError if there
    is no such topic.
    """
    events = [
        _events(partition, messages, (number, stream))
        for number, (topic, stream) in enumerate(topics.items())
        for partition, messages in _last(kafka, topic, limit)
    ]
    for *_, event in heapq.merge(*events, key=lambda entry: entry[:4]):
        yield event


def record_tuples(kafka: Mapping[str, str], topic: str, limit: int) -> Iterator[Event]:
    """As `record` for one topic, without marks that carry no tuple."""
    for event in record(kafka, {topic: None}, limit):
        if event["record"].get("value") or HEADER not in event["record"].get("headers", {}):
            yield event


def known_as_compacted(kafka: Mapping[str, str], topic: str) -> bool:
    """Whether Kafka compacts the topic, as far as the user may know."""
    return bool(compacted(kafka, topic, min(RETRY_S, RETRY_TIMEOUT_S)))


def partitions(kafka: Mapping[str, str], topic: str) -> list[int]:
    """The topic partitions; empty if there is no such topic."""
    with reach(kafka, min(RETRY_S, RETRY_TIMEOUT_S)) as requests:
        return requests.send("list topics", partial(_partitions, topic))


def _last(kafka: Mapping[str, str], topic: str, limit: int) -> Iterator[tuple[int, list[Message]]]:
    """Each topic partition with its last records."""
    with reach(kafka, min(RETRY_S, RETRY_TIMEOUT_S)) as requests:
        numbers = requests.send("list topics", partial(_partitions, topic))
        if not numbers:
            message = f"no such topic: {topic}"
            raise TopicError(message)
        until = ends(requests, [(topic, partition) for partition in numbers])
    for topic_partition, end in until.items():
        yield topic_partition[1], tail(kafka, topic_partition, end, limit)


def _partitions(topic: str, client: AdminClient) -> list[int]:
    # A request for this topic alone would create it, if the broker creates missing topics.
    metadata = client.list_topics(timeout=REQUEST).topics.get(topic)
    return [] if metadata is None or metadata.error is not None else sorted(metadata.partitions)


def _events(
    partition: int, messages: list[Message], topic: tuple[int, str | None]
) -> list[tuple[int, int, int, int, Event]]:
    """An event for each record, with its time in milliseconds, the number of its topic, its topic partition and its
    offset. `topic` has the number of the topic, and the stream that the events name.
    """
    events, newest = [], 0
    number, stream = topic
    named = {} if stream is None else {"stream": stream}
    for message in messages:
        timestamp = message.timestamp()[1]
        newest = max(newest, timestamp)
        content = {"value": message.value(), "key": message.key()}
        parts = {name: shown_bytes(part) for name, part in content.items() if part is not None}
        if headers := headers_of(message):
            parts["headers"] = {name: None if value is None else shown_bytes(value) for name, value in headers}
        if timestamp < newest:
            parts["timestamp"] = _seconds(timestamp)
        event = {
            "at": _seconds(newest), **named, "topic_partition": partition, "offset": message.offset(),
            "record": parts,
        }  # fmt: skip
        events.append((newest, number, partition, message.offset() or 0, event))
    return events


def _seconds(milliseconds: int) -> float:
    return float(Decimal(milliseconds).scaleb(-3))


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
