"""The last records of the streams that a pipeline writes, as rows of the page and as events of a replay.

They are read from their topics when someone opens the page, so they cost a batch nothing, show only what readers can
see, and are there after a restart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluice.columns.json_columns import shown_values
from sluice.inspect.record_topic import shown_bytes
from sluice.json_texts import COMPACT, text_with_digits
from sluice.kafka.client import client_properties
from sluice.kafka.kafka_errors import HeaderNameError
from sluice.kafka.range_reader import END, READER_PROPERTIES, headers_of
from sluice.kafka.records import SCHEMA
from sluice.kafka.requests import discard
from sluice.model.spec import Pipeline, Stream
from sluice.wire.dead_letter_record import PREFIX
from sluice.wire.mark_headers import HEADER
from sluice.wire.record_codec import Records

#: number of records that are shown of a stream, and the offsets of a topic partition that are read for them: markers of
#: transactions have offsets, too
MAX_RECORDS, OFFSETS = 20, 60
#: maximum number of topic partitions that are read, bytes of a value, and seconds
MAX_PARTITIONS, MAX_VALUE, READ_S = 64, 4096, 4.0
#: bytes that the client fetches at once
FETCH = {"fetch.max.bytes": 1 << 20, "max.partition.fetch.bytes": 1 << 18, "queued.max.messages.kbytes": 4096}
REQUEST_S = 3.0

#: a number of a header of a dead letter
NUMBER = re.compile(r"-?[0-9]{1,18}")

Event = dict[str, Any]


def last_records(pipeline: Pipeline, partitions: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
    """By output stream, and by the stream of dead letters: its last records, newest first.

    `partitions` has the number of topic partitions of each stream. A record has `at` (milliseconds since 1970),
    `topic_partition`, `offset`, `key`, `event`, and for dead letters `reason`.
    """
    dead = pipeline.streams[pipeline.dead_letters] if pipeline.dead_letters else None
    streams = [*pipeline.outputs, *([dead] if dead is not None else [])]
    topics = {str(stream.topic): stream for stream in streams if stream.topic is not None}
    topic_partitions = [
        (topic, n) for topic, stream in topics.items() for n in range(min(MAX_PARTITIONS, partitions[stream.name]))
    ]
    messages: dict[str, list[Message]] = {topic: [] for topic in topics}
    for message in _read(pipeline.settings.kafka, topic_partitions):
        messages[message.topic()].append(message)
    return {
        stream.name: [
            _dead_letter(message) if stream is dead else _output(stream, message, pipeline)
            for message in sorted(messages[topic], key=_age)[-MAX_RECORDS:][::-1]
        ]
        for topic, stream in topics.items()
    }


def _age(message: Message) -> tuple[int, int]:
    """The order of records: by timestamp (milliseconds since 1970), then by offset."""
    return message.timestamp()[1], message.offset()


def _read(kafka: Mapping[str, str], topic_partitions: Sequence[tuple[str, int]]) -> list[Message]:
    """The records at the last OFFSETS offsets of these topic partitions, as far as they come within READ_S seconds."""
    clients: list[Any] = [Consumer(client_properties(kafka, "consumer") | READER_PROPERTIES | FETCH)]
    try:
        consumer = clients[0]
        deadline = time.monotonic() + READ_S
        assigned, unread = [], set()
        for topic, number in topic_partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=REQUEST_S)
            if high > low:
                assigned.append(TopicPartition(topic, number, max(low, high - OFFSETS)))
                unread.add((topic, number))
        consumer.assign(assigned)
        messages: list[Message] = []
        while unread and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    messages.append(message)
                elif message.error().code() == END:
                    unread.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(message.error())
        return messages
    finally:
        del consumer
        discard(clients)


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of a record; none if the name of one is not UTF-8, which any producer may write."""
    try:
        return headers_of(message)
    except HeaderNameError:
        return []


def _common(message: Message) -> dict[str, Any]:
    key = message.key()
    return {
        "at": message.timestamp()[1], "topic_partition": message.partition(), "offset": message.offset(),
        "key": None if key is None else key[:MAX_VALUE].decode(errors="replace"),
    }  # fmt: skip


