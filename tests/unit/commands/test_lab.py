"""`sluice lab --topic`: which records the page starts with. The records of the topics are given."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.inspect import record_topic
from sluice.lab import lab_server
from tests.unit.commands.test_record import JOIN, ONE, TOPICS

BROKER = ("--kafka", "bootstrap.servers=nowhere")


@pytest.fixture
def offered(tmp_path, monkeypatch) -> dict[str, Any]:
    """The presets that a call serves."""
    (tmp_path / "shop.yaml").write_text(JOIN)
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "one.jsonl").write_text('{"at": 0, "tuple": {"id": 1}}\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record_topic, "_last", lambda _, topic, limit: [(0, TOPICS[topic][-limit:])])
    monkeypatch.setattr(record_topic, "known_as_compacted", lambda *_: False)
    monkeypatch.setattr(record_topic, "partitions", lambda *_: [0])
    served: dict[str, Any] = {}
    monkeypatch.setattr(lab_server, "serve", lambda presets, *_: served.update(presets))
    return served


def test_the_records_of_a_topic_are_the_events_of_the_file(offered):
    result = CliRunner().invoke(main, ["lab", "one.yaml", "--topic", "shop.orders", "--last", "1"])
    assert result.exit_code == 0, result.output
    assert "reading the last 1 records of each topic partition of shop.orders at nowhere" in result.stderr
    assert "1 records read" in result.stderr
    first = next(iter(offered.values()))
    assert (first.name, first.text) == ("one.yaml", ONE)
    assert [one["record"]["value"] for one in first.events] == [{"id": 2, "customer": "ben"}]


def test_the_topics_of_a_join_name_their_streams(offered):
    CliRunner().invoke(main, ["lab", "shop.yaml", "--topic", "shop.orders", "--topic", "shop.customers"])
    events = offered["shop.yaml"].events
    assert [(one["at"], one["stream"]) for one in events] == [
        (1, "customers"),
        (2, "orders"),
        (5, "orders"),
        (5, "customers"),
    ]


def test_without_a_file_the_pipeline_is_the_draft_of_init(offered):
    result = CliRunner().invoke(main, ["lab", "--topic", "shop.orders", *BROKER])
    assert result.exit_code == 0, result.output
    first = next(iter(offered.values()))
    assert first.name == "shop.orders.yaml"
    assert "customer: string" in first.text
    assert len(first.events) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "shop.orders"], "--topic needs --kafka bootstrap.servers=HOST:PORT"),
        (["--topic", "a", "--topic", "b", *BROKER], "several --topic need a pipeline FILE"),
        (["one.yaml", "one.jsonl", "--topic", "shop.orders"], "give EVENTS or --topic, not both"),
        (["one.yaml", "--topic", "shop.order"], "reads no topic shop.order; it reads shop.orders"),
    ],
    ids=["no broker", "several topics", "events", "unknown topic"],
)
def test_a_call_that_contradicts_itself_says_what(offered, arguments: list[str], message: str):
    result = CliRunner().invoke(main, ["lab", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert offered == {}
