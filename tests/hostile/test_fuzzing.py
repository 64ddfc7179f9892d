"""The fuzzers find a planted fault, and keep inputs that take new ways."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from sluice.config.load import check_text
from tests.hostile import fuzz_files, fuzz_formats
from tests.hostile.coverage_growth import Growth
from tests.unit.wire.test_any_bytes import ORDINARY


def test_an_input_that_takes_a_new_way_is_kept() -> None:
    good = "pipeline: p\n"
    growth: Growth[str] = Growth(lambda text: check_text(text, "f", environment={}), lambda *_: texts.pop(), Random(1))
    texts = ["pipeline: q\n", "pipeline: {}\n", "["]
    growth.start([good])
    growth.grow(60.0, most=3)
    assert growth.inputs == [good, "[", "pipeline: {}\n"]


def planted(values: pa.BinaryArray) -> fuzz_formats.Decoded:
    """Fails at a record with a number that is too small for a float64."""
    assert not any(b"1e-400" in value for value in values.to_pylist()), "planted"
    return ORDINARY["json"][0](values)


def test_a_decoder_that_raises_is_found_with_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_formats, "formats", lambda: {"json": (planted, ORDINARY["json"][1])})
    found = fuzz_formats.found("json", ORDINARY["json"][1].to_pylist(), 500, 1)
    assert len(found["wrong"]) == 1
    assert found["wrong"][0].startswith("AssertionError: planted")
    assert "no record alone" not in found["wrong"][0]


def test_every_format_with_every_type_has_ordinary_records() -> None:
    for name, (decode, records) in fuzz_formats.formats().items():
        assert decode(records).bad == [], name


def test_changed_files_are_checked_without_errors() -> None:
    files, random = fuzz_files.first_files()[:8], Random(3)
    assert {fuzz_files.checked(text) for text in files} == {None}
    changed = [fuzz_files.changed(random, files) for _ in range(40)]
    assert [what for what in map(fuzz_files.checked, changed) if what] == []
    assert len(set(changed)) > 30


def test_a_file_whose_message_is_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_files, "MOST_MESSAGE", 10)
    assert str(fuzz_files.checked("pipeline: 1\n")).startswith("a message of ")