def _output(stream: Stream, message: Message, pipeline: Pipeline) -> dict[str, Any]:
    headers = dict(_headers(message))
    mark = (headers.get(HEADER) or b"").decode(errors="replace")
    event: Event = {"at": message.timestamp()[1] / 1000, "stream": stream.name, "topic_partition": message.partition()}
    value = message.value()
    is_mark = mark and (value is None or not value or mark in {"watermark", "final"})
    if mark == "watermark":
        event["watermark"] = (value or b"").decode(errors="replace")
    elif is_mark:
        event["punct"] = mark
    else:
        event["tuple"] = _tuple(stream, message, pipeline)
    return _common(message) | {"event": event, "mark": mark}


def _tuple(stream: Stream, message: Message, pipeline: Pipeline) -> Any:  # noqa: ANN401 - a JSON value
    """The tuple of a record. A record that cannot be decoded or is long is shown as a text."""
    value = message.value() or b""
    try:
        decoded = Records.of(stream, pipeline.settings.registry).decode(
            pa.array([value], pa.binary()),
            pa.array([message.key()], pa.binary()),
            pa.array([_headers(message)], SCHEMA.field("headers").type),
        )
        if len(decoded.good) and len(value) <= MAX_VALUE:
            columns = {name: shown_values(decoded.tuples.column(name), type_) for name, type_ in stream.schema}
            return {name: column[0] for name, column in columns.items()}
    except Exception:  # noqa: BLE001, S110 - whatever a codec raises: the text is shown
        pass
    return value[:MAX_VALUE].decode(errors="replace")


def _dead_letter(message: Message) -> dict[str, Any]:
    """A dead letter, with the event that gives the same dead letter in a replay."""
    headers = [(name, value or b"") for name, value in _headers(message)]
    details = {name.removeprefix(PREFIX): v.decode(errors="replace") for name, v in headers if name.startswith(PREFIX)}
    record: Event = {name: shown_bytes(part) for name, part in _parts(message)}
    rest = {name: shown_bytes(value) for name, value in headers if not name.startswith(PREFIX) or name == HEADER}
    if rest:
        record["headers"] = rest
    event: Event = {
        "at": _whole(details, "timestamp", message.timestamp()[1]) / 1000, "stream": details.get("stream"),
        "topic_partition": _whole(details, "partition", 0), "offset": _whole(details, "offset", -1),
        "record": record,
    }  # fmt: skip
    if event["offset"] < 0 or "value" in details:  # the record at this offset has another value
        del event["offset"]
    return _common(message) | {
        "event": event, "reason": details.get("reason", ""),
        "from": f"{details.get('topic')}/{details.get('partition')}", "from_offset": details.get("offset"),
        "truncated": "truncated" in details,
    }  # fmt: skip


def _whole(details: Mapping[str, str], name: str, default: int) -> int:
    """The number in a header, which any producer of the topic may have written."""
    return int(details[name]) if NUMBER.fullmatch(details.get(name, "")) else default


def _parts(message: Message) -> list[tuple[str, bytes]]:
    return [(name, part) for name, part in (("value", message.value()), ("key", message.key())) if part is not None]


def event_file(records: Sequence[Mapping[str, Any]]) -> bytes:
    """The events of these records, oldest first, one JSON object a line: a file for `sluice replay`.

    A tuple with a mark in its header is two events.
    """
    return b"".join(
        f"{text_with_digits(event, COMPACT)}\n".encode() for record in reversed(records) for event in _events(record)
    )


def _events(record: Mapping[str, Any]) -> Iterator[Event]:
    event = record["event"]
    yield event
    if "tuple" in event and record["mark"]:
        yield {name: value for name, value in event.items() if name != "tuple"} | {"punct": record["mark"]}


def columns_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The attributes of the tuples of these records, in order of their first occurrence."""
    names: dict[str, None] = {}
    for record in records:
        content = record["event"].get("tuple")
        names |= dict.fromkeys(content) if isinstance(content, dict) else {}
    return list(names)
