from dataclasses import replace

import pytest

from sluice.checkpoint.checkpoint_folder import store_of
from sluice.checkpoint.checkpoint_identity import (
    DEFINITION,
    FILE,
    LOCK,
    CheckpointError,
    Identity,
    claim,
    definition_in,
    definition_of,
    fingerprint_of,
    in_stored_order,
    stored,
    write,
    write_definition,
)
from sluice.checkpoint.folder_store import FolderStore
from sluice.config.load import load_text
from sluice.model.spec import Pipeline, Settings
from tests.unit.state.damaged_files import flipped


def test_a_new_checkpoint_is_made_and_found_again(tmp_path):
    made = claim(FolderStore(tmp_path / "new"), "p", "f1", None, 3)
    assert made.buckets == 3
    assert claim(FolderStore(tmp_path / "new"), "p", "f1", None, 8) == made
    assert claim(FolderStore(tmp_path / "new"), "p", "f1", 3, 8) == made


def test_each_checkpoint_has_its_own_query(tmp_path):
    assert (
        claim(FolderStore(tmp_path / "a"), "p", "f", None, 1).query
        != claim(FolderStore(tmp_path / "b"), "p", "f", None, 1).query
    )


def test_a_lost_identity_takes_the_place_of_one_that_was_never_used(tmp_path):
    store = FolderStore(tmp_path)
    claim(store, "p", "f", None, 2)
    lost = Identity("p", "f", 3, "the ledger's")
    assert claim(store, "p", "f", None, 2, lost=lost) == lost
    assert stored(store) == lost


def test_a_lost_identity_of_another_definition_changes_nothing(tmp_path):
    store = FolderStore(tmp_path)
    made = claim(store, "p", "f", None, 2)
    with pytest.raises(CheckpointError, match="has changed since it was made"):
        claim(store, "p", "f", None, 2, lost=Identity("p", "g", 3, "the ledger's"))
    assert stored(store) == made


@pytest.mark.parametrize(
    ("name", "fingerprint", "message"),
    [("other", "f", "belongs to the pipeline p"), ("p", "g", "has changed since it was made")],
)
def test_another_pipelines_checkpoint_is_refused(tmp_path, name, fingerprint, message):
    claim(FolderStore(tmp_path), "p", "f", 2, 1)
    with pytest.raises(CheckpointError, match=message) as refused:
        claim(FolderStore(tmp_path), name, fingerprint, None, 1)
    assert "--checkpoint ANOTHER_FOLDER and --reset-ledger" in str(refused.value)


def test_an_existing_checkpoint_keeps_its_number_of_buckets(tmp_path):
    """The service then divides the state anew (state/restore.py)."""
    claim(FolderStore(tmp_path), "p", "f", 2, 1)
    assert claim(FolderStore(tmp_path), "p", "f", 5, 1).buckets == 2


PIPELINE = """
pipeline: p
clock: CLOCK
streams:
  in: {topic: in, schema: {x: int64}}
  out: {topic: out}
operators:
  - {name: sum, aggregate: in, window: "WINDOW", output: {out: {x: Sum(x)}}}
"""


def claimed(folder, text):
    pipeline = load_text(text, "p.yaml")
    return claim(FolderStore(folder), "p", fingerprint_of(pipeline), None, 1, definition=definition_of(pipeline))


def test_a_refusal_says_what_has_changed(tmp_path):
    before = PIPELINE.replace("CLOCK", "processing").replace("WINDOW", "tumbling, count(2)")
    now = (
        PIPELINE.replace("CLOCK", "records")
        .replace("WINDOW", "tumbling, count(3)")
        .replace("x: int64", "x: int64, y: int64")
    )
    claimed(tmp_path, before)
    assert claimed(tmp_path, before).pipeline == "p"
    with pytest.raises(CheckpointError) as refused:
        claimed(tmp_path, now)
    assert "has changed since it was made (stream in: schema, operator sum: window, clock). Start" in str(refused.value)


def test_new_and_removed_operators_are_named(tmp_path):
    before = PIPELINE.replace("CLOCK", "records").replace("WINDOW", "tumbling, count(2)")
    claimed(tmp_path, before)
    with pytest.raises(CheckpointError, match=r"\(operator sum is gone, operator total is new\)"):
        claimed(tmp_path, before.replace("name: sum", "name: total"))


def test_a_checkpoint_of_an_earlier_version_gets_its_definition(tmp_path):
    before = PIPELINE.replace("CLOCK", "records").replace("WINDOW", "tumbling, count(2)")
    claimed(tmp_path, before)
    (tmp_path / DEFINITION).unlink()
    with pytest.raises(CheckpointError, match=r"has changed since it was made\. "):
        claimed(tmp_path, before.replace("count(2)", "count(3)"))
    claimed(tmp_path, before)
    with pytest.raises(CheckpointError, match=r"\(operator sum: window\)"):
        claimed(tmp_path, before.replace("count(2)", "count(3)"))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pipeline": "p"}'])
