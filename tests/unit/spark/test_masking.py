"""What is left out of the text that Spark's processes write to standard error."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time

import pytest

from sluice.ops.log_lines import JsonLines
from sluice.spark.masking import TraceFilter, filtered_pipe, shown

HEAD = "Traceback (most recent call last):\n"
DAEMON = (
    '  File "/v/site-packages/pyspark/daemon.py", line 262, in manager\n    code = worker(sock)\n           ^^^^^^\n'
)
OTHER = '  File "/v/site-packages/other.py", line 2, in run\n    work()\n'
PIPE, RESET = (
    "BrokenPipeError: [Errno 32] Broken pipe\n",
    "ConnectionResetError: [Errno 104] Connection reset by peer\n",
)
FULL = "OSError: [Errno 28] No space left on device\n"


def filtered(text: str) -> str:
    one = TraceFilter()
    lines = [made for line in text.encode().splitlines(keepends=True) for made in one.passed(line)]
    return b"".join([*lines, *one.rest()]).decode()


@pytest.mark.parametrize("error", [PIPE, RESET])
def test_a_trace_of_pysparks_daemon_about_a_closed_connection_is_left_out(error):
    assert filtered(f"a\n{HEAD}{DAEMON}{error}b\n") == "a\nb\n"


def test_traces_that_follow_each_other_are_left_out():
    assert filtered(f"{HEAD}{DAEMON}{PIPE}{HEAD}{DAEMON}{RESET}b\n") == "b\n"


@pytest.mark.parametrize(
    "traces", [f"{HEAD}{HEAD}{DAEMON}{PIPE}{DAEMON}{PIPE}", f"{HEAD}{DAEMON}{HEAD}{PIPE}{DAEMON}{RESET}"]
)
def test_traces_of_two_workers_whose_lines_are_mixed_are_left_out(traces):
    assert filtered(f"a\n{traces}b\n") == "a\nb\n"


def test_of_mixed_traces_about_different_errors_no_line_is_lost():
    assert filtered(f"{HEAD}{HEAD}{DAEMON}{OTHER}{FULL}b\n") == f"{HEAD}{HEAD}{DAEMON}{OTHER}{FULL}b\n"


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}{DAEMON}{FULL}", f"{HEAD}{OTHER}{PIPE}", f"{HEAD}{DAEMON}", PIPE, f"a\n{HEAD}{HEAD}{OTHER}{FULL}b\n",
        f"{HEAD}another process writes\n{DAEMON}{PIPE}", " indented\n", "\n", "",
    ],
)  # fmt: skip
def test_everything_else_is_passed_on(text):
    assert filtered(text) == text


def test_processes_that_start_inside_write_through_the_filter(capfd):
    pipe = filtered_pipe()
    process = subprocess.Popen(["/bin/sh", "-c", f"printf '%s' '{HEAD}{DAEMON}{PIPE}last' >&2"], stderr=pipe)
    os.close(pipe)
    assert process.wait(60) == 0
    shown, deadline = "", time.monotonic() + 60  # the thread that passes lines on needs a moment
    while shown != "last":
        assert time.monotonic() < deadline, shown
        shown += capfd.readouterr().err


def test_in_a_log_of_json_each_line_is_an_object(monkeypatch):
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    monkeypatch.setattr(logging.getLogger("sluice"), "handlers", [handler])
    own = '{"at": "2024-05-01T10:00:00.000Z", "level": "info", "logger": "sluice", "message": "a"}\n'
    assert [shown(own), shown("\n")] == [own, "\n"]
    lines = ["spark ERROR Query: failed\n", "WARNING: Using incubator modules\n"]
    found = [shown(line) for line in lines]
    assert all(line.endswith("}\n") for line in found)
    assert [(json.loads(line)["level"], json.loads(line)["message"] + "\n") for line in found] == [
        ("error", lines[0]), ("warning", lines[1])
    ]  # fmt: skip
