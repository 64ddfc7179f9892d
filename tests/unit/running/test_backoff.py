import pytest

from sluice.running.service_options import Restart
from sluice.running.supervisor import MOST_S, REPAIRED_S, Backoff


def delays(lives):
    """The delays after runs that last so many seconds each."""
    backoff, now, found = Backoff(), 0.0, []
    for seconds in lives:
        backoff.started(now)
        now += seconds
        found.append(backoff.delay(now))
        now += found[-1]
    return found


def test_the_time_to_the_next_start_doubles_up_to_a_minute():
    assert delays([0.5] * 9) == [1, 2, 4, 8, 16, 32, MOST_S, MOST_S, MOST_S]


def test_a_run_that_lasted_counts_as_repaired():
    assert delays([0.5, 0.5, REPAIRED_S, 0.5, REPAIRED_S - 1]) == [1, 2, 1, 2, 4]


def test_the_delay_stays_a_number_after_thousands_of_failures():
    assert delays([0.0] * 5000)[-1] == MOST_S


@pytest.mark.parametrize(
    ("restart", "after_failure", "after_end"),
    [("always", True, True), ("on-failure", True, False), ("never", False, False)],
)
def test_which_ends_are_followed_by_a_start(restart, after_failure, after_end):
    policy = Restart(restart)
    assert (policy.follows(failed=True), policy.follows(failed=False)) == (after_failure, after_end)
