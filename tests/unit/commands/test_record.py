"""`sluice record`: which topics it reads, and which events a replay gets. The records of the topics are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.config.load import load
from sluice.inspect import record_topic
from sluice.replayer.player import replay

JOIN = """
pipeline: shop
kafka: {bootstrap.servers: nowhere}
streams:
  orders: {topic: shop.orders, schema: {id: int64, customer: string}}
  customers: {topic: shop.customers, schema: {customer: string, city: string}}
  cities: {topic: shop.cities}
operators:
  - name: cities
    join: {left: orders, right: customers}
    window_left: sliding, count(9)
    window_right: sliding, count(9)
    equality_left: [customer]
    equality_right: [customer]
    output: {cities: {id: id, city: city}}
"""
ONE = """
pipeline: one
kafka: {bootstrap.servers: nowhere}
streams:
  orders: {topic: shop.orders, schema: {id: int64}}
  out: {topic: out}
operators:
  - {name: copy, map: orders, output: {out: {id: id}}}
"""


class Record(NamedTuple):
    """A record of a topic partition, with the methods of a message that the command calls."""

    at: int
    number: int
    document: dict[str, Any]

    def timestamp(self) -> tuple[int, int]:
        return (1, self.at)

    def offset(self) -> int:
        return self.number

    def value(self) -> bytes:
        return json.dumps(self.document, separators=(",", ":")).encode()

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None


TOPICS = {
    "shop.orders": [Record(2000, 0, {"id": 1, "customer": "ada"}), Record(5000, 1, {"id": 2, "customer": "ben"})],
    "shop.customers": [
        Record(1000, 0, {"customer": "ada", "city": "Rom"}), Record(5000, 1, {"customer": "ben", "city": "Ulm"}),
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with the pipelines of this file."""
    (tmp_path / "shop.yaml").write_text(JOIN)
    (tmp_path / "one.yaml").write_text(ONE)
    monkeypatch.setattr(record_topic, "_last", lambda _, topic, limit: [(0, TOPICS[topic][-limit:])])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["record", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_without_a_topic_it_records_all_inputs_in_the_order_of_time(folder):
    events = recorded("--pipeline", "shop.yaml")
    assert [(one["at"], one["stream"], one["offset"]) for one in events] == [
        (1.0, "customers", 0), (2.0, "orders", 0), (5.0, "orders", 1), (5.0, "customers", 1),
    ]  # fmt: skip
    found = replay(load(folder / "shop.yaml"), events)
    assert [one["tuple"] for one in found if "tuple" in one] == [{"id": 1, "city": "Rom"}, {"id": 2, "city": "Ulm"}]


def test_a_topic_of_several_inputs_names_its_stream():
    assert {one["stream"] for one in recorded("shop.customers", "--pipeline", "shop.yaml")} == {"customers"}


def test_the_only_input_and_a_topic_without_a_pipeline_need_no_name():
    expected = [(2.0, 1), (5.0, 2)]
    for arguments in (["--pipeline", "one.yaml"], ["shop.orders", "--kafka", "bootstrap.servers=nowhere"]):
        events = recorded(*arguments)
        assert [(one["at"], one["record"]["value"]["id"]) for one in events] == expected
        assert not any("stream" in one for one in events)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kafka", "bootstrap.servers=nowhere"], "it needs a TOPIC, or --pipeline FILE"),
        (["shop.orders"], "it needs --kafka bootstrap.servers=HOST:PORT"),
    ],
    ids=["neither topic nor pipeline", "no broker"],
)
def test_a_call_that_lacks_something_says_what(arguments, message):
    result = CliRunner().invoke(main, ["record", *arguments])
    assert result.exit_code == 2
    assert message in result.output
