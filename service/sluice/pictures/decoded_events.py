"""The events of a replay with their Kafka records decoded, as pictures show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sluice.columns.json_columns import json_values
from sluice.engine.stream.items import TUPLE, WATERMARK, Items
from sluice.engine.stream.watermark_text import to_text
from sluice.model.spec import DELETES, Stream
from sluice.replayer.event_batches import MARKS, Batch
from sluice.replayer.event_file import Event

WORDS = {kind: word for word, kind in MARKS.items()}


def decoded(events: Sequence[Event], batch: Batch, inputs: Mapping[str, Stream]) -> list[Event]:
    """The events of the batch. One with a record has the record's `tuple`, `delete`, `punct` or `watermark` instead, or
    `rejected` beside it: why the record cannot be decoded. A tuple may have the mark that follows it beside it.
    """
    if not any("record" in event for event in events):
        return list(events)
    contents: dict[int, dict[str, Any]] = {one.number: _rejected(one.letter) for one in batch.rejected}
    for name, items in batch.inputs.items():
        for number, content in _contents(items, inputs[name]):
            contents[number] = contents.get(number, {}) | content
    return [
        _with(event, contents.get(number, {})) if "record" in event else event
        for number, event in enumerate(events, batch.first)
    ]


def _with(event: Event, content: Mapping[str, Any]) -> Event:
    kept = {name: value for name, value in event.items() if name != "record" or not content or "rejected" in content}
    return kept | dict(content)


def _rejected(letter: Mapping[str, Any]) -> dict[str, Any]:
    return {"rejected": letter["dead_letter"]["reason"]}


def _contents(items: Items, stream: Stream) -> list[tuple[int, dict[str, Any]]]:
    """What each item is, with the number of its event."""
    columns = [json_values(items.tuples.column(name), type_) for name, type_ in stream.row_schema]
    names = [name for name, _ in stream.row_schema]
    rows = iter([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
    numbers, kinds, watermarks = (column.tolist() for column in (items.event, items.kind, items.watermark))
    return [
        (number, _tuple(next(rows), stream) if kind == TUPLE else _mark(kind, watermark))
        for number, kind, watermark in zip(numbers, kinds, watermarks, strict=True)
    ]


def _tuple(row: dict[str, Any], stream: Stream) -> dict[str, Any]:
    if row.pop(DELETES, False) and stream.key is not None:
        return {"delete": {name: row[name] for name in stream.key.attributes}}
    return {"tuple": row}


def _mark(kind: int, watermark: int) -> dict[str, Any]:
    return {"watermark": to_text(watermark)} if kind == WATERMARK else {"punct": WORDS.get(kind, "window")}
