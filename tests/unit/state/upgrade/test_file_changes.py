"""What a start decides about a changed pipeline file, from the checkpoints of its stages alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.checkpoint import checkpoint_identity
from sluice.checkpoint.checkpoint_folder import RESTORING, placed_stages, store_of
from sluice.checkpoint.checkpoint_identity import FILE, CheckpointError, definition_of, fingerprint_of
from sluice.checkpoint.folder_store import FolderStore
from sluice.commands.upgrade import upgrade
from sluice.config.load import load_text
from sluice.model.changes.operator_changes import Change, Changes, StateOutcome
from sluice.model.kafka_properties import ServersError
from sluice.model.spec import Pipeline
from sluice.model.stages import stages
from sluice.state.upgrade import input_replay
from sluice.state.upgrade.file_changes import ChangedFileError, file_changes, require_accepted

ONE = """
pipeline: shop
streams:
  in: {topic: in, schema: {k: string, c: string, v: int64}}
  totals: {topic: totals}
  best: {topic: best}
operators:
  - name: totals
    aggregate: in
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {totals: {c: Last(c), v: Sum(v)}}
  - name: best
    aggregate: totals
    window: sliding, count(3), partitioned
    partition_by: [c]
    output: {best: {c: Last(c), all: Collect(v)}}
kafka: {bootstrap.servers: nowhere}
"""
TWO = ONE.replace("totals: {topic: totals}", "totals: {topic: totals, exchange: true}")


WITH_REBUILT = input_replay.with_rebuilt


@pytest.fixture(autouse=True)
def nothing_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka has no records of the inputs any more."""
    monkeypatch.setattr(input_replay, "with_rebuilt", lambda changes, *_: changes)


def pipeline(text: str, folder: Path) -> Pipeline:
    return load_text(f"{text}checkpoint: {folder}\n", "shop.yaml")


def with_checkpoints(text: str, folder: Path) -> None:
    """Makes the checkpoints of all stages, as a start does."""
    for stage in stages(pipeline(text, folder)):
        definition, fingerprint = definition_of(stage), fingerprint_of(stage)
        checkpoint_identity.claim(store_of(stage), stage.name, fingerprint, None, 1, definition=definition)


def words(changes: Changes | None) -> dict[str, str]:
    assert changes is not None
    return {one.name: str(one.word) for one in changes.all}


@pytest.mark.parametrize("text", [ONE, TWO], ids=["one stage", "two stages"])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", {"totals": "kept", "best": "kept"}),
        ("c: Last(c), all", "c: Last(c), some", {"totals": "kept", "best": "kept"}),
        ("count(2)", "count(3)", {"totals": "emptied", "best": "kept"}),
        ("count(3)", "count(2)", {"totals": "kept", "best": "trimmed"}),
        ("name: totals", "name: sums", {"sums": "new", "best": "kept", "totals": "removed"}),
    ],
)
def test_operators_of_all_stages_are_compared(tmp_path: Path, text: str, old: str, new: str, expected: dict[str, str]):
    with_checkpoints(text, tmp_path)
    assert words(file_changes(pipeline(text.replace(old, new), tmp_path))) == expected


def test_without_a_checkpoint_there_is_nothing_to_compare(tmp_path: Path):
    assert file_changes(pipeline(ONE, tmp_path)) is None
    require_accepted(pipeline(ONE, tmp_path), accept=False)


@pytest.mark.parametrize(("before", "now"), [(ONE, TWO), (TWO, ONE)], ids=["split", "joined"])
def test_an_operator_that_gets_into_another_stage_is_refused(tmp_path: Path, before: str, now: str):
    with_checkpoints(before, tmp_path)
    assert words(file_changes(pipeline(now, tmp_path))) == {"totals": "kept", "best": "refused"}
    with pytest.raises(ChangedFileError, match=r"best: it was in the stage shop.* and is in the stage shop"):
        require_accepted(pipeline(now, tmp_path), accept=True)


