"""`sluice init --records`: what it prints, asks and writes, without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from sluice.cli import main
from sluice.commands import init

ROWS = [
    {"shop": shop, "note": note, "amount": amount, "ts": 1_700_000_000_000 + amount}
    for shop, note, amount in [("north", "a", 1), ("south", None, 5), ("north", "b", 2), ("south", "a", 7)]
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with records in a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return tmp_path


def sluice(*arguments: str, answers: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=answers, catch_exceptions=False)


def stream(file: str) -> dict:
    return yaml.load(Path(file).read_text(), yaml.CSafeLoader)["streams"]["sales"]


def operator(file: str) -> dict:
    """The first operator of a draft."""
    return yaml.load(Path(file).read_text(), yaml.CSafeLoader)["operators"][0]


def test_it_prints_what_it_finds_and_the_first_results():
    result = sluice("init", "--records", "sales.jsonl")
    assert (result.exit_code, result.stdout.splitlines()) == (0, [
        "4 records: json",
        "attribute  path    type          in     example",
        'shop       shop    string        100 %  "north"',
        'note       note    string?       75 %   "a"',
        "amount     amount  int64         100 %  1",
        "ts         ts      timestamp ms  100 %  1700000000001",
        "the file over these records: 4 results, 0 dead letters",
        '  {"shop":"north","tuples":1,"average_amount":1.0}',
        '  {"shop":"south","tuples":1,"average_amount":5.0}',
        '  {"shop":"north","tuples":2,"average_amount":1.5}',
        '  {"shop":"south","tuples":2,"average_amount":6.0}',
        "wrote sales.yaml. Next:",
        "  sluice explain sales.yaml",
        "  sluice run sales.yaml",
    ])  # fmt: skip


def test_without_a_terminal_it_writes_its_choices_as_comments():
    assert sluice("init", "--records", "sales.jsonl").exit_code == 0
    comments = [line for line in Path("sales.yaml").read_text().splitlines() if line.startswith("# ")]
    assert comments[2:5] == [
        "# key: shop, which has several records for most of its values",
        "# time: ts, the event time of the window each_minute", "# missing values: null",
    ]  # fmt: skip


def test_events_of_record_have_keys_and_headers(folder):
    events = [
        {"at": n, "record": {"value": {"v": n + 0.5}, "key": f"k{n % 2}", "headers": {"ce_type": "t"}}}
        for n in range(6)
    ]
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    result = sluice("init", "--records", "events.jsonl", "--topic", "sales", "own.yaml")
    assert result.exit_code == 0, result.output
    assert stream("own.yaml")["schema"] == {
        "v": "float64", "ce_type": {"from": "header.ce_type", "type": "string"}, "key": "string",
    }  # fmt: skip
    assert operator("own.yaml")["partition_by"] == ["key"]


def test_the_draft_goes_to_standard_output_and_the_rest_to_standard_error():
    result = sluice("init", "--records", "sales.jsonl", "-")
    assert result.stdout.startswith("# A first pipeline for topic sales, drafted from 4 records.")
    assert result.stderr.splitlines()[0] == "4 records: json"
    assert "4 results, 0 dead letters" in result.stderr


@pytest.mark.parametrize(
    ("answers", "key", "time", "note"),
    [
        ("\n\n\n", ["shop"], "ts", "string?"),
        ("note\n\n\n", ["note"], "ts", "string?"),
        ("shop, note\n-\nn\n", ["shop", "note"], "sent", "string"),
        ("-\n\n\n", None, "ts", "string?"),
        ("branch\nshop\n\n\n", ["shop"], "ts", "string?"),
    ],
    ids=["Enter", "another key", "two keys, no time, dead letters", "no key", "an attribute that does not exist"],
)
def test_in_a_terminal_it_asks(monkeypatch, answers, key, time, note):
    monkeypatch.setattr(init, "_in_terminal", lambda: True)
    result = sluice("init", "--records", "sales.jsonl", answers=answers)
    assert result.exit_code == 0, result.output
    assert operator("sales.yaml").get("partition_by") == key
    text = Path("sales.yaml").read_text()
    assert f"event_time: {{attribute: {time}, lag: 10s}}" in text
    assert stream("sales.yaml")["schema"]["note"] == note
    if answers.startswith("branch"):
        assert "no attribute branch; expected of shop, note, amount, ts, or - for none" in result.output
    chosen = {"note\n": "# key: note, as chosen", "shop, ": "# key: shop and note, as chosen"}
    assert [line for word, line in chosen.items() if answers.startswith(word) and line not in text] == []


def test_it_asks_for_no_time_if_there_is_none(monkeypatch):
    monkeypatch.setattr(init, "_in_terminal", lambda: True)
    Path("plain.jsonl").write_text('{"shop": "a", "amount": 1.5}\n' * 3)
    result = sluice("init", "--records", "plain.jsonl", answers="\n")
    assert (result.exit_code, "Time of the events" in result.output) == (0, False)


def test_a_misspelled_answer_has_a_hint(monkeypatch):
    monkeypatch.setattr(init, "_in_terminal", lambda: True)
    result = sluice("init", "--records", "sales.jsonl", answers="shpo\nshop\n\n\n")
    assert "no attribute shpo (did you mean shop?); expected of shop, note" in result.output


def test_it_asks_nothing_if_it_is_told_so(monkeypatch):
    monkeypatch.setattr(init, "_in_terminal", lambda: True)
    result = sluice("init", "--records", "sales.jsonl", "--yes")
    assert result.exit_code == 0
    assert "Key" not in result.output


def test_it_needs_a_topic_or_a_file():
    result = sluice("init")
    assert result.exit_code == 2
    assert "it needs --topic TOPIC, or --records FILE" in result.output
