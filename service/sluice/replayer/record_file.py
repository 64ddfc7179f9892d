"""Records in a file, as events of a replay: the file that `sluice init --records` reads."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from sluice.json_texts import items_of
from sluice.replayer.event_file import WrittenEvent

TAB = b"\t"
#: how consumers print a record without a value behind its key
NULLS = (b"null", b"NULL", b"")
#: what may stand between two values
BETWEEN = re.compile(r"[\s,]*")


def events_of(content: bytes) -> Iterator[dict[str, Any]]:
    """The records in a file. Its lines are events of `sluice record`, values of records, or keys and values with a tab
    between them, as Kafka's console consumer prints them. A file in which no line is a value may have JSON over several
    lines. A single list of objects has a record in each object.
    """
    lines = [line.rstrip(b"\r") for line in content.removeprefix(BOM_UTF8).split(b"\n") if line.strip()]
    documents = [_json(line) for line in lines]
    keyed = _keyed(lines)
    if keyed or any(isinstance(document, dict) for document in documents) or (len(lines) > 1 and any(documents)):
        values: Sequence[bytes | str] = lines
    else:
        values = _over_lines(content) or lines
    yield from keyed or (_event(number, value) for number, value in enumerate(values))


def _json(text: bytes | str) -> Any:  # noqa: ANN401 - a JSON value
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _event(number: int, value: bytes | str) -> dict[str, Any]:
    document = _json(value)
    is_event = isinstance(document, dict) and isinstance(document.get("record"), dict) and "at" in document
    if is_event:
        return WrittenEvent(document, value if isinstance(value, bytes) else value.encode())
    return {"at": number, "record": {"value": value}}


def _keyed(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Keys and values; nothing if a line has no tab, or if most values are neither JSON objects nor lists.

    `null` of the console consumer, and of kcat `NULL` (-Z) or nothing, stand for none.
    """
    parts = [line.partition(TAB) for line in lines]
    if not all(tab for _, tab, _ in parts):
        return []
    filled = [value for _, _, value in parts if value not in NULLS]
    documents = sum(isinstance(_json(value), dict | list) for value in filled)
    tombstones = all(value in NULLS[:2] for _, _, value in parts)
    if 2 * documents <= len(filled) and not tombstones:
        return []
    return [
        {"at": number, "record": {"key": key, "value": None if value in NULLS else value}}
        for number, (key, _, value) in enumerate(parts)
    ]


def _over_lines(content: bytes) -> list[str]:
    """The texts of the JSON objects and lists in a text, of which each may have several lines, or of the objects of a
    single list; none if the text is no JSON.
    """
    try:
        texts = list(_texts(content.decode("utf-8-sig")))
    except ValueError:
        return []
    return items_of(texts[0]) if len(texts) == 1 and _has_objects(texts[0]) else texts


def _texts(text: str) -> Iterator[str]:
    decoder, end = json.JSONDecoder(), 0
    while (start := _behind_space(text, end)) < len(text):
        value, end = decoder.raw_decode(text, start)
        if not isinstance(value, dict | list):
            raise ValueError(value)  # noqa: TRY004 - it is no record
        yield text[start:end]


def _behind_space(text: str, start: int) -> int:
    space = BETWEEN.match(text, start)
    return space.end() if space else start


def _has_objects(text: str) -> bool:
    document = _json(text)
    return isinstance(document, list) and len(document) > 1 and all(isinstance(item, dict) for item in document)