#: one operator; two that read one input with different keys, which are two stages if there are several buckets
BY_ONE_KEY = """
pipeline: shop
buckets: 2
streams:
  in: {topic: in, schema: {k: string, c: string, v: int64}}
  ks: {topic: ks}
operators:
  - {name: by_k, aggregate: in, window: "tumbling, count(2), partitioned", partition_by: [k], output: {ks: {v: Sum(v)}}}
kafka: {bootstrap.servers: nowhere}
"""
BY_TWO_KEYS = BY_ONE_KEY.replace("  ks: {topic: ks}\n", "  ks: {topic: ks}\n  cs: {topic: cs}\n").replace(
    "kafka:", '  - {name: by_c, aggregate: in, window: "tumbling, count(2), partitioned", partition_by: [c],'
    " output: {cs: {v: Sum(v)}}}\nkafka:",
)  # fmt: skip


def test_an_operator_with_another_key_comes_and_goes(tmp_path: Path):
    """The first stage goes on where its checkpoint is: in the folder of the pipeline, or in a folder of its own."""
    one, two = tmp_path / "one", tmp_path / "two"
    with_checkpoints(BY_ONE_KEY, one)
    assert words(file_changes(pipeline(BY_TWO_KEYS, one))) == {"by_k": "kept", "by_c": "new"}
    require_accepted(pipeline(BY_TWO_KEYS, one), accept=False)
    assert [stage.checkpoint for stage in placed_stages(pipeline(BY_TWO_KEYS, one))] == [f"{one}", f"{one}/shop.by_c"]
    with_checkpoints(BY_TWO_KEYS, two)
    assert words(file_changes(pipeline(BY_ONE_KEY, two))) == {"by_k": "kept", "by_c": "removed"}
    assert [stage.checkpoint for stage in placed_stages(pipeline(BY_ONE_KEY, two))] == [f"{two}/shop"]
    with pytest.raises(ChangedFileError, match="by_c removed"):
        require_accepted(pipeline(BY_ONE_KEY, two), accept=False)


def test_a_stage_stays_where_a_kill_has_half_replaced_it(tmp_path: Path):
    with_checkpoints(BY_TWO_KEYS, tmp_path)
    (tmp_path / "shop" / RESTORING).mkdir()
    (tmp_path / "shop" / FILE).rename(tmp_path / "shop" / RESTORING / FILE)
    assert [stage.checkpoint for stage in placed_stages(pipeline(BY_ONE_KEY, tmp_path))] == [f"{tmp_path}/shop"]


def test_the_loss_of_a_stage_is_accepted_once(tmp_path: Path):
    with_checkpoints(BY_TWO_KEYS, tmp_path)
    require_accepted(pipeline(BY_ONE_KEY, tmp_path), accept=True)
    assert words(file_changes(pipeline(BY_ONE_KEY, tmp_path))) == {"by_k": "kept", "by_c": "removed"}
    require_accepted(pipeline(BY_ONE_KEY, tmp_path), accept=False)
    require_accepted(pipeline(BY_TWO_KEYS, tmp_path), accept=False)  # it comes back, and its state with it
    with pytest.raises(ChangedFileError, match="by_c removed"):
        require_accepted(pipeline(BY_ONE_KEY, tmp_path), accept=False)


def test_several_stages_that_a_single_bucket_makes_one_are_refused(tmp_path: Path):
    with_checkpoints(BY_TWO_KEYS, tmp_path)
    with pytest.raises(ChangedFileError, match=r"by_c: .* and by `buckets: 1`"):
        require_accepted(pipeline(BY_TWO_KEYS.replace("buckets: 2", "buckets: 1"), tmp_path), accept=True)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("", ", format: csv"),
        (", format: csv", ", format: csv, delimiter: ';'"),
        ("", ", key: {attributes: [c]}"),
        (", key: {attributes: [c]}", ", key: {attributes: [c], format: json}"),
        ("", ", headers: {c: c}"),
    ],
)
def test_records_between_two_stages_keep_their_format(tmp_path: Path, before: str, now: str):
    old, new = (TWO.replace("exchange: true", f"exchange: true{of}") for of in (before, now))
    with_checkpoints(old, tmp_path)
    assert words(file_changes(pipeline(old, tmp_path)))["totals"] == "kept"
    with pytest.raises(ChangedFileError, match="may still be in the topic between the two stages"):
        require_accepted(pipeline(new, tmp_path), accept=True)


