"""Each rule of docs/reference stands once. Its page names a function and tests, or says why there are none."""

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
from tests.docs.markdown import explicit_anchors, plain_lines

SERVICE, TESTS = project_file("service/sluice"), project_file("tests/README.md").parent
INDEX = project_file("docs/reference/index.md")
REFERENCES = {page.name: page.read_text(encoding="utf-8") for page in INDEX.parent.glob("*.md") if page != INDEX}
#: how other pages and the code write the ids of a page whose letters other pages have, too
PREFIXES = {"kip450-sliding.md": "KIP "}
#: the list at the end of each page
LAST = "## Functions and tests"

ID = r"[A-Z]{1,2}\d{1,2}[ab]?(?![\w.])"
LIST = rf"{ID}(?:(?:, | to | and | or ){ID})*"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
#: an item of the last list: a file, and rules that its functions have
FILE = re.compile(r"^\* `([\w/]+\.py)`: (.*)$")
#: rules with a function and tests, and what is between them
ENTRY = re.compile(rf"({LIST}) `([\w.]+)`: (`[^`]+`(?:, `[^`]+`)*)")
BETWEEN = re.compile(r"; (?=\[[A-Z])")
#: what a rule begins with, unless it is in a table
BEGIN = re.compile(rf"^(?:\* )?(?:<a [^>]*></a>)+\*\*{LIST}\*\* ")
#: the heading of a list of rules that no function has
WHY = re.compile(r"## .* (without a counterpart|that Sluice does not have)$")
SENTENCE = re.compile(r"[`(*\w].*[.):]")


class Rule(NamedTuple):
    """A rule, its page, the cells behind its id, and whether the page says why no function has it."""

    name: str
    page: str
    cells: tuple[str, ...]
    without_function: bool


def every_rule() -> Iterator[Rule]:
    """The rules of the references: the anchors that look like an id."""
    for page, text in REFERENCES.items():
        heading = ""
        for _, line in plain_lines(text):
            heading = line if line.startswith("#") else heading
            for anchor in explicit_anchors(line):
                if rule := re.fullmatch(r"([a-z]{1,2})(\d+[ab]?)", anchor):
                    begin = BEGIN.match(line)
                    cells = (line[begin.end() :],) if begin else tuple(line.strip("| ").split(" | ")[1:])
                    name = f"{PREFIXES.get(page, '')}{rule[1].upper()}{rule[2]}"
                    yield Rule(name, page, cells, WHY.match(heading) is not None)


ALL = list(every_rule())
RULES = {rule.name: rule for rule in ALL}


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
    return named & set(RULES)


class Row(NamedTuple):
    """An entry of the last list of a page: the rules as written, the file and the name of their function, the tests."""

    page: str
    rules: str
    file: str
    name: str
    tests: tuple[str, ...]

    def ids(self) -> list[str]:
        return [PREFIXES.get(self.page, "") + rule for rule in re.findall(ID, self.rules)]


def last_list(text: str) -> list[tuple[str, str]]:
    """The file of each entry of the last list of a page, empty if it is in no item of a file, and the entry."""
    listed = []
    for line in text.partition(LAST)[2].splitlines():
        if found := FILE.match(line):
            listed += [(found[1], entry) for entry in BETWEEN.split(found[2])]
        elif line.startswith(("* ", "|")):
            listed.append(("", line))
    return listed


def rows() -> Iterator[Row]:
    for page, text in REFERENCES.items():
        for file, entry in last_list(text):
            if found := ENTRY.fullmatch(LINK.sub(r"\1", entry)):
                yield Row(page, found[1], file, found[2], tuple(re.findall(r"`([^`]+)`", found[3])))


PLACES = [(rule, row.file, row.name) for row in rows() for rule in row.ids()]
SHOWN = [(rule, test) for row in rows() for rule in row.ids() for test in row.tests]


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


def missing(test: str, rule: str, tests: Path = TESTS) -> str | None:
    """What is wrong with a test of a row, `file::name` or `file::name[parameters]`; None if the test shows the rule."""
    file, _, name = test.partition("::")
    path = tests / file
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


@pytest.mark.parametrize(("rule", "test"), SHOWN, ids=[f"{rule} {test.partition('::')[2]}" for rule, test in SHOWN])
def test_the_test_exists_and_shows_the_rule(rule: str, test: str):
    assert missing(test, rule) is None


def test_every_rule_stands_once():
    assert len(ALL) == len(RULES)


def test_every_rule_has_one_row_on_its_page_or_a_reason_why_it_has_none():
    listed = [(rule, row.page) for row in rows() for rule in row.ids()]
    assert sorted(listed) == sorted((rule.name, rule.page) for rule in ALL if not rule.without_function)


def test_the_references_have_the_families_of_rules_of_the_index():
    """So that an anchor of another form is not taken for no rule."""
    cells = re.findall(r"^\* (KIP )?([A-Z]{1,2}(?:, [A-Z]{1,2})*): ", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [prefix + name for prefix, families in cells for name in families.split(", ")]
    assert sorted(listed) == sorted({family(rule) for rule in RULES})


@pytest.mark.parametrize("page", sorted(REFERENCES))
def test_the_index_names_every_page_and_every_row_of_a_page_is_understood(page: str):
    """A row in another form would not be checked."""
    assert f"]({page}" in INDEX.read_text(encoding="utf-8")
    assert len(last_list(REFERENCES[page])) == sum(row.page == page for row in rows()) > 0


def test_every_rule_is_a_sentence():
    assert [rule.name for rule in ALL if not SENTENCE.fullmatch(rule.cells[0]) and not of_a_field(rule)] == []


def of_a_field(rule: Rule) -> bool:
    """The rules of the table of Protobuf's types have a field in front of what is read from it."""
    return rule.name in {"PB4", "PB5", "PB6", "PB7"}


@pytest.mark.parametrize("page", sorted(REFERENCES))
def test_each_id_of_a_row_is_a_link_to_its_rule(page: str):
    for _, entry in last_list(REFERENCES[page]):
        cell = entry.partition(" `")[0]
        linked = re.findall(r"\[([^\]]*)\]\(([^)]*)\)", cell)
        assert linked == [(rule, f"#{rule.lower()}") for rule in re.findall(ID, LINK.sub(r"\1", cell))]


def test_each_rule_that_the_divergences_name_is_a_link():
    text = project_file("docs/divergences.md").read_text(encoding="utf-8")
    assert ids(LINK.sub("", text)) == set()


def test_every_rule_that_the_code_names_exists():
    named = re.compile(rf"\((?:KIP )?{LIST}\)|\b[Rr]ules? (?:KIP )?{LIST}")
    texts = [found for path in SERVICE.rglob("*.py") for found in named.findall(path.read_text(encoding="utf-8"))]
    assert sorted(text for text in texts if not all(known(text, rule) for rule in re.findall(ID, text))) == []


def known(text: str, rule: str) -> bool:
    return ("KIP " if "KIP " in text else "") + rule in RULES


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
