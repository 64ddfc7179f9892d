"""Values that came from ${...} are in no message, whatever they were for."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.config.load import check
from sluice.model.secrets import MASKS, masked, substitute
from sluice.ops.log_lines import configure
from sluice.spark.masking import filtered_pipe
from sluice_demo.__main__ import main as demo
from tests.unit.config.pipeline_files import aggregate

SECRET = "hunter2-and-more"  # noqa: S105 - it is one for these tests alone


def problems(tmp_path: Path, kafka: str, **environment: str) -> str:
    file = tmp_path / "pipeline.yaml"
    file.write_text(aggregate(more=f"kafka: {kafka}"))
    return "\n".join(map(str, check(file, environment=environment).problems))


@pytest.mark.parametrize(
    ("kafka", "got"),
    [
        ("{bootstrap.servers: b, socket.timeout.ms: '${WORD}'}", 'expected an integer, got "${WORD}"'),
        ("{bootstrap.servers: b, socket.timeout.ms: '1${WORD}'}", 'expected an integer, got "1${WORD}"'),
        ("{bootstrap.servers: b, security.protocol: '${WORD}'}", 'PLAINTEXT or SASL_SSL, got "${WORD}"'),
        ("{bootstrap.servers: b, security.protocol: SSL, ssl.ca.location: '/${WORD}'}", '"/${WORD} (No such file'),
        ("{bootstrap.servers: b, sasl.mechanism: '${WORD}', sasl.username: u, sasl.password: p}", 'got "${WORD}"'),
    ],
)
def test_a_wrong_value_is_shown_as_its_place(tmp_path: Path, kafka: str, got: str) -> None:
    shown = problems(tmp_path, kafka, WORD=SECRET)
    assert SECRET not in shown
    assert got.replace("PLAINTEXT or SASL_SSL, ", "") in shown


def test_nothing_is_guessed_about_a_value_that_is_not_shown(tmp_path: Path) -> None:
    """The nearest known word would reveal what the value is like."""
    shown = problems(tmp_path, "{bootstrap.servers: b, security.protocol: '${WORD}'}", WORD="SASL_SSLL")
    assert 'got "${WORD}"' in shown
    assert "did you mean" not in shown


def test_a_value_from_a_file_is_shown_as_its_place(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    shown = problems(tmp_path, f"{{bootstrap.servers: b, retries: '${{file:{tmp_path}/secret}}'}}")
    assert SECRET not in shown
    assert f'got "${{file:{tmp_path}/secret}}"' in shown


def test_an_error_in_the_yaml_shows_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", SECRET)
    (tmp_path / "p.yaml").write_text(aggregate(more='kafka: {client.id: "${WORD}", x: [}'))
    result = CliRunner().invoke(main, ["check", str(tmp_path / "p.yaml")])
    assert "YAML without errors" in result.output
    assert SECRET not in result.output


def test_explain_shows_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", SECRET)
    (tmp_path / "p.yaml").write_text(aggregate(more='kafka: {client.id: "${WORD}"}'))
    result = CliRunner().invoke(main, ["explain", str(tmp_path / "p.yaml")])
    assert result.exit_code == 0
    assert SECRET not in result.output


def test_a_property_on_the_command_line_is_masked_like_one_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", SECRET)
    result = CliRunner().invoke(demo, ["play", "--kafka", "bootstrap.servers=b", "--kafka", "retries=${WORD}"])
    assert result.exit_code == 2
    assert "got '${WORD}'" in result.output
    assert SECRET not in result.output


def test_the_log_masks_values_in_messages_fields_and_stack_traces() -> None:
    substitute("${WORD}", {"WORD": SECRET})
    logger = logging.getLogger("sluice")
    before, stream = (logger.handlers, logger.propagate, logger.level), io.StringIO()
    roots = logging.getLogger().handlers
    configure(stream=stream)
    try:
        {}[SECRET]
    except KeyError:
        logger.exception("connect to %s", SECRET, extra={"where": f"x={SECRET}"})
    (logger.handlers, logger.propagate, logger.level), logging.getLogger().handlers = before, roots
    assert SECRET not in stream.getvalue()
    assert 'message="connect to ${WORD}" where="x=${WORD}"' in stream.getvalue()
    assert "KeyError: '${WORD}'" in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ('a"b\\c', '{"password": "a\\"b\\\\c"}', '{"password": "${X}"}'),  # as JSON and Java's login have it
        ("line one\nline two", "unexpected 'line one\\nline two'", "unexpected '${X}'"),  # as Python's repr has it
        ("broker1:9092,broker2:9092", "broker2:9092/bootstrap: Connect failed", "${X}/bootstrap: Connect failed"),
        ("user:hunter2", "401 for hunter2", "401 for ${X}"),
        ("1", "batch=1 offset=12 at=2013", "batch=${X} offset=12 at=2013"),
        ("", "nothing", "nothing"),
        (" ", "a b", "a b"),
    ],
)
def test_a_value_is_masked_as_other_programs_write_it(value: str, text: str, shown: str) -> None:
    substitute("${X}", {"X": value})
    assert masked(text) == shown


def test_the_longest_value_is_masked_first() -> None:
    substitute("${A}${B}", {"A": "secret", "B": "secret-and-more"})
    assert masked("secret-and-more, secret") == "${B}, ${A}"


def test_a_secret_that_stands_in_the_file_is_masked_too(tmp_path: Path) -> None:
    problems(tmp_path, f"{{bootstrap.servers: b, sasl.password: {SECRET}}}")
    assert masked(f"login with {SECRET}") == "login with ****"


def test_what_processes_write_to_standard_error_is_masked(capfd: pytest.CaptureFixture[str]) -> None:
    MASKS.add(SECRET, "${WORD}")
    before = set(threading.enumerate())
    pipe = filtered_pipe()
    (passes_lines_on,) = set(threading.enumerate()) - before
    process = subprocess.Popen(["/bin/sh", "-c", f"echo login {SECRET} failed >&2; printf and >&2"], stderr=pipe)
    os.close(pipe)
    assert process.wait(60) == 0
    passes_lines_on.join(60)  # what is written while `capfd` is read would be lost
    assert capfd.readouterr().err == "login ${WORD} failed\nand"
