"""Files that were made to hurt: a message of bounded size within bounded time, never a stack trace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.config.load import check
from sluice.model.errors import MAX_FINDINGS

FILE = """\
pipeline: one
streams:
  in: {topic: in, MORE schema: {word: string, size: int64}}
  out: {topic: out}
operators:
  - name: only
    OPERATOR
    output: {out: {x: EXPRESSION}}
"""
#: characters of all messages about a file with one thing wrong
MOST_SHOWN = 3_000
#: seconds of processor time
MOST_SECONDS = 5.0


def file(more: str = "", operator: str = "map: in", expression: str = "size", end: str = "") -> str:
    return FILE.replace("MORE", more).replace("OPERATOR", operator).replace("EXPRESSION", expression) + end


def window(clause: str) -> str:
    return file(operator=f'aggregate: in\n    window: "{clause}"', expression="Count()")


LAUGHS = "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10))])
ALIASES = "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 3000))])
#: what is wrong -> the file, and a part of the message
HOSTILE = {
    "a lone surrogate in a literal": (file(expression=r"""'"\ud800"'"""), "stand in pairs"),
    "a lone surrogate in a name": (file().replace("only", r'"\ud800"'), "Unicode"),
    "a lone surrogate in a key": (file(end='"\\ud800": 1'), "Unicode"),
    "a lone surrogate in a schema": (file("format: avro, avro_schema: surrogate.avsc,"), "an Avro schema"),
    "a constant of 10,000 digits": (file(expression="9" * 10_000), "an int64"),
    "a negative one": (file(expression=f'"size - -{"9" * 10_000}"'), "an int64"),
    "a window of 10,000 digits": (window(f"tumbling, count({'9' * 3_900})"), "count(n) with a whole number"),
    "a time of 10,000 digits": (window(f"tumbling, time({'9' * 3_900})"), "at most 292 years"),
    "a setting of 10,000 digits": (file(end=f"max_future: {'9' * 10_000}"), "a finite number"),
    "a setting of 4,000 digits": (file(end=f"max_future: {'9' * 4_000}"), "max_future"),
    "a setting in another base of 4,000 digits": (file(end=f"buckets: {'9' * 4_000}"), "at most 65536"),
    "lists 20,000 deep": ("[" * 20_000 + "]" * 20_000, "100 levels"),
    "lists 100,000 deep, one a word": ("- " * 100_000, "100 levels"),
    "mappings 20,000 deep": (file(end=f"a: {'{a: ' * 20_000}{'}' * 20_000}"), "100 levels"),
    "lists 3,000 deep, by indentation": ("a:\n" + "".join(f"{' ' * i}- \n" for i in range(1, 3_000)), "100 levels"),
    "aliases 3,000 deep": (file(end=ALIASES), "100 levels"),
    "aliases for a billion values": (file(end=LAUGHS), "at most 100000 values"),
    "an alias inside of its anchor": ("&a {pipeline: *a}", "no alias inside"),
    "a mapping as a key, 50 deep": (file(end=f"? {'{a: ' * 50}{'}' * 50}\n: 1"), "a word as key"),
    "a type 20,000 deep": (
        file().replace("size: int64", f'size: "{"list<" * 20_000}int64{">" * 20_000}"'), "at most 4000 characters"
    ),
    "an expression of 20,000 parentheses": (file(expression=f"{'(' * 20_000}size{')' * 20_000}"), "20000 characters"),
    "an expression of 9,000 parentheses": (file(expression=f"{'(' * 9_000}foo{')' * 9_000}"), "an attribute of in"),
    "an expression of 15,000 signs": (file(expression=f'"{"-" * 15_000}size"'), "less deeply nested"),
    "an expression of 3,900 sums": (file(expression="size" + "+size" * 3_900), "less deeply nested"),
    "a schema 900 deep": (
        file(f"format: avro, avro_schema: {'{type: ' * 900}string{'}' * 900},"), "100 levels"
    ),
    "a schema file 100,000 deep": (file("format: avro, avro_schema: deep.avsc,"), "an Avro schema of less depth"),
    "/dev/zero as a schema": (file("format: avro, avro_schema: /dev/zero,"), "it has more than 16 MiB"),
    "/dev/zero as a secret": (file(end='kafka: {client.id: "${file:/dev/zero}"}'), "it has more than 16 MiB"),
    "/dev/zero as a certificate": (
        file(end="kafka: {bootstrap.servers: b, security.protocol: SSL, ssl.ca.location: /dev/zero}"),
        "it has more than 16 MiB",
    ),
    "a folder as a schema": (file("format: avro, avro_schema: /dev,"), "Is a directory"),
    "a NUL byte": (file().replace("one", "a\0b"), "control characters"),
    "an escaped NUL byte": (file().replace("one", r'"a\0b"'), r'got "a\x00b"'),
    "a NUL byte in the name of a schema": (file(r'format: avro, avro_schema: "a\0b",'), "not the name of a file"),
    "a NUL byte in the name of a secret": (file(end=r'kafka: {client.id: "${file:a\0b}"}'), "not the name of a file"),
    "a key of a million characters": (file(end=f"? {'k' * 1_000_000}\n: 1"), "(1,000,000 characters)"),
    "a name of a million characters": (file().replace("one", "k" * 1_000_000), "at most 200 characters"),
    "an expression of a million characters": (file(expression="k" * 1_000_000), "at most 20000 characters"),
    "a window of a million characters": (window("k" * 1_000_000), "at most 4000 characters"),
    "a window of 3,900 blanks": (window(f"count{' ' * 3_900}!"), "a word such as sliding"),
    "a file name of a million characters": (
        file(f"format: avro, avro_schema: {'a' * 1_000_000},"), "File name too long"
    ),
    "a comment of 20 MB": (file(end="# " + "x" * 20_000_000), "it has more than 16 MiB"),
    "a list of a million values": (file(end=f"a: [{'1,' * 1_000_000}]"), "at most 100000 values"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("surrogate.avsc").write_text('{"type": "record", "name": "\\ud800", "fields": []}')
    Path("deep.avsc").write_text("[" * 100_000)


@pytest.mark.parametrize("command", ["check", "explain", "replay", "run"])
@pytest.mark.parametrize(("text", "expected"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.usefixtures("folder", "only_files")
def test_a_hostile_file(command: str, text: str, expected: str):
    Path("events").touch()
    Path("p.yaml").write_text(text, encoding="utf-8")
    began = time.process_time()
    result = CliRunner().invoke(main, [command, "p.yaml", *(["events"] if command == "replay" else [])])
    output = result.output
    assert time.process_time() - began < MOST_SECONDS
    if "kafka: {" in text and command in ("explain", "replay"):  # they need no Kafka, and look up nothing
        assert result.exit_code == 0
        return
    assert result.exit_code == 1, result.output[-2_000:]
    assert expected in output
    assert "p.yaml" in output
    assert len(output) < MOST_SHOWN


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dev/zero", "it has more than 16 MiB"),
        ("\udcff.yaml", "a file that can be read"),
        ("a" * 5_000, "File name too long"),
    ],
)
@pytest.mark.parametrize("command", ["check", "explain", "run"])
@pytest.mark.usefixtures("only_files")
def test_a_hostile_name_of_the_file(command: str, path: str, expected: str):
    result = CliRunner().invoke(main, [command, path])
    assert result.exit_code == 1
    assert expected in result.output
    assert len(result.output) < MOST_SHOWN


def test_a_file_may_come_from_a_pipe():
    reading, writing = os.pipe()
    os.write(writing, file().encode())
    os.close(writing)
    assert CliRunner().invoke(main, ["check", f"/dev/fd/{reading}"]).exit_code == 0
    os.close(reading)


MANY = {
    "unknown keys": file(end="".join(f"pipelin{i}: 1\n" for i in range(40_000))),
    "operators of unknown streams": file(
        end="".join(f"  - {{name: a{i}, map: inn{i}, output: [oo{i}]}}\n" for i in range(2_000))
    ),
    "streams and a wrong name": file(end="").replace(
        "  out:", "".join(f"  s{i}: {{topic: s{i}, schema: {{a: int64}}}}\n" for i in range(3_000)) + "  out:"
    ).replace("map: in", "map: inn"),
    "wrong expressions": file(expression="a, " + ", ".join(f"y{i}: sise" for i in range(3_000))),
}  # fmt: skip


@pytest.mark.parametrize("text", MANY.values(), ids=MANY)
def test_many_problems_are_cut(tmp_path: Path, text: str):
    (tmp_path / "p.yaml").write_text(text)
    began = time.process_time()
    checked = check(tmp_path / "p.yaml")
    assert time.process_time() - began < MOST_SECONDS
    assert 1 <= len(checked.problems) <= MAX_FINDINGS
    assert len(checked.cautions) <= MAX_FINDINGS
    assert len("\n".join(map(str, checked.problems))) < MAX_FINDINGS * MOST_SHOWN


def test_a_command_says_that_there_may_be_more(tmp_path: Path):
    (tmp_path / "p.yaml").write_text(MANY["unknown keys"])
    result = CliRunner().invoke(main, ["check", str(tmp_path / "p.yaml")])
    assert "100 problems, perhaps more: the check stops at this number" in result.output


EVENTS = {
    "no end": ("/dev/zero", "expected at most 20 MiB of events from a pipe, got more"),
    "a list": ("list", "expected a JSON object"),
    "bytes that are no text": ("bytes", "not JSON"),
}


@pytest.mark.parametrize(("path", "expected"), EVENTS.values(), ids=EVENTS)
@pytest.mark.usefixtures("folder")
def test_hostile_events(monkeypatch: pytest.MonkeyPatch, path: str, expected: str):
    monkeypatch.setattr("sluice.commands.replay.MAX_PIPED", 20 << 20)
    Path("p.yaml").write_text(file())
    Path("list").write_text("[" * 1_000 + "]" * 1_000 + "\n")
    Path("bytes").write_bytes(b"\xff\xfe\0")
    result = CliRunner().invoke(main, ["replay", "p.yaml", path])
    assert result.exit_code == 1
    assert expected in result.output
    assert len(result.output) < MOST_SHOWN


@pytest.mark.parametrize(("fewer", "exit_code"), [(0, 0), (1, 1)])
@pytest.mark.usefixtures("folder")
def test_a_pipe_may_have_exactly_as_many_bytes_as_are_read(monkeypatch: pytest.MonkeyPatch, fewer: int, exit_code: int):
    events = b'{"at": 1, "tuple": {"word": "a", "size": 5}}\n'
    monkeypatch.setattr("sluice.commands.replay.MAX_PIPED", len(events) - fewer)
    Path("p.yaml").write_text(file())
    result = CliRunner().invoke(main, ["replay", "p.yaml", "-"], input=events)
    assert result.exit_code == exit_code, result.output


@pytest.mark.usefixtures("folder")
def test_events_may_come_from_a_pipe_that_has_a_name():
    Path("p.yaml").write_text(file())
    reading, writing = os.pipe()
    os.write(writing, b'{"at": 1, "tuple": {"word": "a", "size": 5}}\n')
    os.close(writing)
    command = [sys.executable, "-m", "sluice", "replay", "p.yaml", f"/dev/fd/{reading}"]
    done = subprocess.run(command, pass_fds=[reading], capture_output=True, text=True, check=True)
    os.close(reading)
    assert '"tuple":{"x":5}' in done.stdout