def test_another_place_of_an_input_attribute_keeps_the_states(tmp_path: Path):
    """Whether it is in the value, in a header or the timestamp of the record: the tuples after the change have it."""
    before = ONE.replace("v: int64}}", "v: int64, t: timestamp}}")
    with_checkpoints(before, tmp_path)
    for place in ("record_timestamp: t", "headers: {t: time}", "key: {attributes: [t]}"):
        now = before.replace("t: timestamp}}", f"t: timestamp}}, {place}}}")
        changes = file_changes(pipeline(now, tmp_path))
        assert words(changes) == {"in": "kept", "totals": "kept", "best": "kept"}
        assert changes is not None
        assert "records that are not read yet must have it, too" in changes.all[0].reason


def test_a_timestamp_from_an_attribute_of_an_output_keeps_the_states(tmp_path: Path):
    now = ONE.replace("best: {topic: best}", "best: {topic: best, record_timestamp: last}").replace(
        "all: Collect(v)", "all: Collect(v), last: Max(v)"
    )
    with_checkpoints(now, tmp_path)
    changes = file_changes(pipeline(now.replace(", record_timestamp: last", ""), tmp_path))
    assert set(words(changes).values()) == {"kept"}


#: the name, the input, the key and the output of each of some aggregates
Operators = Sequence[tuple[str, str, str, str]]
BY_K, BY_C, BEST = ("by_k", "in", "k", "ks"), ("by_c", "in", "c", "ds"), ("best", "pass", "c", "cs")


def aggregates(operators: Operators) -> str:
    """A file with these aggregates, and the exchange `pass`, into which a map writes the records of `in`."""
    outputs = "".join(f"  {output}: {{topic: {output}}}\n" for *_, output in operators)
    made = "".join(
        f"  - {{name: {name}, aggregate: {of}, window: 'tumbling, count(2), partitioned', partition_by: [{key}],"
        f" output: {{{output}: {{k: Last({key}), c: Last({key}), v: Sum(v)}}}}}}\n"
        for name, of, key, output in operators
    )
    return f"""
pipeline: shop
buckets: 2
streams:
  in: {{topic: in, schema: {{k: string, c: string, v: int64}}}}
  pass: {{topic: pass, exchange: true}}
{outputs}operators:
  - {{name: all, map: in, output: {{pass: {{k: k, c: c, v: v}}}}}}
{made}kafka: {{bootstrap.servers: nowhere}}
"""


STAGES = {
    "the operator that names a stage has another name": (
        [BEST, ("other", "cs", "c", "os")],
        [("top", "pass", "c", "cs"), ("other", "cs", "c", "os")],
        {"top": "refused", "other": "refused", "best": "removed"},
    ),
    "the stages of two keys change their order": (
        [BY_K, BY_C, BEST], [BY_C, BY_K, BEST], {"by_k": "refused", "by_c": "refused", "best": "kept"},
    ),
    "a stage is another, and would write the same topic": (
        [BEST], [("top", "pass", "c", "cs")], {"top": "refused", "best": "removed"},
    ),
    "a stage is another, and writes another topic": (
        [BEST], [("top", "pass", "c", "cs2")], {"top": "new", "best": "removed"},
    ),
    "a stage is added": ([BEST], [BEST, ("more", "pass", "c", "cs2")], {"best": "kept", "more": "new"}),
}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "expected"), STAGES.values(), ids=STAGES)
def test_operators_stay_in_their_stage(tmp_path: Path, before: Operators, now: Operators, expected: dict[str, str]):
    with_checkpoints(aggregates(before), tmp_path)
    found = words(file_changes(pipeline(aggregates(now), tmp_path)))
    assert {name: word for name, word in found.items() if name != "all"} == expected


def test_what_a_killed_change_left_is_no_stage(tmp_path: Path):
    with_checkpoints(ONE, tmp_path)
    with_checkpoints(ONE.replace("count(2)", "count(4)"), tmp_path / RESTORING)
    assert words(file_changes(pipeline(ONE, tmp_path))) == {"totals": "kept", "best": "kept"}


def test_records_between_two_stages_keep_their_form(tmp_path: Path):
    with_checkpoints(TWO, tmp_path)
    changed = TWO.replace("v: Sum(v)", "v: Sum(v), n: Count()")
    assert words(file_changes(pipeline(changed, tmp_path)))["totals"] in ("refused", "emptied")
    with pytest.raises(ChangedFileError, match="may still be in the topic between the two stages"):
        require_accepted(pipeline(changed, tmp_path), accept=True)


