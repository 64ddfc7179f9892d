"""Planted bugs: `make mutants` shows which campaign finds each bug, and after how many schedules or faults.

Each file of tests/chaos/mutants/ is a patch of a few lines of the product. Its first lines say what is wrong, and which
faults of `make chaos` show it. The patch is applied to a copy of the product; a bug that no campaign finds is a hole.

    simulation   schedules of `make simulate`, until one has a violation
    chaos        a short campaign of `make chaos` with the faults that the patch names
    tests        the unit tests of the exactly-once half that need no broker
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
SEED = re.compile(r"^seed (\d+): .*\n +(.*)", re.MULTILINE)
#: what is copied for a mutant
COPIED = ("service", "tests", "schemas", "pyproject.toml")
#: the unit tests of the half that the simulation covers
TESTS = ("tests/unit/state", "tests/unit/batch", "tests/unit/checkpoint", "tests/unit/kafka")


class Mutant(NamedTuple):
    name: str
    #: what is wrong in it, one sentence
    what: str
    #: the kinds of faults that show it
    faults: Sequence[str]
    patch: Path

    @classmethod
    def read(cls, path: Path) -> Mutant:
        head = path.read_text().partition("diff --git")[0]
        match = FAULTS.search(head)
        assert match, f"{path.name}: its head has no line of faults"
        return cls(path.stem, head.splitlines()[0], [kind.strip() for kind in match[1].split(",")], path)


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


def by_simulation(root: Path, _mutant: Mutant, arguments: argparse.Namespace) -> str:
    size = ["--seed", str(arguments.seed), "--schedules", str(arguments.schedules), "--processes", "1"]
    return simulated(run(root, "tests.chaos.simulation", *size), arguments.seed)


def simulated(result: subprocess.CompletedProcess[str], first: int) -> str:
    """The first violation, and the number of schedules until then; "not found" if there was none."""
    if result.returncode not in (0, 1) or not result.stdout:
        return f"failed: {result.stderr[-300:]}"
    seed = SEED.search(result.stdout)
    if seed:
        return f"found after {int(seed[1]) - first + 1} schedules: {seed[2][:120]}"
    return f"not found in {result.stdout.split(' schedules')[0].split()[-1]} schedules"


def by_chaos(root: Path, mutant: Mutant, arguments: argparse.Namespace) -> str:
    kinds = [part for kind in mutant.faults for part in ("--only", kind)]
    size = ["--seed", str(arguments.seed), "--minutes", str(arguments.minutes)]
    result = run(root, "tests.chaos", *size, *kinds)
    return verdict(result.stdout) if result.returncode in (0, 1) else f"failed: {result.stderr[-300:]}"


def verdict(output: str) -> str:
    """The first violation, and the number of faults before the campaign saw it; "not found" if it saw none."""
    faults = len(re.findall(r"^ +[\d.]+ s  ", output, re.MULTILINE))
    _, _, behind = output.partition("VIOLATIONS:**\n")
    return f"found after {faults} faults: {behind.splitlines()[0][:160]}" if behind else f"not found in {faults} faults"


def by_tests(root: Path, _mutant: Mutant, _arguments: argparse.Namespace) -> str:
    result = run(root, "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not kafka and not slow", *TESTS)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return f"found by {failed[1]}" if failed else "not found by unit tests"


CAMPAIGNS: dict[str, Callable[[Path, Mutant, argparse.Namespace], str]] = {
    "simulation": by_simulation,
    "chaos": by_chaos,
    "tests": by_tests,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of mutants; all by default")
    parser.add_argument(
        "--by", action="append", choices=CAMPAIGNS, help="a campaign; may be repeated (simulation, chaos)"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--schedules", type=int, default=2000, help="how many schedules the simulation has at most")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each campaign of `make chaos` has faults")
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="sluice-mutants-") as folder:
        for mutant in mutants():
            if arguments.names and mutant.name not in arguments.names:
                continue
            root = planted(mutant, Path(folder))
            found = False
            for campaign in arguments.by or ["simulation", "chaos"]:
                line = CAMPAIGNS[campaign](root, mutant, arguments)
                found |= line.startswith("found")
                print(f"{mutant.name:32} {campaign:11} {line}", flush=True)  # noqa: T201
            missed += not found
            shutil.rmtree(root, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
