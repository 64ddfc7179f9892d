from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from xxhash import xxh3_64_intdigest

from sluice.batch.packed_rows import IDLE_CLOCK, RECORDS
from sluice.columns.saved_columns import StateError
from sluice.state.bucket_log import HEAD, MARK, START, SUM, Entry, Log
from sluice.state.checksummed_blocks import DamagedError, Owner
from sluice.state.message import Message
from tests.unit.state.damaged_files import flip, flipped


def entry(version: int, text: bytes = b"rows") -> Entry:
    return Entry(version, rows=[(RECORDS, text), (IDLE_CLOCK, b"12345678")])


def log_of(folder: Path, *versions: int, text: bytes = b"rows") -> Log:
    log = Log(folder)
    for version in versions:
        log.append(entry(version, text))
    return log


def versions(log: Log, after: int, upto: int) -> list[int]:
    return [found.version for found in log.entries(after, upto)]


def test_entries_come_back_as_they_were(tmp_path):
    assert list(log_of(tmp_path, 1, 2, 3).entries(after=1, upto=3)) == [entry(2), entry(3)]


def test_an_entry_without_rows_takes_a_few_bytes(tmp_path):
    Log(tmp_path).append(Entry(1, [(IDLE_CLOCK, b"12345678")]))
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size == Entry(1, [(IDLE_CLOCK, b"12345678")]).size < 100


def test_nothing_is_made_before_the_first_entry(tmp_path):
    log = Log(tmp_path / "new")
    assert log.last() == 0
    log.turn()
    log.delete_upto(7)
    assert not (tmp_path / "new").exists()


def test_who_comes_later_goes_on_in_a_file_of_his_own(tmp_path):
    first = log_of(tmp_path, 1, 2)
    second = log_of(tmp_path, 3)
    first.append(entry(4))
    assert len(list(tmp_path.iterdir())) == 2
    assert versions(second, 0, 4) == [1, 2, 3, 4]


def test_of_two_entries_with_one_version_that_in_the_newer_file_counts(tmp_path):
    first = log_of(tmp_path, 1, 2, text=b"old")
    log_of(tmp_path, 2, text=b"new")
    first.append(entry(3, b"old"))
    assert [found.rows[0][1] for found in Log(tmp_path).entries(0, 3)] == [b"old", b"new", b"old"]


def test_a_missing_entry_is_said(tmp_path):
    with pytest.raises(StateError, match="there is no entry for version 2 of the state"):
        list(log_of(tmp_path, 1, 3).entries(0, 3))


@pytest.mark.parametrize("lost", [1, 5, 30, 60])
def test_an_entry_that_was_cut_off_is_none(tmp_path, lost):
    log_of(tmp_path, 1, 2)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-lost])
    assert Log(tmp_path).last() == 1
    assert versions(Log(tmp_path), 0, 1) == [1]


def test_behind_an_entry_that_was_cut_off_nothing_is_appended(tmp_path):
    log_of(tmp_path, 1, 2)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    assert versions(log_of(tmp_path, 2, 3), 0, 3) == [1, 2, 3]


# ---- damage ----------------------------------------------------------------------------------------------------------


def test_every_flipped_bit_is_detected_with_file_and_place(tmp_path):
    """In the first of three entries, in the one between, and in the last."""
    log_of(tmp_path, 1, 2, 3)
    (file,) = tmp_path.iterdir()
    whole, size = file.read_bytes(), entry(1).size
    assert len(whole) == 3 * size < 400
    for byte, other in flipped(whole):
        file.write_bytes(other)
        start = byte // size * size
        with pytest.raises(DamagedError, match=rf"{file}: the entry at byte {start} is damaged"):
            list(Log(tmp_path).entries(0, 3))


def test_damage_behind_what_is_needed_is_logged(tmp_path, caplog):
    log_of(tmp_path, 1, 2, 3)
    (file,) = tmp_path.iterdir()
    flip(file, 2 * entry(1).size + 5)
    assert versions(Log(tmp_path), 0, 2) == [1, 2]
    assert f"{file}: the entry at byte {2 * entry(1).size} is damaged" in caplog.text


