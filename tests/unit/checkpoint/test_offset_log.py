"""What Spark's offset log says of a batch."""

from __future__ import annotations

from sluice.checkpoint.offset_log import Planned, before_all, offsets_read, planned

ENTRY = 'v1\n{"batchTimestampMs":1}\n{"b":{"0":7},"a":{"1":3,"0":2}}\n'
READ = {("b", 0): 7, ("a", 1): 3, ("a", 0): 2}


def test_an_entry_says_when_a_batch_was_planned_how_far_it_reads_and_the_pulse():
    assert Planned.of(ENTRY + '{"pulse":99}') == (1_000_000, READ, 99)


def test_without_a_pulse_there_was_none():
    assert Planned.of(ENTRY) == Planned.of(ENTRY + "-") == (1_000_000, READ, 0)


def test_the_last_entry_says_how_far_was_read(tmp_path):
    log = tmp_path / "offsets"
    log.mkdir()
    assert offsets_read(tmp_path) == {}
    for batch, read in ((9, 7), (10, 8)):
        (log / str(batch)).write_text(f'v1\n{{}}\n{{"t":{{"0":{read}}}}}')
    assert offsets_read(tmp_path) == {("t", 0): 8}
    assert planned(tmp_path, 9).offsets == {("t", 0): 7}


def test_the_first_batch_goes_on_from_where_the_source_began(tmp_path):
    source = tmp_path / "sources" / "0"
    source.mkdir(parents=True)
    (source / "0").write_bytes(b'\0v1\n{"t":{"0":5}}')
    assert before_all(tmp_path) == (0, {("t", 0): 5}, 0)
