"""What the flows calculate equals what the engine computes for the same records: two hands, one result."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
import yaml

from sluice.config.load import load_text
from sluice.replayer.player import replay
from tests.chaos.checker import text_of
from tests.chaos.flows import KINDS, LAST, MARK, Flow, Outputs, Sent

RECORDS = 900
NOW = 1_700_000_000.0


def replayed(flow: Flow, sent: list[Sent]) -> tuple[Outputs, Counter[str]]:
    streams = {name: {"topic": name} | settings for name, settings in flow.streams.items()} | {
        "dead": {"topic": "dead"}
    }
    file = {"pipeline": "one", "kafka": {"bootstrap.servers": "nowhere:9"}, "streams": streams,
            "operators": flow.operators, "dead_letters": "dead"}  # fmt: skip
    pipeline = load_text(yaml.safe_dump(file), "flow.yaml")
    events = [
        {"at": NOW + number / 100, "stream": one.stream, "tuple": one.value}
        for number, one in enumerate(sent)
        if not isinstance(one.value, bytes)
    ]
    outputs: Outputs = defaultdict(list)
    letters: Counter[str] = Counter()
    key = ""
    for record in replay(pipeline, events, clock_origin="first"):
        if "dead_letter" in record:
            letters["dead"] += 1
        elif record.get("stream") in flow.outputs:
            key = record["tuple"]["k"] if "tuple" in record else key
            if "tuple" in record:
                outputs[record["stream"], key].append(record["tuple"])
            elif flow.streams[record["stream"]]["marks"] != "none":
                outputs[record["stream"], key].append({"k": key, MARK: record["punct"]})
    outputs = {place: rows for place, rows in outputs.items() if place[1] != LAST}
    return outputs, letters


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_flow_calculates_what_the_engine_computes(kind: type[Flow], seed: int):
    flow = kind(random.Random(seed))
    sent = [*flow.before(), *(flow.record(NOW + number / 100) for number in range(RECORDS))]
    outputs, letters = replayed(flow, [*sent, *flow.last(NOW + RECORDS / 100)])

    expected = {place: rows for place, rows in flow.expected(sent).items() if rows}
    assert any(expected.values())
    if not flow.ordered:
        outputs, expected = (
            {place: sorted(rows, key=text_of) for place, rows in some.items()} for some in (outputs, expected)
        )
    assert dict(outputs) == expected
    raw = sum(isinstance(one.value, bytes) for one in sent)
    assert letters.total() == len(list(flow.letters(sent))) - raw
