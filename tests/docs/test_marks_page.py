"""The programs of docs/marks.md send marks that the service understands."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sluice.config.load import load_text
from sluice.files import project_file
from sluice.wire.mark_headers import HEADER

PAGE = project_file("docs/marks.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


class Producer:
    """A producer for a topic of two topic partitions."""

    sent: list[dict[str, Any]]
    flushed: int

    def __init__(self, settings: dict[str, str]) -> None:
        assert settings == {"bootstrap.servers": "localhost:9092"}
        Producer.sent, Producer.flushed = [], 0

    def list_topics(self, topic: str) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None, 1: None})})

    def produce(self, topic: str, **record: Any) -> None:
        Producer.sent.append({"topic": topic} | record)

    def flush(self) -> None:
        Producer.flushed = len(Producer.sent)


def test_the_python_program_sends_a_mark_to_each_topic_partition(monkeypatch: pytest.MonkeyPatch):
    module = ModuleType("confluent_kafka")
    module.Producer = Producer
    monkeypatch.setitem(sys.modules, "confluent_kafka", module)
    (program,) = blocks("python")
    exec(program, {})  # noqa: S102 -- the program of the page
    mark = {"topic": "sales", "value": b"", "headers": {HEADER: b"window"}}
    assert Producer.sent == [mark | {"partition": 0}, mark | {"partition": 1}]
    assert Producer.flushed == 2


def test_the_other_programs_set_the_header():
    (java,), (kcat,) = blocks("java"), blocks("sh")
    assert f'.add("{HEADER}", "window".getBytes(' in java
    assert f" -H {HEADER}=window" in kcat
    assert "echo 'mark:' |" in kcat
    assert "-K :" in kcat  # so that the value is empty


def test_the_stream_with_mark_when_is_valid():
    (stream,) = [block for block in blocks("yaml") if block.startswith("sales:")]
    rest = "  out: {topic: out}\noperators:\n  - {name: copy, map: sales, output: [out]}\n"
    text = "pipeline: marks\nstreams:\n" + re.sub(r"(?m)^", "  ", stream.rstrip()) + "\n" + rest
    assert load_text(text, "marks").streams["sales"].mark_after
