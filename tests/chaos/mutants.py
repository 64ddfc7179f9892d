"""Planted bugs: `make mutants` shows what finds each bug, and after how many schedules or faults.

Each file of tests/chaos/mutants/ is a patch of a few lines of the product. Its head says what is wrong, which faults of
`make chaos` show it, and, if not all do, which kinds of schedules and which tests. The patch is applied to a copy of
the product. The campaigns follow each other until one finds the bug; a bug that none finds is a hole.

    simulation   schedules of `make simulate`, until one has a violation
    tests        the unit tests of the exactly-once half
    chaos        a short campaign of `make chaos` with the faults that the patch names
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sluice.files import project_file

FOLDER = project_file("tests/chaos/mutants")
FAULTS = re.compile(r"^faults: (.*)$", re.MULTILINE)
SCHEDULES = re.compile(r"^schedules: (.*)$", re.MULTILINE)
TEST_FILES = re.compile(r"^tests: (.*)$", re.MULTILINE)
SEED = re.compile(r"^seed (\d+): .*\n +(.*)", re.MULTILINE)
#: what is copied for a mutant
COPIED = ("service", "tests", "benchmarks", "schemas", "deploy", "pyproject.toml")
#: the unit tests of the half that the simulation covers
TESTS = ("tests/unit/state", "tests/unit/batch", "tests/unit/checkpoint", "tests/unit/kafka")
#: where `--write` puts its table, between two lines
PAGE = "docs/chaos.md"
BEGIN, END = "<!-- table of make mutants -->\n", "<!-- end of the table -->"
#: the same of bugs that were run with `--by chaos` alone
BY_CHAOS = "<!-- mutants by chaos -->\n", "<!-- end of mutants by chaos -->"


class Mutant(NamedTuple):
    name: str
    #: what is wrong in it, one sentence
    what: str
    #: the kinds of faults that show it
    faults: Sequence[str]
    #: the kinds of simulated schedules that show it; empty: any
    schedules: Sequence[str]
    #: the files of unit tests that may show it; empty: those of the exactly-once half
    tests: Sequence[str]
    patch: Path

    @classmethod
    def read(cls, path: Path) -> Mutant:
        head = path.read_text().partition("diff --git")[0]
        assert FAULTS.search(head), f"{path.name}: its head has no line of faults"
        listed = (_listed(pattern, head) for pattern in (FAULTS, SCHEDULES, TEST_FILES))
        return cls(path.stem, head.splitlines()[0], *listed, path)


def _listed(pattern: re.Pattern[str], head: str) -> list[str]:
    match = pattern.search(head)
    return [word.strip() for word in match[1].split(",")] if match else []


def mutants() -> list[Mutant]:
    return [Mutant.read(path) for path in sorted(FOLDER.glob("*.patch"))]


def planted(mutant: Mutant, folder: Path) -> Path:
    """A copy of the product with the bug."""
    root = folder / mutant.name
    for name in COPIED:
        source = project_file(name)
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("*.pyc", "node_modules"))
        else:
            root.mkdir(exist_ok=True)
            shutil.copy(source, root / name)
    subprocess.run(
        ["git", "apply", "-C1", "--unsafe-paths", f"--directory={root}", str(mutant.patch)], check=True, cwd="/"
    )
    return root


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A Python program with the planted product."""
    paths = {"PYTHONPATH": os.pathsep.join([str(root / "service"), str(root)]), "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=root, env=os.environ | paths, capture_output=True, text=True, check=False
    )


# ---- campaigns -------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a campaign says. `after`: how many schedules or faults it took, or which test; empty: it found nothing."""

    after: str
    how: str


def by_simulation(root: Path, mutant: Mutant, arguments: argparse.Namespace) -> Found:
    size = ["--seed", str(arguments.seed), "--schedules", str(arguments.schedules), "--processes", "1"]
    kinds = [part for kind in mutant.schedules for part in ("--kind", kind)]
    return simulated(run(root, "tests.chaos.simulation", *size, *kinds), arguments.seed)