def test_an_unreadable_checkpoint_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(
        CheckpointError, match=r"cannot be read .* Remove the folder, or start with --checkpoint ANOTHER"
    ):
        claim(FolderStore(tmp_path), "p", "f", None, 1)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    made = claim(FolderStore(tmp_path), "p", "f", None, 1)
    write(FolderStore(tmp_path), replace(made, format=99))
    with pytest.raises(CheckpointError, match="format 99"):
        claim(FolderStore(tmp_path), "p", "f", None, 1)


def test_a_damaged_checkpoint_says_how_it_is_restored(tmp_path):
    claim(FolderStore(tmp_path), "p", "f", 2, 1)
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text().replace('"buckets": 2', '"buckets": 3'))
    with pytest.raises(
        CheckpointError, match=r"is damaged.* Remove the folder, or start with --checkpoint ANOTHER_FOLDER"
    ):
        claim(FolderStore(tmp_path), "p", "f", None, 1)


def test_every_flipped_bit_is_detected(tmp_path):
    """One in the number of buckets would lead keys to other buckets."""
    claim(FolderStore(tmp_path), "p", "f", 2, 1)
    file = tmp_path / FILE
    whole = file.read_bytes()
    identity = claim(FolderStore(tmp_path), "p", "f", None, 1)
    for byte, other in flipped(whole):
        file.write_bytes(other)
        try:
            found = claim(FolderStore(tmp_path), "p", "f", None, 1)
        except CheckpointError:
            continue
        assert found == identity, "white space says nothing"
        assert whole[byte : byte + 1].isspace()


def test_the_file_of_the_lock_does_not_make_a_folder_used(tmp_path):
    (tmp_path / LOCK).touch()
    assert claim(FolderStore(tmp_path), "p", "f", 2, 1).buckets == 2


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(CheckpointError, match="not a checkpoint of Sluice"):
        claim(FolderStore(tmp_path), "p", "f", None, 1)


def test_a_write_of_the_identity_that_was_cut_off_does_not_make_a_folder_used(tmp_path):
    (tmp_path / f"{FILE}.0af3.part").write_text("{")
    assert claim(FolderStore(tmp_path), "p", "f", 2, 1).buckets == 2


def test_a_checkpoint_at_a_url_is_refused():
    pipeline = Pipeline("p", {}, (), Settings({}, checkpoint="s3://bucket/p"))
    with pytest.raises(CheckpointError, match="s3://bucket/p: URLs are not supported"):
        store_of(pipeline)


# ---- the definition, and the order of the streams in it --------------------------------------------------------------


def with_streams(names: str) -> Pipeline:
    """A pipeline with these inputs, in this order; its operators are in the order of the alphabet."""
    streams = "".join(f"  {name}: {{topic: {name}, schema: {{x: int64}}}}\n  out_{name}: {{}}\n" for name in names)
    maps = "".join(f"  - {{name: map_{n}, map: {n}, output: {{out_{n}: {{x: x}}}}}}\n" for n in sorted(names))
    return load_text(f"pipeline: p\nstreams:\n{streams}operators:\n{maps}", "p.yaml")


def inputs_in_order(pipeline: Pipeline, store: FolderStore) -> str:
    return "".join(stream.name for stream in in_stored_order(pipeline, store).inputs)


@pytest.mark.parametrize(
    ("stored_names", "names", "order"),
    [
        ("abc", "abc", "abc"),
        ("abc", "cab", "abc"),
        ("cab", "abc", "cab"),
        ("cab", "abcd", "cabd"),
        ("cab", "bdc", "cbd"),
    ],
)
def test_streams_have_the_order_of_the_checkpoint_and_then_that_of_the_file(tmp_path, stored_names, names, order):
    store, before, now = FolderStore(tmp_path), with_streams(stored_names), with_streams(names)
    claim(store, "p", fingerprint_of(before), None, 1, definition=definition_of(before))
    assert inputs_in_order(now, store) == order
    assert fingerprint_of(in_stored_order(now, store)) == fingerprint_of(now)


def test_without_a_checkpoint_streams_have_the_order_of_the_file(tmp_path):
    assert inputs_in_order(with_streams("cab"), FolderStore(tmp_path)) == "cab"


def test_the_definition_of_another_identity_is_not_used_and_is_replaced(tmp_path):
    """A kill between the writes of the two objects leaves it."""
    store, own, other = FolderStore(tmp_path), with_streams("ab"), with_streams("abc")
    claim(store, "p", fingerprint_of(own), None, 1, definition=definition_of(own))
    write_definition(store, definition_of(other))
    assert definition_in(store) is None
    claim(store, "p", fingerprint_of(own), None, 1, definition=definition_of(own))
    assert definition_in(store) == definition_of(own)
