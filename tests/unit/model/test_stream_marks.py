"""Streams that must say to which tuples a window mark applies, and how window marks are written."""

import pytest

from sluice.config.load import check, load_text
from sluice.model.errors import PipelineError
from sluice.model.fingerprint import fingerprint
from sluice.model.stream_marks import MarkScopeError, require_scope, why_records, without_scope, written_marks
from sluice.planning.explain_plan import lines, plan
from sluice.replayer.player import replay

PIPELINE = """
pipeline: one
streams:
  shops: {topic: shops, schema: {shop: string}MORE}
  some: {topic: some, exchange: false}
  out: {topic: out}
operators:
  - {name: keep, map: shops, output: [some]}
  - {name: daily, aggregate: some, window: "tumbling, WINDOW", output: {out: {n: Count()}}}
"""
CHOICES = (
    "(`topic_partition`: a mark closes what came from its own topic partition; "
    "`any`: each mark closes the whole stream, whichever topic partition it is in; "
    "`aligned`: the whole stream is closed once every topic partition has sent a mark)"
)


def text(more="", window="punct()"):
    return PIPELINE.replace("MORE", more).replace("WINDOW", window)


def loaded(more="", window="punct()"):
    return load_text(text(more, window), "p.yaml")


def checked(tmp_path, more=""):
    file = tmp_path / "p.yaml"
    file.write_text(text(more))
    found = check(file)
    return [str(one).removeprefix(f"{file}:") for one in (*found.problems, *found.cautions)]


def test_check_explains_the_choices(tmp_path):
    (caution,) = checked(tmp_path)
    assert caution == (
        "4: streams.shops.marks_in: warning: its window marks close daily; a start demands marks_in if shops has "
        f"several topic partitions {CHOICES}"
    )
    assert checked(tmp_path, ", marks_in: any") == []


def test_check_demands_the_word_where_the_file_has_several_topic_partitions(tmp_path):
    (problem,) = checked(tmp_path, ", partitions: 2")
    assert problem == (
        "4: streams.shops.marks_in: expected marks_in, as its window marks close daily and there are several topic "
        f"partitions {CHOICES}, got nothing"
    )


def test_only_windows_that_marks_close_need_the_word():
    assert without_scope(loaded()) == {"shops": ["daily"]}
    assert without_scope(loaded(window="count(2)")) == {}
    assert without_scope(loaded(", marks_in: topic_partition")) == {}


def test_the_marks_of_a_window_have_no_such_scope():
    made = text().replace(
        "map: shops, output: [some]", 'aggregate: shops, window: "tumbling, count(2)", output: [some]'
    )
    assert without_scope(load_text(made, "p.yaml")) == {}


def test_a_topic_with_several_topic_partitions_is_refused():
    require_scope(loaded(), {"shops": 1})
    require_scope(loaded(", marks_in: aligned"), {"shops": 2})
    with pytest.raises(MarkScopeError) as raised:
        require_scope(loaded(), {"shops": 2})
    assert str(raised.value) == (
        f"streams.shops: expected marks_in, as shops has 2 topic partitions and its window marks close daily {CHOICES}"
    )


def test_a_replay_refuses_it_as_well():
    events = [{"at": 1, "tuple": {"shop": "A"}, "topic_partition": 1}]
    with pytest.raises(MarkScopeError):
        list(replay(loaded(), events))
    with pytest.raises(MarkScopeError):
        list(replay(loaded(), [{"at": 1}], partitions=2))
    assert list(replay(loaded(", marks_in: any"), events)) == [{"after": 0, "stream": "some", "tuple": {"shop": "A"}}]


def test_the_word_that_was_the_default_may_be_added_to_a_checkpoint():
    assert fingerprint(loaded(", marks_in: topic_partition")) == fingerprint(loaded())
    assert fingerprint(loaded(", marks_in: any")) != fingerprint(loaded())


CHAIN = """
pipeline: chain
kafka: {bootstrap.servers: nowhere}
streams:
  shops: {topic: shops, schema: {shop: string}}
  kept: {topic: kept}
  counts: {topic: counts, exchange: true}
  large: {topic: large}
  totals: {topic: totals}
operators:
  - {name: keep, map: shops, output: [kept]}
  - {name: count, aggregate: kept, window: "tumbling, count(2), partitioned", partition_by: [shop],
     output: {counts: {shop: shop, n: Count()}}}
  - {name: enough, map: counts, where: n > 1, output: [large]}
  - {name: total, aggregate: large, window: "tumbling, count(2)", output: {totals: {n: Sum(n)}}}
"""


def test_the_plan_decides_how_marks_are_written():
    pipeline = load_text(CHAIN, "p.yaml")
    assert {stream.name: stream.marks for stream in pipeline.outputs} == {
        "kept": "record",
        "counts": "record",
        "large": "record",
        "totals": "header",
    }
    passes = "window marks of {} pass through {}, and the tuple before a mark may be in an earlier batch"
    assert why_records(pipeline) == {
        "kept": passes.format("shops", "keep"),
        "counts": "its readers need the marks of firings without tuples",
        "large": passes.format("counts", "enough"),
    }


def test_a_map_in_the_same_stage_keeps_the_marks_of_a_window_in_headers():
    pipeline = load_text(CHAIN.replace("exchange: true", "exchange: false"), "p.yaml")
    assert {s.name: s.marks for s in pipeline.outputs if s.marks == "header"}.keys() == {"counts", "large", "totals"}


def test_the_file_may_say_how_marks_are_written():
    text = CHAIN.replace("topic: kept", "topic: kept, marks: none").replace(
        "topic: totals", "topic: totals, marks: record"
    )
    pipeline = load_text(text, "p.yaml")
    assert (pipeline.streams["kept"].marks, pipeline.streams["totals"].marks) == ("none", "record")
    assert written_marks(pipeline, pipeline.streams["totals"]) == "marks: record"


def test_marks_that_pass_through_a_map_cannot_be_headers():
    with pytest.raises(PipelineError) as raised:
        load_text(CHAIN.replace("topic: large", "topic: large, marks: header"), "p.yaml")
    assert str(raised.value).startswith(
        "p.yaml:8: streams.large.marks: expected record or none, as window marks of counts pass through enough"
    )


def test_explain_says_how_marks_are_written_and_why():
    pipeline = load_text(CHAIN, "p.yaml")
    said = "\n".join(lines(pipeline, plan(pipeline)))
    assert "counts: topic counts, json, an exchange, marks: record, as its readers" in said
    assert "totals: topic totals, json, marks: header" in said
