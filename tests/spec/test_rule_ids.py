"""docs/rules.md has one row for each rule of docs/reference, and the function and the tests that a row names exist."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from sluice.files import project_file
from tests.docs.markdown import explicit_anchors, fault, links, plain_lines

SERVICE, PAGE, ROOT = project_file("service/sluice"), project_file("docs/rules.md"), project_file("README.md").parent
#: how the ids of a reference are written elsewhere, and the registers whose entries refer to rules
REFERENCES = {
    "spl-windows.md": ("", "ND"),
    "kip450-sliding.md": ("KIP ", "X"),
    "session.md": ("", ""),
    "extensions.md": ("", ""),
    "toolkit.md": ("", ""),
    "marks.md": ("", ""),
    "decimal.md": ("", ""),
    "null.md": ("", ""),
    "functions.md": ("", ""),
    "records.md": ("", ""),
    "protobuf.md": ("", ""),
    "avro.md": ("", ""),
    "structs.md": ("", ""),
    "change-events.md": ("", ""),
}

ID = r"[A-Z]{1,2}\d{1,2}[ab]?(?![\w.])"
LIST = rf"{ID}(?:(?:, | to | and | or ){ID})*"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
#: the rules and the sentence of a row, and perhaps a function and tests
ROW = re.compile(rf"^\| ({LIST}|KIP {LIST}) \| ([^|]+) \|(?: `([\w/]+\.py)` `([\w.]+)` \| (`.*`) \|)?$")


def every_rule() -> Iterator[tuple[str, str]]:
    """The rules of the references and their pages: the anchors, without those of sections and of registers."""
    for page, (prefix, registers) in REFERENCES.items():
        for _, line in plain_lines(project_file(f"docs/reference/{page}").read_text(encoding="utf-8")):
            for anchor in explicit_anchors(line):
                rule = re.fullmatch(r"([a-z]{1,2})(\d+)([ab]?)", anchor)
                if rule and rule[1].upper() not in registers:
                    yield f"{prefix}{rule[1].upper()}{rule[2]}{rule[3]}", page


PAGES = dict(every_rule())
RULES = set(PAGES)


def family(rule: str) -> str:
    return rule.rstrip("0123456789ab")


def ids(text: str) -> set[str]:
    """The rules that a text names: `T4`, `E18 to E20`, and of Kafka's `KIP T4, T5`."""
    named: set[str] = set()
    for kip, found in re.findall(rf"(KIP )?\b({LIST})", text):
        words = re.findall(rf"{ID}|to", found)
        named.update(kip + word for word in words if word != "to")
        for first, to, last in zip(words, words[1:], words[2:], strict=False):
            if to == "to":
                numbers = range(int(re.sub(r"\D", "", first)), int(re.sub(r"\D", "", last)))
                named.update(f"{kip}{family(first)}{n}" for n in numbers)
    return named & RULES


class Row(NamedTuple):
    """A row of the page: its rules as written, its sentence, and, if a function implements them, that and its tests."""

    rules: str
    sentence: str
    file: str | None
    name: str | None
    tests: tuple[str, ...]


def all_rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if found := ROW.match(LINK.sub(r"\1", line)):
            yield Row(found[1], found[2], found[3], found[4], tuple(re.findall(r"`([^`]+)`", found[5] or "")))


def rows() -> Iterator[tuple[set[str], str | None, str | None]]:
    """The rules of each row, and the file and the name of the function; None where no function implements them."""
    for row in all_rows():
        yield ids(row.rules), row.file, row.name


PLACES = [(rule, file, name) for rules, file, name in rows() for rule in sorted(rules) if file and name]
TESTS = [(rule, test) for row in all_rows() for rule in sorted(ids(row.rules)) for test in row.tests]