@pytest.mark.parametrize("behind", ["best", "a map"])
def test_records_between_two_stages_stay_in_their_topic(tmp_path: Path, behind: str):
    """Those that the second stage has not read yet would be lost, also if its operator has no state."""
    best = TWO[TWO.index("  - name: best") : TWO.index("kafka:")]
    text = TWO if behind == "best" else TWO.replace(best, "  - {name: best, map: totals, output: [best]}\n")
    with_checkpoints(text, tmp_path)
    moved = pipeline(text.replace("topic: totals", "topic: sums"), tmp_path)
    assert words(file_changes(moved))["totals"] == "refused"
    with pytest.raises(ChangedFileError, match="may still be in the topic between the two stages, totals"):
        require_accepted(moved, accept=True)


def test_records_of_an_input_in_another_form_are_not_taken_for_those_that_are_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Records of the earlier form would be dead letters when they are read again."""
    asked: list[frozenset[str]] = []
    monkeypatch.setattr(
        input_replay, "with_rebuilt", lambda changes, _, __, reformed: asked.append(reformed) or changes
    )
    with_checkpoints(ONE, tmp_path)
    window = ONE.replace("count(2)", "count(4)")
    for changed in (
        window,
        window.replace("topic: in,", "topic: in, format: csv,"),
        window.replace("v: int64}", "v: int64, w: int64}"),
    ):
        file_changes(pipeline(changed, tmp_path))
    assert asked == [frozenset(), {"in"}, {"in"}]


MERGED = """
pipeline: shop
merge: timestamp
streams:
  in: {topic: in, schema: {k: string, t: timestamp}}
  sums: {topic: sums}
  passed: {topic: passed}
operators:
  - {name: sums, aggregate: in, window: "tumbling, count(2)", output: {sums: {n: Count()}}}
