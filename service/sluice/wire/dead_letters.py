"""Dead letters: records that could not be used, kept as they were, with what was wrong in their headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

Headers = list[tuple[str, bytes | None]]

PREFIX = "sluice-"
#: what Kafka's own framing of a record can take beside key, value and headers, with room to spare
FRAMING = 128
#: and of each header, beside its key and value
HEADER_FRAMING = 10


class Reason(StrEnum):
    """The words with which reasons begin; also the labels of the counter, so there are few of them."""

    NOT_JSON = "not JSON"
    NOT_AN_OBJECT = "not an object"
    NOT_AVRO = "not Avro"
    NOT_CSV = "not CSV"
    NOT_TEXT = "not text"
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
    """The word that a reason begins with."""
    return reason.partition(":")[0]


def of_operator(operator: str, what: str) -> str:
    """The reason of a tuple that an operator could not use: for `what`, which has no value or begins with a word."""
    word, _, detail = what.partition(": ")
    return (
        f"{word}: operator {operator}: {detail}"
        if word in list(Reason)
        else reason(Reason.NO_VALUE, f"operator {operator}: {what}")
    )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record with the place that it came from (`offset` -1: made by the service itself) and why it is here.

    original   whether it is the record as it was; else its value is the tuple, in JSON
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

    def record(self, limit: int) -> tuple[bytes | None, bytes | None, Headers]:
        """Key, value and headers of the record to write, of at most `limit` bytes.

        What is too large loses the end of its value, then its own headers, then the end of its key.
        """
        headers = self._all_headers()
        if _size(self.key, self.value, headers) <= limit:
            return self.key, self.value, headers
        headers = [*headers, self._truncated()]
        if _size(self.key, None, headers) > limit:
            headers = [*self._own_headers(), self._truncated()]
        key = _cut(self.key, limit - _size(None, None, headers))
        return key, _cut(self.value, limit - _size(key, None, headers)), headers

    def _all_headers(self) -> Headers:
        return [*((name, value) for name, value in self.headers if name not in OWN), *self._own_headers()]

    def _truncated(self) -> tuple[str, bytes]:
        return PREFIX + "truncated", str(len(self.value or b"")).encode()

    def _own_headers(self) -> Headers:
        values = (self.reason, self.stream, self.topic, self.partition, self.offset, self.timestamp)
        return [(name, str(value).encode()) for name, value in zip(OWN, values, strict=True)]


OWN = tuple(PREFIX + word for word in ("reason", "stream", "topic", "partition", "offset", "timestamp"))


def _size(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    framed = sum(len(name.encode()) + len(content or b"") + HEADER_FRAMING for name, content in headers)
    return FRAMING + len(key or b"") + len(value or b"") + framed


def _cut(content: bytes | None, room: int) -> bytes | None:
    return None if content is None else content[: max(0, room)]