@cache
def definitions(path: Path) -> dict[str, str]:
    """What a file defines, by its name (`Class.method`), with the comment in front of it."""
    text = path.read_text()
    lines = text.splitlines()

    def within(nodes: list[ast.stmt], outer: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            for name in names(node):
                first = node.lineno
                while first > 1 and lines[first - 2].lstrip().startswith("#"):
                    first -= 1
                yield outer + name, "\n".join(lines[first - 1 : node.end_lineno])
            if isinstance(node, ast.ClassDef):
                yield from within(node.body, f"{outer}{node.name}.")

    return dict(within(ast.parse(text).body, ""))


def names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


@cache
def texts(path: Path) -> set[str]:
    """The text constants of a Python file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@cache
def cases(path: Path) -> dict[str, str | None]:
    """The cases of a JSON file, or of a list of wrong pipeline files, by name, with the rules that they name."""
    if path.suffix == ".json":
        return {case["name"]: case.get("rule") for case in json.loads(path.read_text(encoding="utf-8"))}
    return dict.fromkeys(re.findall(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE))


def missing(test: str, rule: str, root: Path = ROOT) -> str | None:
    """What is wrong with a test of a row, `file::name` or `file::name[parameters]`; None if the test shows the rule."""
    file, _, name = test.partition("::")
    path = root / file
    if not path.is_file():
        return f"no file {file}"
    if path.suffix != ".py":
        found = cases(path)
        if name not in found:
            return f"no case {name} in {file}"
        said = found[name]
        return None if said is None or rule in ids(said) else f"the case {name} says that it shows {said}, not {rule}"
    function, bracket, parameters = name.partition("[")
    if not function.startswith("test_") or function not in definitions(path):
        return f"no test {function} in {file}"
    if bracket and parameters.removesuffix("]") not in texts(path):
        return f"no parameters {parameters.removesuffix(']')} in {file}"
    return None


@pytest.mark.parametrize(("rule", "file", "name"), PLACES, ids=[rule for rule, _, _ in PLACES])
def test_the_function_exists_and_names_the_rule(rule: str, file: str, name: str):
    defined = definitions(SERVICE / file)
    assert name in defined, f"{file} does not define {name}"
    assert rule in ids(defined[name]), f"{name} does not name {rule}"


@pytest.mark.parametrize(("rule", "test"), TESTS, ids=[f"{rule} {test.partition('::')[2]}" for rule, test in TESTS])
def test_the_test_exists_and_shows_the_rule(rule: str, test: str):
    assert missing(test, rule) is None


def test_every_rule_of_the_references_has_one_row():
    listed = [rule for rules, _, _ in rows() for rule in rules]
    assert sorted({rule for rule in listed if listed.count(rule) > 1}) == []
    assert sorted(RULES - set(listed)) == []


def test_the_references_have_the_families_of_rules():
    """So that an anchor of another form is not taken for no rule."""
    own = {family(rule) for rule in RULES if not rule.startswith("KIP ")}
    assert own == {
        *"PCWTSEVAJOKXGHQLYBRZIUFM",
        "AV",
        "BA",
        "CU",
        "DE",
        "DL",
        "EN",
        "EP",
        "ET",
        "FN",
        "KT",
        "NU",
        "PA",
        "PB",
        "PV",
        "RK",
        "ST",
        "SW",
    }
    assert {rule.removeprefix("KIP ")[0] for rule in RULES if rule.startswith("KIP ")} == set("TWREPSHCD")


def test_every_row_is_understood():
    """A row in another form would not be checked."""
    heads = {"rule", "---"}
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert len(lines) - sum(line.split(" | ")[0].strip("| ") in heads for line in lines) == len(list(all_rows()))


def test_every_row_with_a_function_names_a_test_and_every_sentence_is_one():
    assert [row.rules for row in all_rows() if row.name and not row.tests] == []
    assert [row.rules for row in all_rows() if not re.match(r"[`A-Z].*[.)]$", row.sentence)] == []


def test_no_row_names_an_unknown_rule():
    prefixed = [("KIP " if row.rules.startswith("KIP ") else "", row.rules) for row in all_rows()]
    named = {prefix + rule for prefix, rules in prefixed for rule in re.findall(ID, rules)}
    assert sorted(named - RULES) == []


def test_each_id_of_a_row_is_a_link_to_its_rule():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if found := ROW.match(LINK.sub(r"\1", line)):
            linked = re.findall(r"\[([^\]]*)\]\(([^)]*)\)", line.split(" | ")[0])
            page = PAGES[min(ids(found[1]))]
            expected = [(text, f"reference/{page}#{text.removeprefix('KIP ').lower()}") for text, _ in linked]
            assert linked == expected
            assert " ".join(text for text, _ in linked).removeprefix("KIP ").split() == re.findall(ID, found[1])
    assert [link for link in links(PAGE.read_text(encoding="utf-8")) if fault(PAGE, link.target)] == []


def test_each_rule_that_the_divergences_name_is_a_link():
    text = project_file("docs/divergences.md").read_text(encoding="utf-8")
    assert ids(LINK.sub("", text)) == set()


def test_every_rule_that_the_code_names_is_on_the_page():
    named = {rule for path in SERVICE.rglob("*.py") for rule in ids(path.read_text())}
    assert sorted(named - {rule for rules, _, _ in rows() for rule in rules}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("more than the time (S5), before anybody looks (S6, J21)", {"S5", "S6", "J21"}),
        ("(T18 to T20)", {"T18", "T19", "T20"}),
        ("(KIP T7 to T9), (T1)", {"KIP T7", "KIP T8", "KIP T9", "T1"}),
        ("S8a and S8b", {"S8a", "S8b"}),
        ("# noqa: S101, SIM2, UTF-8, T99, E501", set()),
        ("N47, D21, KIP X2", set()),
    ],
)
def test_what_names_a_rule(text: str, expected: set[str]):
    assert ids(text) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("test_x.py::test_one", None),
        ("test_x.py::test_one[two words]", None),
        ("cases.json::a-case", None),
        ("vectors.json::a-vector", None),
        ("wrong.txt::a heading", None),
        ("test_y.py::test_one", "no file test_y.py"),
        ("test_x.py::test_two", "no test test_two in test_x.py"),
        ("test_x.py::helper", "no test helper in test_x.py"),
        ("test_x.py::test_one[three words]", "no parameters three words in test_x.py"),
        ("cases.json::no-case", "no case no-case in cases.json"),
        ("cases.json::another", "the case another says that it shows T2, T3, not T1"),
        ("wrong.txt::heading", "no case heading in wrong.txt"),
    ],
)
def test_a_test_that_is_missing_is_found(test: str, expected: str | None, tmp_path: Path):
    (tmp_path / "test_x.py").write_text('WORDS = "two words"\ndef test_one(): ...\ndef helper(): ...\n')
    (tmp_path / "cases.json").write_text('[{"name": "a-case", "rule": "T1"}, {"name": "another", "rule": "T2, T3"}]')
    (tmp_path / "vectors.json").write_text('[{"name": "a-vector"}]')
    (tmp_path / "wrong.txt").write_text("# a heading\n-x\n")
    assert missing(test, "T1", tmp_path) == expected
