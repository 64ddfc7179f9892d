"""Streams that must say to which tuples a window mark applies."""

import pytest

from sluice.config.load import check, load_text
from sluice.model.fingerprint import fingerprint
from sluice.model.mark_scope import MarkScopeError, require_scope, without_scope
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