kafka: {bootstrap.servers: nowhere}
"""
PASSED = "operators:\n  - {name: passed, map: in, output: {passed: {k: k}}}\n"


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("Count()", "1 + Count()", False),
        ("k: string", "k: string, more: int64", True),
        ("t: timestamp}", "t: timestamp}, event_time: {attribute: t, lag: 1}", True),
        ("operators:\n", PASSED, True),
    ],
    ids=["an output", "an attribute", "event time", "a map to a topic, which needs the keys of the records"],
)
def test_records_that_wait_for_others_keep_their_columns(tmp_path: Path, old: str, new: str, *, refused: bool):
    with_checkpoints(MERGED, tmp_path)
    changes = file_changes(pipeline(MERGED.replace(old, new), tmp_path))
    assert changes is not None
    assert changes.refused == refused


def test_what_would_be_lost_is_refused_unless_it_is_accepted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with_checkpoints(ONE, tmp_path)
    changed = pipeline(ONE.replace("count(2)", "count(3)"), tmp_path)
    lost = r"state would be lost \(totals emptied\).*start with --accept"
    with pytest.raises(ChangedFileError, match=lost) as refused:
        require_accepted(changed, accept=False)
    assert refused.value.exit_code == 4
    assert "totals  emptied" in caplog.text
    require_accepted(changed, accept=True)


@pytest.mark.parametrize("text", [ONE, TWO], ids=["one stage", "two stages"])
def test_a_refusal_lasts_until_the_checkpoint_is_made_anew_or_gone(tmp_path: Path, text: str):
    def refused() -> ChangedFileError:
        with pytest.raises(ChangedFileError) as caught:
            require_accepted(pipeline(text.replace("count(2)", "count(3)"), tmp_path / "c"), accept=False)
        return caught.value

    with_checkpoints(text, tmp_path / "c")
    first = refused()
    (tmp_path / "c" / "sluice.lock").touch()
    assert first.lasts(), "a start that is refused locks the checkpoint, and changes nothing"
    stage = stages(pipeline(text, tmp_path / "c"))[-1]
    checkpoint_identity.write_definition(store_of(stage), definition_of(stage))
    assert not first.lasts()
    second = refused()
    assert second.lasts()
    (tmp_path / "c").rename(tmp_path / "away")
    assert not second.lasts()


def test_a_refusal_for_another_reason_does_not_last():
    assert not ChangedFileError("a class is missing").lasts()


def test_the_checkpoint_of_another_pipeline_is_refused(tmp_path: Path):
    with_checkpoints(ONE, tmp_path)
    with pytest.raises(CheckpointError, match="belongs to the pipeline shop"):
        file_changes(pipeline(ONE.replace("pipeline: shop", "pipeline: other"), tmp_path))


def test_a_checkpoint_without_a_definition_is_refused(tmp_path: Path):
    """An early version did not write it."""
    with_checkpoints(ONE, tmp_path)
    FolderStore(tmp_path).delete(checkpoint_identity.DEFINITION)
    with pytest.raises(CheckpointError, match="has changed since it was made"):
        file_changes(pipeline(ONE.replace("count(2)", "count(3)"), tmp_path))


# ---- the command -----------------------------------------------------------------------------------------------------


def called(tmp_path: Path, text: str, *options: str) -> tuple[int, str]:
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    done = CliRunner().invoke(upgrade, [str(file), "--checkpoint", str(tmp_path / "checkpoint"), *options])
    return done.exit_code, done.output


def test_the_command_shows_each_operator(tmp_path: Path):
    with_checkpoints(ONE, tmp_path / "checkpoint")
    code, shown = called(tmp_path, ONE)
    assert code == 0
    assert "Nothing is lost" in shown
    code, shown = called(tmp_path, ONE.replace("count(2)", "count(3)"))
    assert code == 7
    assert "totals  emptied  window: `tumbling, count(2), partitioned` became `tumbling, count(3), part" in shown
    assert "--accept" in shown
    code, shown = called(tmp_path, ONE + "merge: timestamp\n")
    assert code == 4
    assert "cannot go on" in shown


def test_the_command_as_json(tmp_path: Path):
    with_checkpoints(ONE, tmp_path / "checkpoint")
    code, shown = called(tmp_path, ONE.replace("name: best", "name: top"), "--json")
    found = json.loads(shown)
    assert code == 7
    assert (found["loses"], found["refused"]) == (True, False)
    assert [(one["name"], one["word"], one["loses"]) for one in found["operators"]] == [
        ("totals", "kept", False), ("top", "new", False), ("best", "removed", True),
    ]  # fmt: skip


def test_the_command_without_a_checkpoint(tmp_path: Path):
    (tmp_path / "shop.yaml").write_text(ONE)
    done = CliRunner().invoke(upgrade, [str(tmp_path / "shop.yaml"), "--checkpoint", str(tmp_path / "none")])
    assert isinstance(done.exception, CheckpointError)
    assert "it does not exist" in str(done.exception)


def test_the_command_takes_properties_of_kafka_that_the_file_does_not_have(tmp_path: Path, monkeypatch):
    with_checkpoints(ONE, tmp_path / "checkpoint")
    changed = ONE.replace("count(2)", "count(3)").replace("kafka: {bootstrap.servers: nowhere}\n", "")
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(
        input_replay, "with_rebuilt", lambda changes, stage, *_: asked.append(dict(stage.settings.kafka)) or changes
    )
    code, _ = called(tmp_path, changed, "--kafka", "bootstrap.servers=here")
    assert (code, asked) == (7, [{"bootstrap.servers": "here"}])


def test_without_a_broker_it_names_the_option(tmp_path: Path, monkeypatch):
    with_checkpoints(ONE, tmp_path)
    monkeypatch.setattr(input_replay, "with_rebuilt", WITH_REBUILT)
    text = ONE.replace("count(2)", "count(3)").replace("kafka: {bootstrap.servers: nowhere}\n", "")
    with pytest.raises(ServersError, match=r"bootstrap\.servers .* with --kafka bootstrap\.servers=HOST:PORT"):
        file_changes(pipeline(text, tmp_path))


def test_the_command_says_that_results_of_a_rebuild_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with_checkpoints(ONE, tmp_path / "checkpoint")
    rebuilt = Changes((Change("totals", StateOutcome.REBUILT, "window"),))
    monkeypatch.setattr(input_replay, "with_rebuilt", lambda *_: rebuilt)
    code, shown = called(tmp_path, ONE.replace("count(2)", "count(3)"))
    assert code == 0
    assert "What a rebuilt operator gives for the records that it reads again is not written" in shown
