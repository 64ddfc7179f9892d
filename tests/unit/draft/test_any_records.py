"""Random records: the draft is accepted by `check`, and only records that it counts become dead letters."""

from __future__ import annotations

import base64
import csv
import io
import json
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from sluice.config.load import load_text
from sluice.draft.draft_pipeline import draft
from sluice.draft.sampled_records import DraftError, Sampled, sample
from sluice.replayer.player import replay

NAMES = (
    "a", "b-c", "name", "key", "value", "values", "time", "ts", "items", "item", "$", "from", "type", "and", "é", "1a",
    "scale", "id", "results", "dead", "stringValue", "header", "price", "x.y", "tuples", "element", "null", "on", "tag",
)  # fmt: skip
NUMBERS = (0, 1, 7, 3.5, -2, 1_000_000_009, 1_750_000_000_000, 1_750_000_000_500, 2**63, 10**25)
TEXTS = ("", "x", "12.50", "7", "NaN", "-", "2025-01-01T00:00:00Z", "1750000000", "BNI=", "20250101101010", "true")
KEYS = (None, "k1", "k2", '{"id":1}', '{"id":"x"}', '{"schema":{},"payload":{"id":2}}')
SCALARS = {
    "number": (None, *NUMBERS), "text": (None, *TEXTS), "boolean": (True, False),
    "scaled": ({"scale": 0, "value": "BNI="}, {"scale": 2, "value": "BNI="}),
}  # fmt: skip
Maker = Callable[[], object]


def maker(chance: random.Random, depth: int = 0) -> Maker:
    """Makes JSON values of one random shape."""
    kind = chance.choice(("number", "text", "boolean", "scaled", "object", "object", "list", "mixed", "pairs"))
    if depth > 2 and kind in ("object", "list", "mixed"):
        kind = "number"
    match kind:
        case "object":
            members = [(name, maker(chance, depth + 1), chance.random()) for name in chance.sample(NAMES, 3)]
            return lambda: {name: make() for name, make, often in members if chance.random() < 1.4 * often}
        case "list":
            item, most = maker(chance, depth + 1), chance.choice((0, 1, 3))
            return lambda: [item() for _ in range(chance.randint(most // 2, most))]
        case "mixed":
            makers = [maker(chance, depth + 1) for _ in range(2)]
            return lambda: next(make() for make in chance.sample(makers, 2))
        case "pairs":
            value = chance.choice(("x", 1.5, {"stringValue": "x"}))
            return lambda: [{"key": name, "value": value} for name in ("p", "q")[: chance.randint(0, 2)]]
    return lambda: chance.choice(SCALARS[kind])


def records(chance: random.Random) -> list[dict[str, object]]:
    make, keys = maker(chance), chance.choice((KEYS, KEYS[1:3], KEYS[3:4], KEYS[5:]))
    values = [json.dumps(make()) if chance.random() < 0.95 else None for _ in range(chance.choice((1, 3, 9, 20)))]
    return [{"value": value, "key": chance.choice(keys), "headers": {"h": "x", "ce_id": "1"}} for value in values]


#: cells of the columns of CSV: each column has those of one row
CELLS = (
    ("",), ("", "a b", "x"), ("1", "2", "17"), ("1.50", "12.00"), ("", "1.5", "2"), ("7", "n/a", "8"),
    ("true", "false"),
    ("2024-01-01 10:00:00.123", "2024-01-01 11:00:00.456"), ("1750000000123", "1750000001123"), ('{"a": 1, "b": "x"}',),
    ('say "hi"', "a,b;c|d", ""), ("007", "010"), ("\u00e9", "NaN"), ("a\tb",), ("k1", "k2"),
)  # fmt: skip


def table(chance: random.Random) -> list[str]:
    """Rows of CSV, perhaps below a row of names."""
    columns = [chance.choice(CELLS) for _ in range(chance.choice((2, 3, 6, 75)))]
    listed = [[chance.choice(cells) for cells in columns] for _ in range(chance.choice((1, 5, 20)))]
    names = [chance.choice(("order-id", "amount", "ship to", "x", "time")) + str(at) for at in range(len(columns))]
    out = io.StringIO()
    csv.writer(out, delimiter=chance.choice(",\t;|"), lineterminator="\n").writerows(
        [names, *listed] if chance.random() < 0.3 else listed
    )
    return out.getvalue().splitlines()


@pytest.mark.parametrize("seed", range(60))
def test_a_draft_of_any_records_runs(seed):
    _run(records(random.Random(seed)))


@pytest.mark.parametrize("seed", range(60))
def test_a_draft_of_any_rows_of_csv_runs(seed):
    _run([{"value": {"base64": base64.b64encode(row.encode()).decode()}} for row in table(random.Random(seed))])


def _run(sampled):
    rows = [Sampled(_bytes(record["value"]), _bytes(record.get("key"))) for record in sampled]
    with suppress(DraftError):
        found = sample("t", rows, {})
        pipeline = load_text(draft("t", found, "f.yaml", {}, {}), "f.yaml", environment=None)
        events = [{"at": number, "record": record} for number, record in enumerate(sampled)]
        dead = [row["dead_letter"]["reason"] for row in replay(pipeline, events) if "dead_letter" in row]
        counted = found.unreadable + found.unfit + (0 if found.envelope.word else found.tombstones)
        assert len(dead) <= counted, dead


def _bytes(value):
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return value.encode() if value is not None else None
