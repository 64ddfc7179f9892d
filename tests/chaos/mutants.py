"""Planted bugs: `make mutants` runs a campaign against each, and shows which it found, and after how many faults.

Each file of tests/chaos/mutants/ is a patch of a few lines of the product. Its first lines say what is wrong, and which
faults show it. The patch is applied to a copy of the product; a campaign that finds nothing wrong there has a hole.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sluice.files import project_file

FOLDER = project_file("tests/chaos/mutants")
FAULTS = re.compile(r"^faults: (.*)$", re.MULTILINE)
#: what is copied for a mutant
COPIED = ("service", "tests", "schemas", "pyproject.toml")


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
    subprocess.run(["git", "apply", "--unsafe-paths", f"--directory={root}", str(mutant.patch)], check=True, cwd="/")
    return root


def campaign(root: Path, mutant: Mutant, seed: int, minutes: float) -> subprocess.CompletedProcess[str]:
    kinds = [part for kind in mutant.faults for part in ("--only", kind)]
    command = [sys.executable, "-m", "tests.chaos", "--seed", str(seed), "--minutes", str(minutes), *kinds]
    paths = os.pathsep.join([str(root / "service"), str(root)])
    return subprocess.run(
        command, cwd=root, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )


def verdict(output: str) -> str:
    """The first violation, and the number of faults before the campaign saw it; "not found" if it saw none."""
    faults = len(re.findall(r"^ +[\d.]+ s  ", output, re.MULTILINE))
    _, _, behind = output.partition("VIOLATIONS:**\n")
    return f"found after {faults} faults: {behind.splitlines()[0][:160]}" if behind else f"not found in {faults} faults"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of mutants; all by default")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long each campaign has faults")
    arguments = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="sluice-mutants-") as folder:
        for mutant in mutants():
            if arguments.names and mutant.name not in arguments.names:
                continue
            root = planted(mutant, Path(folder))
            result = campaign(root, mutant, arguments.seed, arguments.minutes)
            line = verdict(result.stdout) if result.returncode in (0, 1) else f"failed: {result.stderr[-300:]}"
            missed += not line.startswith("found")
            print(f"{mutant.name:32} {line}", flush=True)  # noqa: T201
            shutil.rmtree(root, ignore_errors=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
