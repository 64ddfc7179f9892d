"""The conformance vectors (tests/spec/conformance), and which of them the engine offers what they need."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from sluice.config.syntax.sized_clause import PARTS
from sluice.engine.aggregates.function_table import FUNCTIONS
from sluice.model.windows.kinds import KINDS

Case = dict[str, Any]
FOLDER = Path(__file__).parent / "conformance"

WORDS = {
    "count", "time", "delta", "punct", "partitioned",
    "partitionAge", "partitionCount", "tupleCount", *KINDS, *PARTS,
}  # fmt: skip


def all_cases() -> list[Case]:
    return [case for file in sorted(FOLDER.glob("*.json")) for case in json.loads(file.read_text())]


def supported(case: Case) -> bool:
    """Whether the engine has the case's kind of operator, its policies and its functions."""
    operator = case["operator"]
    windows = [operator[key] for key in ("window", "left", "right") if key in operator]
    if not WORDS.issuperset(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", " ".join(windows)))):
        return False
    if operator["kind"] != "aggregate":
        return True
    return all(re.findall(r"\w+", call)[0] in FUNCTIONS for call in operator["output"].values())


def random_cuts(case: Case, seed: int) -> list[int]:
    """Batch sizes that add up to the events of the case, some of them 0. Each case has others."""
    events, choose = len(case["input"]), random.Random(f"{case['name']} {seed}")
    sizes: list[int] = []
    while sum(sizes) < events:
        sizes.append(min(choose.choice((0, 1, 1, 2, 3, 5, 8)), events - sum(sizes)))
    return [*sizes, 0]
