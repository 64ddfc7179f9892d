"""What a start of the service needs of the system."""

from __future__ import annotations

import pytest

from sluice.running import service_start
from sluice.running.service_start import FEWEST_FILES, MOST_FILES, LimitError, require_open_files


class Limits:
    """The limit of open files of a process, in place of `resource`."""

    RLIMIT_NOFILE = 7

    def __init__(self, soft, hard):
        self.now = soft, hard

    def getrlimit(self, _):
        return self.now

    def setrlimit(self, _, limits):
        self.now = limits


@pytest.mark.parametrize(
    ("soft", "hard"), [(256, 256), (100, FEWEST_FILES - 1)], ids=["both are low", "the most that is allowed is low"]
)
def test_a_limit_of_open_files_that_is_too_low_is_named(monkeypatch, soft, hard):
    monkeypatch.setattr(service_start, "resource", Limits(soft, hard))
    with pytest.raises(LimitError, match=rf"only {hard} open files \(ulimit -n\): expected at least {FEWEST_FILES}"):
        require_open_files()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param((256, 4096), (4096, 4096), id="to the most that is allowed"),
        pytest.param((1024, 1 << 30), (MOST_FILES, 1 << 30), id="to as many as are enough"),
        pytest.param((1024, -1), (MOST_FILES, -1), id="as many as are enough, without a bound"),
        pytest.param((1 << 20, 1 << 20), (1 << 20, 1 << 20), id="a higher one stays"),
        pytest.param((-1, -1), (-1, -1), id="without a limit"),
    ],
)
def test_a_limit_that_may_be_raised_is_raised(monkeypatch, before, after):
    limits = Limits(*before)
    monkeypatch.setattr(service_start, "resource", limits)
    require_open_files()
    assert limits.now == after
