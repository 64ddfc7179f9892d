"""What PySpark's daemon prints to standard error."""

import pytest

from sluice.spark.masking import print_without_broken_pipes

FAILED = "PySpark daemon failed to flush the output to the worker process:\nTraceback (most recent call last):\n"


@pytest.mark.parametrize(
    "error", ["BrokenPipeError: [Errno 32] Broken pipe", "ConnectionResetError: [Errno 104] Connection reset by peer"]
)
def test_a_closed_connection_is_no_news(capfd, error):
    print_without_broken_pipes(f"{FAILED}  outfile.flush()\n{error}\n")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", [f"{FAILED}OSError: [Errno 28] No space left on device\n", "BrokenPipeError: mine"])
def test_everything_else_is_printed(capfd, text):
    print_without_broken_pipes(text)
    assert capfd.readouterr().out == f"{text}\n"
