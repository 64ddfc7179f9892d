"""Restored parts replace those of a checkpoint as a whole, also after a kill in between."""

from __future__ import annotations

import pytest

from sluice.checkpoint.checkpoint_folder import COMPLETE, REPLACED, RESTORING, adopt

OLD, NEW = "old", "new"


@pytest.fixture
def checkpoint(tmp_path):
    """With all parts twice: those in use, and restored ones."""
    for folder, text in ((tmp_path, OLD), (tmp_path / RESTORING, NEW)):
        for part in REPLACED:
            if part in ("metadata", "sluice.json"):
                (folder / part).write_text(text)
            else:
                (folder / part).mkdir(parents=True)
                (folder / part / text).write_text(text)
    (tmp_path / ".metadata.crc").write_text(OLD)
    return tmp_path


def texts(folder):
    return {path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_complete_parts_replace_the_old_ones(checkpoint):
    (checkpoint / RESTORING / COMPLETE).touch()
    adopt(checkpoint)
    assert texts(checkpoint) == {NEW}
    assert not (checkpoint / RESTORING).exists()


def test_a_part_that_was_not_restored_stays(checkpoint):
    (checkpoint / RESTORING / "sluice.json").unlink()
    (checkpoint / RESTORING / COMPLETE).touch()
    adopt(checkpoint)
    assert texts(checkpoint) == {NEW, OLD}
    assert (checkpoint / "sluice.json").read_text() == OLD


@pytest.mark.parametrize("moved", range(len(REPLACED) + 1))
def test_a_replacement_that_was_interrupted_is_finished(checkpoint, moved):
    (checkpoint / RESTORING / COMPLETE).touch()
    for part in REPLACED[:moved]:
        if (checkpoint / part).is_dir():
            (checkpoint / part / OLD).unlink()
            (checkpoint / part).rmdir()
        else:
            (checkpoint / part).unlink()
            (checkpoint / f".{part}.crc").unlink(missing_ok=True)
        (checkpoint / RESTORING / part).rename(checkpoint / part)
    adopt(checkpoint)
    assert texts(checkpoint) == {NEW}


def test_incomplete_parts_are_removed(checkpoint):
    adopt(checkpoint)
    assert texts(checkpoint) == {OLD}
    assert not (checkpoint / RESTORING).exists()


def test_a_checkpoint_without_restored_parts_stays_as_it_is(tmp_path):
    adopt(tmp_path / "none")
    (tmp_path / "metadata").write_text(OLD)
    adopt(tmp_path)
    assert texts(tmp_path) == {OLD}
