"""What a start of the service needs of the system."""

from __future__ import annotations

import pytest

from sluice.running import service_start
from sluice.running.service_start import FEWEST_FILES, LimitError, require_open_files


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


@pytest.mark.parametrize("soft", [256, 1024])
def test_a_limit_that_may_be_raised_is_raised(monkeypatch, soft):
    limits = Limits(soft, 4096)
    monkeypatch.setattr(service_start, "resource", limits)
    require_open_files()
    assert limits.now == (4096, 4096)