def test_an_equal_entry_in_another_file_stands_in_for_a_damaged_one(tmp_path, caplog):
    log_of(tmp_path, 1, 2)
    log_of(tmp_path, 2, 3)
    for byte in (3, HEAD + 20):  # of the head, so that nothing behind it is found; of the rows
        flip(tmp_path / "2.log", byte)
        if byte > HEAD:
            assert versions(Log(tmp_path), 0, 3) == [1, 2, 3]
            assert f"{tmp_path / '2.log'}: the entry at byte 0 is damaged" in caplog.text
        else:
            assert versions(Log(tmp_path), 0, 2) == [1, 2]
        flip(tmp_path / "2.log", byte)


def test_an_absurd_length_is_not_made_room_for(tmp_path):
    """Behind a right checksum it is that of an entry that was cut off; else it is damage."""
    log_of(tmp_path, 1)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    head = START.pack(MARK, 2, 1 << 60, 0)
    file.write_bytes(whole + head + SUM.pack(xxh3_64_intdigest(head, Owner().seed)) + bytes(100))
    assert Log(tmp_path).last() == 1
    with pytest.raises(StateError, match="no entry for version 2"):
        list(Log(tmp_path).entries(0, 2))
    file.write_bytes(whole + head + SUM.pack(0) + bytes(100))
    with pytest.raises(DamagedError, match=f"entry at byte {len(whole)} is damaged"):
        list(Log(tmp_path).entries(0, 2))


def test_a_log_of_another_bucket_is_refused(tmp_path):
    one, other = Owner("p", "q", 1), Owner("p", "q", 2)
    Log(tmp_path / "1", one).append(entry(1))
    shutil.copytree(tmp_path / "1", tmp_path / "2")
    assert len(list(Log(tmp_path / "2", one).entries(0, 1))) == 1
    with pytest.raises(DamagedError, match="the entry at byte 0 is damaged, or another bucket's"):
        list(Log(tmp_path / "2", other).entries(0, 1))


def test_a_damaged_file_is_kept_since_it_may_hold_more(tmp_path):
    log_of(tmp_path, 1, 2)
    flip(tmp_path / "1.log", 3)
    Log(tmp_path).delete_upto(7)
    assert [path.name for path in tmp_path.iterdir()] == ["1.log"]


def test_files_go_when_all_in_them_is_forgotten(tmp_path):
    log = log_of(tmp_path, 1, 2)
    log.turn()
    log.append(entry(3))
    log.delete_upto(1)
    assert versions(log, 0, 3) == [1, 2, 3]
    log.delete_upto(2)
    assert versions(log, 2, 3) == [3]
    log.delete_upto(3)
    assert versions(log, 2, 3) == [3], "its own file may get more"
    log.append(entry(4))
    assert versions(Log(tmp_path), 2, 4) == [3, 4]


# ---- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [False, True])
def test_a_file_in_which_another_process_writes_its_first_entry_stays(tmp_path, monkeypatch, begun):
    """The file is empty, or has the head of the entry."""
    old, new = log_of(tmp_path, 1, 2), Log(tmp_path)
    old.turn()
    whole = Message.write

    def write(message, write_part):
        if begun:
            write_part.__self__.flush()
        old.delete_upto(2)
        whole(message, write_part)

    monkeypatch.setattr(Message, "write", write)
    new.append(entry(3))
    new.append(entry(4))
    assert versions(new, 2, 4) == [3, 4]


def test_a_file_with_an_entry_that_was_cut_off_goes_when_its_version_is_forgotten(tmp_path):
    log_of(tmp_path, 1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    other = Log(tmp_path)
    other.delete_upto(0)
    assert file.exists()
    other.delete_upto(1)
    assert not file.exists()


def test_a_file_that_another_process_has_just_removed_is_skipped(tmp_path, monkeypatch):
    log = log_of(tmp_path, 1, 2)
    found = [tmp_path / "0.log", *tmp_path.iterdir()]
    monkeypatch.setattr(Log, "_files", lambda _: found)
    assert versions(log, 0, 2) == [1, 2]
    assert Log(tmp_path).last() == 2
    log.delete_upto(2)
