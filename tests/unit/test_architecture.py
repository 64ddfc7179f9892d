"""The floors of the package: which folder may import which, and how folders are filled (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from sluice.files import project_file
from sluice.model.windows.kinds import KINDS
from sluice.model.windows.policies.partition_policies import PARTITION_EVICTIONS
from sluice.model.windows.policies.policy_table import POLICIES

PACKAGE = project_file("service/sluice")
#: files of Python in a folder, beside its __init__.py
MAX_FILES = 16
#: files that name a kind of window, beside its own module
MAX_FILES_OF_A_KIND = 8
#: functions that may have one of the EMPTY_WORDS as a local
MAX_EMPTY_WORDS = 5
#: modules at the top that every floor may import, and modules at the top that no floor may import
BASE = {
    "time_units",
    "files",
    "processes",
    "package_extras",
    "arrow_without_pandas",
    "invariants",
    "json_texts",
    "__version__",
}
PROGRAMS = {"cli", "pytest_plugin", "__main__"}

#: floor -> the floors that it may import, beside itself and BASE. The floors of one line and above do not appear in it.
FLOORS = {
    "model": set(),
    "api": {"model"},
    "jvm": {"model"},
    "ops": {"model"},
    "compiler": set(),
    "svg": set(),
    "columns": {"model", "compiler"},
    "engine/stream": {"model", "columns"},
    "engine/windows": {"model", "columns", "engine/stream"},
    "engine/contents": {"model", "columns", "engine/windows"},
    "engine/aggregates": {"model", "api", "columns", "engine/stream", "engine/contents"},
    "engine/operators": {"model", "columns", "engine/stream", "engine/windows", "engine/contents", "engine/aggregates"},
    "engine/library": {
        "model", "api", "columns", "engine/stream", "engine/windows", "engine/contents", "engine/aggregates",
        "engine/operators",
    },
    "engine": {
        "model", "api", "columns", "engine/stream", "engine/windows", "engine/contents", "engine/operators",
        "engine/library",
    },
    "planning": {"model", "svg", "engine", "engine/operators"},
    "wire": {"model", "columns", "engine/stream"},
    "config": {"model", "api", "wire"},
    "draft": {"model", "columns", "wire", "config"},
    "kafka": {"model", "columns", "jvm"},
    "replayer": {"model", "columns", "engine", "engine/stream", "engine/library", "wire"},
    "pictures": {"model", "svg", "columns", "engine", "engine/stream", "engine/contents", "replayer"},
    "lab": {"model", "api", "config", "replayer", "pictures"},
    "checkpoint": {"model", "kafka"},
    "batch": {"model", "api", "ops", "compiler", "columns", "engine", "engine/stream", "wire", "kafka", "checkpoint"},
    "state": {"model", "columns", "api", "engine", "engine/stream", "wire", "kafka", "ops", "checkpoint", "batch"},
    "inspect": {"model", "columns", "wire", "kafka", "checkpoint", "batch", "state"},
    "page": {"model", "ops", "svg", "columns", "engine/windows", "planning", "wire", "kafka", "inspect"},
    "spark": {"model", "api", "engine/stream", "wire", "kafka", "jvm", "ops", "checkpoint", "batch", "state", "page"},
    "running": {"model", "api", "ops", "planning", "config", "page", "spark"},
    "commands": {
        "model", "config", "draft", "compiler", "columns", "batch", "replayer", "pictures", "lab", "planning", "ops",
        "running", "checkpoint", "inspect",
    },
    "testing": {"model", "config", "columns", "engine", "engine/stream", "replayer"},
}  # fmt: skip
MODULES = sorted(PACKAGE.rglob("*.py"))
FLOOR_MODULES = [path for path in MODULES if path.parent != PACKAGE]


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def floor_of(module: str) -> str:
    """The longest name of a floor that begins the path of a module or a folder; the module itself at the top."""
    parts = module.split("/")
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in FLOORS:
            return "/".join(parts[:length])
    return parts[0]


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path: Path) -> frozenset[str]:
    """The full names of the modules that a file imports, wherever in it."""
    names = [alias.name for node in nodes_of(path) if isinstance(node, ast.Import) for alias in node.names]
    whole = [node for node in nodes_of(path) if isinstance(node, ast.ImportFrom) and node.module]
    return frozenset([*names, *(f"{node.module}.{alias.name}" for node in whole for alias in node.names)])


@pytest.mark.parametrize("path", FLOOR_MODULES, ids=name_of)
def test_a_module_imports_its_own_floor_and_lower_floors_only(path: Path):
    floor = floor_of(name_of(path))
    used = {floor_of("/".join(name.split(".")[1:])) for name in imported(path) if name.startswith("sluice.")}
    wrong = used - FLOORS[floor] - BASE - {floor}
    assert not wrong, f"{floor} imports {sorted(wrong)}"


def test_the_table_of_floors_has_no_cycle_and_every_folder():
    below: set[str] = set()
    for floor, may_import in FLOORS.items():
        assert may_import <= below, f"{floor} imports a floor that is not below it"
        below.add(floor)
    assert {floor_of(name_of(path)) for path in FLOOR_MODULES} == set(FLOORS)
    assert {path.stem for path in MODULES if path.parent == PACKAGE} == {*BASE, *PROGRAMS, "__init__"} - {"__version__"}


@pytest.mark.parametrize("floor", sorted(FLOORS))
def test_no_files_of_a_floor_import_each_other_in_a_circle(floor: str):
    """Imports inside functions and for type hints alone count, too. Raises CycleError with the modules of a circle."""
    paths = [path for path in FLOOR_MODULES if floor_of(name_of(path)) == floor]
    used = {"sluice." + name_of(path).removesuffix(".py").replace("/", "."): {*imported(path)} for path in paths}
    # a name of a module is imported as module.name
    used = {name: {*names, *(full.rpartition(".")[0] for full in names)} for name, names in used.items()}
    TopologicalSorter({name: used.keys() & names - {name} for name, names in used.items()}).prepare()


def test_only_the_spark_floor_imports_pyspark():
    users = {
        floor_of(name_of(path)) for path in MODULES if any(name.split(".")[0] == "pyspark" for name in imported(path))
    }
    assert users == {"spark"}


def test_private_members_of_spark_stand_in_one_module():
    private = re.compile(r"(?<!self)\._(jvm|jsc|jdf|jsq|jsparkSession|jsession|gateway|gateway_client)\b")
    users = {path.name for path in MODULES if private.search(path.read_text())}
    assert users == {"spark_internals.py"}


def test_the_engine_knows_neither_kafka_nor_files_nor_the_time_of_day():
    wrong = {"confluent_kafka", "pyspark", "time", "socket", "pathlib", "threading", "random", "os"}
    for path in MODULES:
        if name_of(path).startswith(("engine/", "columns/")):
            used = {name.split(".")[0] for name in imported(path)} & wrong
            assert not used, f"{name_of(path)} imports {sorted(used)}"


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=name_of)
def test_a_folder_has_no_more_files_than_a_reader_can_survey(folder: Path):
    files = [path for path in folder.glob("*.py") if path.stem != "__init__"]
    assert len(files) <= MAX_FILES


def test_no_file_name_stands_twice():
    names = Counter(path.name for path in MODULES if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_what_spark_plans_and_commits_with_needs_no_engine():
    """A first batch starts processes for that, one after the other, and numba takes each of them a second."""
    modules = "import sluice.spark.run_bucket, sluice.spark.idle_clock, sluice.spark.source"
    check = f"{modules}, sys; print(sorted({{'numba', 'pandas', 'polars'}} & {{*sys.modules}}))"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


#: `count` and `time` stand beside these in other clauses: as default trigger, as early results, as timers
COUNTED_POLICIES = {word: policy for word, policy in POLICIES.items() if word not in ("count", "time")}


@pytest.mark.parametrize("word", COUNTED_POLICIES)
def test_a_policy_is_one_module_and_at_most_eight_other_files(word: str):
    policy = COUNTED_POLICIES[word]
    own = Path(sys.modules[policy.__module__].__file__ or "")
    names = {f"{module}.{policy.__name__}" for module in (policy.__module__, "sluice.model.spec")}
    names.add(f"sluice.engine.windows.policies.{word.upper()}")
    files = [name_of(path) for path in MODULES if path != own and names.intersection(imported(path))]
    assert len({*files, "engine/windows/policies.py"}) <= 8, files


def asked_classes(path: Path) -> set[str]:
    """The names of the classes of which a file asks whether a value is an instance."""
    asked: set[str] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.MatchClass):
            asked |= {part.id for part in ast.walk(node.cls) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            asked |= {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
    return asked


def test_no_code_asks_which_policy_a_window_has():
    policies = {policy.__name__ for policy in (*POLICIES.values(), *PARTITION_EVICTIONS.values())}
    askers = {name_of(path): found for path in MODULES if (found := asked_classes(path) & policies)}
    # whether two policies are of one kind, to compare their sizes
    assert askers == {f"model/windows/policies/{word}_policy.py": {word.title()} for word in ("count", "time")}


#: the only file that asks whether a window is of a kind: the page says when the first of the sessions ends
ASKS_FOR_A_KIND = {"page/next_firing.py": {"Session"}, "model/windows/sliding_window.py": {"Sliding"}}


def test_no_code_asks_of_which_kind_a_window_is():
    """Beside ASKS_FOR_A_KIND: `Sliding` compares the sizes of two windows of its own kind."""
    kinds = {kind.__name__ for kind in KINDS.values()}
    assert {name_of(path): asked for path in MODULES if (asked := asked_classes(path) & kinds)} == ASKS_FOR_A_KIND


@pytest.mark.parametrize("word", KINDS)
def test_a_kind_of_window_is_one_module_and_at_most_eight_other_files(word: str):
    """The files that import the class of a kind, beside its own: `model/spec.py`, `model/windows/kinds.py`, what parses
    its clause (`config/checks/window_checks.py`, and `join_checks.py`, `table_checks.py` of windows by policies), its
    operator and its row in `engine/operators/window_operators.py`, the warm-up of its kernel.
    """
    kind = KINDS[word]
    own = Path(sys.modules[kind.__module__].__file__ or "")
    names = {f"{module}.{kind.__name__}" for module in (kind.__module__, "sluice.model.spec")}
    files = [name_of(path) for path in MODULES if path != own and names.intersection(imported(path))]
    assert len(files) <= MAX_FILES_OF_A_KIND, files


def test_cumulate_stands_in_at_most_eight_files_beside_its_own():
    """A kind that is derived from another one: `model/windows/kinds.py` with its row, `time_interval_window.py` and
    `window_kind.py` with the members that it changes, `engine/windows/event_time/panes.py` with its arithmetic, whose
    flag `engine/operators/aggregate/event_time_aggregate.py` sets, and `config/syntax/other_systems.py`, which knows it
    by the words of other systems.
    """
    word = re.compile(r"\b(Cumulate|cumulate|cumulating)\b")
    files = [name_of(path) for path in MODULES if word.search(path.read_text())]
    assert len(set(files) - {"model/windows/cumulate_window.py"}) <= MAX_FILES_OF_A_KIND, files


#: words that say nothing of what a local holds
EMPTY_WORDS = {"found", "one", "of", "made", "known", "given", "there"}


def locals_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that a function binds: its parameters, and its locals with those of its comprehensions."""
    bound = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bound | {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}


def test_a_local_is_named_by_what_it_holds():
    """A few functions are free, so that a short word may stay where no better one is found."""
    words = Counter(
        word
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for word in EMPTY_WORDS & locals_in(node)
    )
    assert max(words.values(), default=0) <= MAX_EMPTY_WORDS, words


#: the items of the list of storage strategies
STRATEGY = re.compile(r"^\* `(\w+\.py)`", re.MULTILINE)


def test_each_storage_strategy_is_listed_and_has_a_kernel_with_a_function_for_each_window_event():
    text = project_file("docs/architecture.md").read_text(encoding="utf-8")
    modules = STRATEGY.findall(text[text.index("<!-- strategies -->") : text.index("<!-- end of strategies -->")])
    kernels = {path.name for path in (PACKAGE / "engine/contents").glob("*.py") if "def run(" in path.read_text()}
    assert set(modules) == kernels
    for module in modules:
        defined = {
            node.name
            for node in ast.parse((PACKAGE / "engine/contents" / module).read_text()).body
            if isinstance(node, ast.FunctionDef)
        }
        assert {"_insert", "_room", "_fire", "run"} <= defined
        assert {"_evict", "_clear"} & defined
