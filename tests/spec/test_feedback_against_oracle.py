"""Windows whose sums return to them, compared with an oracle that keeps lists, for every cut and after each restart."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.load import load_text
from sluice.replayer.player import replay
from sluice.testing import PipelineTest

#: Of `size` tuples at least two make one that returns, so each event ends.
FILE = """
pipeline: returning
streams:
  in: {{topic: in, schema: {{key: string, n: int64}}}}
  back: {{topic: back, exchange: true, schema: {{key: string, n: int64}}}}
  joint: {{topic: joint}}
  out: {{topic: out}}
operators:
  - {{name: joint, map: [in, back], output: [joint]}}
  - name: sums
    aggregate: joint
    window: {window}, partitioned
    partition_by: [key]
    output: {{out: {{key: key, n: Sum(n), tuples: Collect(n)}}}}
  - {{name: back, map: out, where: {where}, output: {{back: {{key: key, n: n}}}}}}
buckets: {buckets}
"""


def expected(sent: list[tuple[str, int]], size: int, every: int, least: int) -> list[dict[str, Any]]:
    """The outputs: by rule M16 a sum of at least `least` is the next tuple after the one that completed it."""
    windows: dict[str, list[int]] = {}
    arrived: dict[str, int] = {}
    found = []
    for key, number in sent:
        waiting = [number]
        while waiting:
            window = windows.setdefault(key, [])
            window.append(waiting.pop(0))
            arrived[key] = arrived.get(key, 0) + 1
            if every:
                del window[:-size]
            if arrived[key] % (every or size) == 0:
                found.append({"key": key, "n": sum(window), "tuples": list(window)})
                if found[-1]["n"] >= least:
                    waiting.append(sum(window))
                if not every:
                    window.clear()
    return found


events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-20, 20)), max_size=40)
sizes = st.integers(2, 5)


def file(size: int, every: int, least: int, buckets: int = 1) -> str:
    window = f"sliding, count({size}), count({every})" if every else f"tumbling, count({size})"
    return FILE.format(window=window, where=f"n >= {least}", buckets=buckets)


#: the size of a window, the count of its trigger (0: the window is tumbling), and the least sum that returns
windows = st.tuples(sizes, st.one_of(st.just(0), sizes), st.integers(-50, 50))


@given(events, windows, st.integers(1, 4), st.integers(1, 50))
@settings(max_examples=105)
def test_sums_that_return_are_the_next_tuples_of_their_windows(sent, window, buckets, batch):
    pipeline = load_text(file(*window, buckets), "returning.yaml", environment={})
    lines = [{"at": at, "stream": "in", "tuple": {"key": key, "n": number}} for at, (key, number) in enumerate(sent)]
    made = list(replay(pipeline, lines, batch=batch))
    found = [one["tuple"] for one in made if one["stream"] == "out" and "tuple" in one]
    assert found == expected(sent, *window)


@given(events, windows, st.data())
@settings(max_examples=30)
def test_windows_of_tuples_that_return_go_on_after_a_restart(sent, window, data):
    test = PipelineTest(file(*window))
    for key, number in sent:
        if data.draw(st.booleans()):
            test.restart()
        test.send("in", {"key": key, "n": number})
    assert test.tuples("out") == expected(sent, *window)
