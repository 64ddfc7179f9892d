"""Dead letters: records and tuples that could not be used, with the original bytes, and the reason in a header."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Headers = list[tuple[str, bytes | None]]

PREFIX = "sluice-"
#: an upper bound of the bytes that Kafka adds to a record beside its key, value and headers
FRAMING = 128
#: an upper bound of the bytes that Kafka adds to each header beside its key and value
HEADER_FRAMING = 10


class Reason(StrEnum):
    """The first words of a reason. They are also labels of a metric, so there must be few of them."""

    NOT_JSON = "not JSON"
    NOT_AN_OBJECT = "not an object"
    NOT_VALID = "not valid"
    NOT_AVRO = "not Avro"
    NOT_PROTOBUF = "not Protobuf"
    NOT_CSV = "not CSV"
    NOT_TEXT = "not text"
    NOT_A_CHANGE = "not a change event"
    UNKNOWN_SCHEMA = "unknown schema"
    MISSING = "missing attribute"
    NULL = "null attribute"
    WRONG_TYPE = "wrong type"
    NO_VALUE = "no value"
    UNKNOWN_MARK = "unknown mark"
    BAD_WATERMARK = "bad watermark"
    LATE = "late"
    TOO_FAR_AHEAD = "too far ahead"
    TOO_LARGE = "too large"


def reason(word: Reason, detail: str) -> str:
    return f"{word}: {detail}"


def word_of(reason: str) -> str:
    """The part of a reason before the first colon."""
    return reason.partition(":")[0]


def of_operator(operator: str, problem: str) -> str:
    """The reason for a tuple that an operator could not use.

    If `problem` begins with a word of Reason, this is the word of the result. Otherwise the word is NO_VALUE.
    """
    word, _, detail = problem.partition(": ")
    return (
        f"{word}: operator {operator}: {detail}"
        if word in list(Reason)
        else reason(Reason.NO_VALUE, f"operator {operator}: {problem}")
    )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the record, its topic, partition and offset, and the reason.

    offset     -1 if the service itself made the record
    timestamp  of the record, in milliseconds since 1970
    original   true if key, value and headers come from the original record; false if `value` is the tuple in JSON
    made       whether an operator made the tuple, such as a join; the record is the one that caused it
    """

    stream: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=list)
    original: bool = True
    made: bool = False

    def record(self, limit: int) -> tuple[bytes | None, bytes | None, Headers]:
        """Key, value and headers of the record to write, of at most `limit` bytes.

        A record that is too large is cut: first the end of its value, then its own headers, then the end of its key,
        then the end of the reason. The other headers of a dead letter stay, which may have some 300 bytes.
        """
        headers = self._all_headers()
        if _size(self.key, self.value, headers) <= limit:
            return self.key, self.value, headers
        headers = [*headers, self._truncated()]
        if _size(self.key, None, headers) > limit:
            headers = [*self._own_headers(), self._truncated()]
            room = limit - _size(None, None, headers)
            headers[0] = OWN[0], _cut(self.reason.encode(), min(0, room) + len(self.reason.encode()))
        key = _cut(self.key, limit - _size(None, None, headers))
        return key, _cut(self.value, limit - _size(key, None, headers)), headers

    def _all_headers(self) -> Headers:
        replaced = (*OWN, VALUE)
        return [*((name, value) for name, value in self.headers if name not in replaced), *self._own_headers()]

    def _truncated(self) -> tuple[str, bytes]:
        return PREFIX + "truncated", str(len(self.value or b"")).encode()

    def _own_headers(self) -> Headers:
        values = (self.reason, self.stream, self.topic, self.partition, self.offset, self.timestamp)
        headers: Headers = [(name, str(value).encode()) for name, value in zip(OWN, values, strict=True)]
        return headers if self.original else [*headers, (VALUE, b"tuple")]


#: the header of a dead letter whose value is the tuple of an operator in JSON, and not the value of the record
VALUE = PREFIX + "value"
OWN = tuple(PREFIX + word for word in ("reason", "stream", "topic", "partition", "offset", "timestamp"))


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    framed = sum(len(name.encode()) + len(content or b"") + HEADER_FRAMING for name, content in headers)
    return FRAMING + len(key or b"") + len(value or b"") + framed


def _cut(content: bytes | None, room: int) -> bytes | None:
    return None if content is None else content[: max(0, room)]
