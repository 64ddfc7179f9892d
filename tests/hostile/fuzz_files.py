"""`make fuzz-files`: damaged pipeline files, from files that were grown by coverage.

The first files are the examples and recipes of the repository. A change is one of YAML (a value, a key, a part of
another file at a place of this one), or one of characters. A file that takes a new way through the checks is changed
further. Each file gives problems, or a pipeline that `explain` describes; never an error, never a long message, and
never more than MOST_S seconds.
"""

from __future__ import annotations

import argparse
import copy
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import yaml

from sluice.config.load import check_text
from sluice.files import project_file
from sluice.planning.explain_plan import lines, plan
from tests.hostile.coverage_growth import Growth
from tests.unit.config.test_any_file import WORDS

#: the most processor seconds of a file, seconds until a file counts as a hang, and the most characters of a file
MOST_S, HANG_S, MOST_FILE = 5.0, 60, 20_000
#: the most characters of a message
MOST_MESSAGE = 3_000
#: words and signs of pipeline files
SIGNS = [
    *"{}[](),:&*!|>'\"#%@`-?+/<=. \n\t\\$",
    "  ",
    "- ",
    ": ",
    "null",
    "0",
    "9" * 30,
    "x",
    "é",
    "\x00",
    "${A}",
    "&a ",
    "*a",
]
PIECES = [
    *WORDS, 0, 1, -1, 2**63, 1.5, float("nan"), float("inf"), True, None, [], {}, [[]], "x!", "x?", "x ?: 0", "null",
    "tumbling, count(1)", "sliding, time(5), count(1), partitioned", "session, gap(5)", "cumulate, size(10), step(5)",
    "sliding, delta(x, 1.5), punct()", "timeInterval, intervalDuration(60.0)", "decimal(38, 38)", "map<string, json>",
    "tuple<a: int64>", "list<list<string?>>", "timestamp?", "a.b[1].c", "$", "debezium", "avro", "protobuf", "csv",
]  # fmt: skip


def first_files() -> list[str]:
    """The examples that are whole in one file."""
    texts = [path.read_text() for path in sorted(project_file("examples").rglob("*.yaml"))]
    return [text for text in texts if check_text(text, "f.yaml", environment={}).pipeline is not None]


def checked(text: str) -> str | None:
    """What is wrong with the answer to a file; None: nothing."""
    began = time.process_time()
    found = check_text(text, "f.yaml", environment={})
    if (found.pipeline is None) != bool(found.problems):
        return "neither a pipeline nor problems, or both"
    for message in map(str, [*found.problems, *found.cautions]):
        message.encode()
        if len(message) > MOST_MESSAGE or not message.replace("\n", "").isprintable():
            return f"a message of {len(message)} characters: {message[:200]!r}"
    if found.pipeline is not None:
        "\n".join(lines(found.pipeline, plan(found.pipeline))).encode()
    took = time.process_time() - began
    return f"{took:.1f} s" if took > MOST_S else None


# ---- changes ---------------------------------------------------------------------------------------------------------


def changed(random: Random, texts: Sequence[str]) -> str:
    text = random.choice(texts)
    for _ in range(random.choice([1, 1, 2, 4])):
        text = of_characters(random, text, texts) if random.randrange(3) == 0 else of_values(random, text, texts)
    return text[:MOST_FILE]


def of_characters(random: Random, text: str, texts: Sequence[str]) -> str:
    at, end = sorted(random.randrange(len(text) + 1) for _ in range(2))
    end = min(end, at + random.choice([0, 1, 5, 40]))
    other = random.choice(texts)
    start = random.randrange(len(other) + 1)
    new = random.choice([random.choice(SIGNS), other[start : start + random.randrange(40)], text[at:end] * 2, ""])
    return text[:at] + new + text[end:]


