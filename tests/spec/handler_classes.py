# ruff: noqa: RUF012 - as in the documentation
"""Windowed operators in Python, for tests; without annotations, as users write them."""

from sluice import WindowHandler


class Events(WindowHandler):
    """Sends every event."""

    input = {"x": "int64"}
    output = {"what": "string", "all": "list<int64>"}

    def event(self, what, window):
        return [{"what": what, "all": [row["x"] for row in window.tuples]}]

    def before_insertion(self, window, row):
        return self.event(f"before {row['x']}", window)

    def after_insertion(self, window, row):
        return self.event(f"after {row['x']}", window)

    def before_eviction(self, window, row):
        return self.event(f"leaves {row['x']}", window)

    def after_eviction(self, window, row):
        return self.event(f"left {row['x']}", window)

    def initial_full(self, window):
        return self.event("full", window)

    def trigger(self, window):
        return self.event("trigger", window)

    def partition_eviction(self, window):
        return self.event("partition", window)

    def pane_close(self, window):
        return self.event("close", window)


class Contents(WindowHandler):
    """What an aggregate does: Collect(i)."""

    input = {"i": "int64"}
    output = {"is": "list<int64>"}

    def trigger(self, window):
        return [{"is": [row["i"] for row in window.tuples]}] if len(window) else []


class Full(Contents):
    """Nothing before the window was full."""

    def trigger(self, window):
        return super().trigger(window) if window.full else None


class Panes(WindowHandler):
    """Collect(i), and the bounds, the index and the timing of a pane."""

    input = {"i": "int64"}
    output = {"from": "int64", "to": "int64", "index": "int64", "timing": "string", "is": "list<int64>"}

    def trigger(self, window):
        pane = {"from": window.start, "to": window.end, "index": window.index, "timing": window.timing}
        return [pane | {"is": [row["i"] for row in window.tuples]}]


class Times(WindowHandler):
    """Collect(i) of slidingTime."""

    input = {"i": "int64"}
    output = {"from": "int64", "to": "int64", "is": "list<int64>"}

    def trigger(self, window):
        return [{"from": window.start, "to": window.end, "is": [row["i"] for row in window.tuples]}]


class Counter(WindowHandler):
    """Remembers, in the window's memory and with keys that JSON has not, how many tuples came."""

    output = {"n": "int64", "now": "timestamp"}

    def after_insertion(self, window, row):
        count = window.memory.get("1", 0) + 1
        window.memory[1] = count
        return [{"n": count, "now": window.now}]


class Forgetful(WindowHandler):
    """Remembers until the third tuple."""

    output = {"n": "int64"}

    def after_insertion(self, window, row):
        window.memory["n"] = window.memory.get("n", 0) + 1
        yield {"n": window.memory["n"]}
        if window.memory["n"] == 3:
            window.memory.clear()


class Failing(WindowHandler):
    """Of small numbers nothing; of 1 to 4 what is wrong in four ways."""

    output = {"x": "int64"}

    def after_insertion(self, window, row):
        x = row["x"]
        if x == 1:
            raise ValueError("one")
        if x == 4:
            window.memory["four"] = object()
        return [{"x": {2: "two", 3: None}.get(x, x)}]


class Meddling(WindowHandler):
    """Tries to change what is inside."""

    output = {"x": "int64"}

    def after_insertion(self, window, row):
        row["x"] = 9


class NoOutput(WindowHandler):
    pass


class Misspelt(WindowHandler):
    output = {"x": "int64"}

    def after_insert(self, window, row):
        pass


class OddTypes(WindowHandler):
    output = {"x": "number"}


class FewArguments(WindowHandler):
    output = {"x": "int64"}

    def trigger(self):
        pass


class Needy(WindowHandler):
    input = {"price": "float64"}
    output = {"x": "int64"}


class Unrelated:
    pass


class Again(WindowHandler):
    """The tuples of a window as they are, when it fires."""

    input = {"ts": "float64", "x": "int64"}
    output = {"ts": "float64", "x": "int64"}

    def trigger(self, window):
        return [{"ts": row["ts"], "x": row["x"]} for row in window.tuples]


class Present(WindowHandler):
    """The values of types that may be null."""

    input = {"x": "int64?", "z": "list<int64?>?"}
    output = {"xs": "list<int64?>", "sum": "int64?"}

    def trigger(self, window, /):
        rows = window.tuples
        yield {"xs": [row["x"] for row in rows], "sum": sum(n for row in rows for n in row["z"])}
