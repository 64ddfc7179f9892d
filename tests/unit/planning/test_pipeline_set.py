"""Pipelines beside each other: names, checkpoints, topics that two write, and cycles through topics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.load import load_text
from sluice.model.spec import Properties
from sluice.planning.pipeline_set import Link, cautions, links, problems, topic_cycle, writers_first

FILE = """
pipeline: {name}
streams:
  in: {{topic: {read}, schema: {{k: string}}}}
  out: {{topic: {write}{exchange}}}
  dead: {{topic: {dead}}}
  behind: {{topic: {name}.behind}}
operators:
  - {{name: first, map: in, output: [out]}}
  - {{name: then, map: out, output: [behind]}}
dead_letters: dead
kafka: {{bootstrap.servers: {servers!r}}}
checkpoint: {checkpoint}
"""


def pipeline(name, read="r", write="w", *, dead="dead", servers="a:1", checkpoint="", exchange=""):
    text = FILE.format(
        name=name, read=read, write=write, dead=dead, servers=servers, checkpoint=checkpoint or f"c/{name}",
        exchange=exchange,
    )  # fmt: skip
    return load_text(text, f"{name}.yaml")


NAME = "a name of its own (a of 0.yaml has it: transactions and the ledger have the names of pipelines)"


def messages(*pipelines):
    return [str(problem) for problem in problems({f"{n}.yaml": one for n, one in enumerate(pipelines)})]


def test_the_addresses_of_brokers_have_two_names():
    one, other = pipeline("a", write="x"), pipeline("b", write="x", servers="a:1, b:1")
    elsewhere = pipeline("b", write="x", servers="b:1")
    assert len(messages(one, renamed(other))) == 1
    assert messages(renamed(one), renamed(elsewhere)) == []


def renamed(one):
    """The pipeline with the other name of `bootstrap.servers`."""
    kafka = Properties({"metadata.broker.list": one.settings.kafka["bootstrap.servers"]})
    return replace(one, settings=replace(one.settings, kafka=kafka))


def test_pipelines_that_share_inputs_and_the_topic_of_dead_letters_are_right():
    assert messages(pipeline("a", write="x"), pipeline("b", write="y"), pipeline("c", write="z")) == []


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            pipeline("a", write="x"),
            pipeline("a", write="y", checkpoint="elsewhere"),
            [
                ("pipeline", NAME, "a"),
                ("streams.behind.topic", "a topic that no other pipeline writes (a of 0.yaml writes it)", "a.behind"),
            ],
        ),
        (
            pipeline("a", write="x", checkpoint="c"),
            pipeline("b", write="y", checkpoint="./c"),
            [("checkpoint", "a folder of its own (a of 0.yaml has it)", "./c")],
        ),
        (
            pipeline("a", write="x"),
            pipeline("b", write="x"),
            [("streams.out.topic", "a topic that no other pipeline writes (a of 0.yaml writes it)", "x")],
        ),
        (
            pipeline("a", write="x"),
            pipeline("b", write="y", dead="x"),
            [("streams.dead.topic", "a topic that no other pipeline writes (a of 0.yaml writes it)", "x")],
        ),
    ],
    ids=["name", "checkpoint", "output", "output and dead letters"],
)
def test_what_two_pipelines_must_not_share(one, other, expected):
    assert messages(one, other) == [f'1.yaml: {path}: expected {what}, got "{got}"' for path, what, got in expected]


def test_a_stage_has_a_name_as_well():
    one = pipeline("a", write="x", exchange=", exchange: true")
    (problem,) = messages(one, pipeline("a.then", write="y"))
    assert problem.startswith("1.yaml: pipeline: expected a name of its own (a of 0.yaml has it")


@pytest.mark.parametrize(("servers", "same"), [("a:1", True), ("b:1, a:1", True), ("b:1", False)])
def test_topics_of_other_clusters_are_other_topics(servers, same):
    others = pipeline("a", write="x", servers="a:1,c:1"), pipeline("b", write="x", servers=servers)
    assert bool(messages(*others)) == same
    reader = pipeline("d", read="x", write="y", servers=servers)
    assert links([others[0], reader]) == ([Link("x", "a", "d")] if same else [])


def test_topics_connect_pipelines():
    one, two, three = pipeline("a", write="x"), pipeline("b", "x", "y"), pipeline("c", "x", "z")
    assert links([one, two, three]) == [Link("x", "a", "b"), Link("x", "a", "c")]
    assert topic_cycle([one, two, three]) == []


def test_writers_come_before_their_readers_and_cycles_last():
    found = [pipeline("a", "y", "x"), pipeline("b", "z", "y"), pipeline("c", "c1", "c2"), pipeline("d", "c2", "c1")]
    assert writers_first(["c", "d", "a", "b"], links(found)) == ["b", "a", "c", "d"]
    assert writers_first(["a"], links(found)) == ["a"]


def test_a_topic_of_dead_letters_connects_pipelines_as_well():
    assert links([pipeline("a", dead="d"), pipeline("b", "d", "y", dead="e")]) == [Link("d", "a", "b")]


def test_a_cycle_is_a_hint_that_names_each_pipeline_and_topic():
    around = [pipeline("a", "z", "x"), pipeline("b", "x", "y"), pipeline("c", "y", "z"), pipeline("d", "z", "w")]
    assert {(link.writer, link.topic) for link in topic_cycle(around)} == {("a", "x"), ("b", "y"), ("c", "z")}
    (hint,) = cautions({f"{one.name}.yaml": one for one in around})
    assert str(hint) == (
        "a.yaml: warning: a cycle of pipelines through topics (a -> topic x -> b -> topic y -> c -> topic z -> a): "
        "a record may go round for ever"
    )