def of_values(random: Random, text: str, texts: Sequence[str]) -> str:
    """The file with another value, key or part at a place. A text that is no YAML gets other characters."""
    try:
        data, other = yaml.safe_load(text), yaml.safe_load(random.choice(texts))
    except (yaml.YAMLError, ValueError, RecursionError):
        return of_characters(random, text, texts)
    spots = list(places(data))
    if not spots:
        return of_characters(random, text, texts)
    inside, step = random.choice(spots)
    same = [spot for spot in places(other) if spot[1] == step] or list(places(other))
    change(random, inside, step, same)
    return written(data)


def written(data: Any) -> str:
    try:
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    except (yaml.YAMLError, UnicodeError, RecursionError):
        return ""


def change(random: Random, inside: Any, step: Any, same: Sequence[tuple[Any, Any]]) -> None:
    """Changes what a mapping or list has at a key or position. `same`: places of another file."""
    match random.randrange(5):
        case 0:
            inside[step] = copy.deepcopy(random.choice(PIECES))
        case 1 if same:
            there, key = random.choice(same)
            inside[step] = copy.deepcopy(there[key])
        case 2:
            del inside[step]
        case 3 if isinstance(inside, dict) and same:
            there, key = random.choice(same)
            inside[key if isinstance(key, str) else "x"] = copy.deepcopy(there[key])
        case _ if isinstance(inside[step], str):
            inside[step] = of_characters(random, inside[step], [str(there[key]) for there, key in same] or [""])
        case _:
            inside[step] = [inside[step], inside[step]]


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Each mapping or list with each of its keys or positions."""
    for step in list(data) if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield data, step
        yield from places(data[step])


# ---- the run ---------------------------------------------------------------------------------------------------------


class Hang(Exception):  # noqa: N818
    pass


def _hangs(*_: object) -> None:
    raise Hang


def run(cases: int, growth: float, seed: int, process: int) -> tuple[str, list[str]]:
    """The row of a process, and its findings, each with its file."""
    signal.signal(signal.SIGALRM, _hangs)
    random, wrong, good, longest = Random(f"{seed} {process}"), [], 0, 0.0
    grown: Growth[str] = Growth(lambda text: check_text(text, "f.yaml", environment={}), changed, random)
    grown.start(first_files())
    first = len(grown.steps)
    grown.grow(growth)
    began = time.process_time()
    for _ in range(cases):
        text, at = changed(random, grown.inputs), time.process_time()
        signal.alarm(HANG_S)
        try:
            what = checked(text)
        except (Exception, Hang) as error:  # noqa: BLE001 - whatever is raised is a finding
            what = f"{type(error).__name__}: {error}"[:500]
        signal.alarm(0)
        longest = max(longest, time.process_time() - at)
        wrong += [f"{what}\n{text}"] if what else []
        good += what is None
    spent = time.process_time() - began
    row = (
        f"| {process} | {grown.runs:,} | {len(grown.inputs):,} | {first:,} | {len(grown.steps):,} | {cases:,} "
        f"| {spent / max(cases, 1) * 1000:.1f} | {longest:.2f} | {len(wrong)} |"
    )
    return row, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz-files", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--growth", type=float, default=120.0, help="processor seconds of the growth of each process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    each = options.cases // options.processes
    print(  # noqa: T201
        "| process | files with coverage | files kept | ways of the first files | ways of all | files | ms of a file "
        "| longest s | findings |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        flush=True,
    )
    given = [(each, options.growth, options.seed, number) for number in range(options.processes)]
    with get_context("spawn").Pool(options.processes) as pool:
        rows = pool.starmap(run, given)
    print(*(row for row, _ in rows), sep="\n")  # noqa: T201
    wrong = [one for _, more in rows for one in more]
    folder = Path("build") / "fuzz-files"
    for number, one in enumerate(wrong):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.yaml").write_text(one, errors="backslashreplace")
    if wrong:
        print(f"The findings are in {folder}.", *sorted({one.split("\n")[0] for one in wrong})[:20], sep="\n")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