def simulated(result: subprocess.CompletedProcess[str], first: int) -> Found:
    """The first violation, and the number of schedules until it came."""
    if result.returncode not in (0, 1) or not result.stdout:
        return Found("", f"failed: {result.stderr[-300:]}")
    if seed := SEED.search(result.stdout):
        return Found(str(int(seed[1]) - first + 1), seed[2][:120])
    return Found("", f"nothing in {result.stdout.split(' schedules')[0].split()[-1]} schedules")


def by_chaos(root: Path, mutant: Mutant, arguments: argparse.Namespace) -> Found:
    kinds = [part for kind in mutant.faults for part in ("--only", kind)]
    size = ["--seed", str(arguments.seed), "--minutes", str(arguments.minutes)]
    result = run(root, "tests.chaos", *size, *kinds)
    return verdict(result.stdout) if result.returncode in (0, 1) else Found("", f"failed: {result.stderr[-300:]}")


def verdict(output: str) -> Found:
    """The first violation, and the number of faults before the campaign saw it."""
    faults = len(re.findall(r"^ +[\d.]+ s  ", output, re.MULTILINE))
    _, _, behind = output.partition("VIOLATIONS:**\n")
    return (
        Found(f"{faults} faults", behind.splitlines()[0][:160]) if behind else Found("", f"nothing in {faults} faults")
    )


def by_tests(root: Path, mutant: Mutant, _arguments: argparse.Namespace) -> Found:
    result = run(root, "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *(mutant.tests or TESTS))
    failed = re.search(r"^FAILED (\S+)", result.stdout, re.MULTILINE)
    return Found(f"`{failed[1].partition('::')[2]}`", failed[1]) if failed else Found("", "nothing in the unit tests")


CAMPAIGNS: dict[str, Callable[[Path, Mutant, argparse.Namespace], Found]] = {
    "simulation": by_simulation,
    "tests": by_tests,
    "chaos": by_chaos,
}


def row_of(mutant: Mutant, arguments: argparse.Namespace) -> str:
    """After what the first of the campaigns finds the bug, as in `Found`; empty if none does."""
    with tempfile.TemporaryDirectory(prefix="sluice-mutant-") as folder:
        root = planted(mutant, Path(folder))
        for campaign in arguments.by or ["simulation", "tests"]:
            found = CAMPAIGNS[campaign](root, mutant, arguments)
            print(f"{mutant.name:38} {campaign:11} {found.after or 'not found':16} {found.how}", flush=True)  # noqa: T201
            if found.after:
                return found.after
    return ""


def with_rows(page: str, rows: dict[str, str], begin: str = BEGIN, end: str = END) -> str:
    """The page with these rows in its list. The rows of bugs that were not run stay as they are."""
    before, _, rest = page.partition(begin)
    table, _, behind = rest.partition(end)
    lines = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("* `")}
    lines |= {name: f"* `{name}`: {after or 'not found'}" for name, after in rows.items()}
    kept = [lines[name] for name in sorted(lines.keys() & {mutant.name for mutant in mutants()})]
    return "\n".join([before + begin.rstrip("\n"), *kept, end + behind])


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of mutants; all by default")
    parser.add_argument(
        "--by", action="append", choices=CAMPAIGNS, help="a campaign; may be repeated (simulation, then tests)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schedules", type=int, default=2000, help="how many schedules the simulation has at most")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each campaign of `make chaos` has faults")
    parser.add_argument("--write", action="store_true", help=f"put the rows into the table of {PAGE}")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in mutants() if not arguments.names or mutant.name in arguments.names]
    rows = {}
    for mutant in chosen:
        rows[mutant.name] = row_of(mutant, arguments)
        if arguments.write:
            page = project_file(PAGE)
            place = BY_CHAOS if arguments.by == ["chaos"] else (BEGIN, END)
            page.write_text(with_rows(page.read_text(), {mutant.name: rows[mutant.name]}, *place))
    return 0 if all(rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
