"""docs/rules.md says where the code follows each rule of the references; its places are true, and none is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sluice.files import project_file

SERVICE, PAGE = project_file("service/sluice"), project_file("docs/rules.md")
#: families of rules, and the last number of each: of SPL and of sessions (G), and of Kafka's sliding windows
SPL = {
    "P": 16,
    "C": 6,
    "W": 27,
    "T": 20,
    "S": 20,
    "E": 39,
    "V": 20,
    "A": 26,
    "J": 22,
    "O": 15,
    "K": 18,
    "X": 6,
    "G": 14,
}
KIP = {"T": 11, "W": 11, "R": 6, "E": 10, "P": 6, "S": 6, "H": 12, "C": 6, "D": 14}

ID = r"[A-Z]\d{1,2}[ab]?(?![\w.])"
LIST = rf"{ID}(?:(?:, | to | and | or ){ID})*"
ROW = re.compile(rf"^\| ({LIST}|KIP {LIST}) \| [^|]+ \|(?: `([\w/]+\.py)` `([\w.]+)` \|)?$")


def ids(text: str) -> set[str]:
    """All that a text names: `T4`, `E18 to E20`, and of Kafka's `KIP T4, T5`."""
    named: set[str] = set()
    for kip, found in re.findall(rf"(KIP )?\b({LIST})", text):
        words = re.findall(rf"{ID}|to", found)
        named.update(kip + word for word in words if word != "to")
        for first, to, last in zip(words, words[1:], words[2:], strict=False):
            if to == "to":
                named.update(f"{kip}{first[0]}{n}" for n in range(int(first[1:]), int(last[1:])))
    return {rule for rule in named if is_rule(rule)}


def is_rule(rule: str) -> bool:
    family, number = re.fullmatch(r"([A-Z])(\d+)[ab]?", rule.removeprefix("KIP ")).groups()  # type: ignore[union-attr]
    return 0 < int(number) <= (KIP if rule.startswith("KIP ") else SPL).get(family, 0)


def rows() -> Iterator[tuple[set[str], str | None, str | None]]:
    """The rules of each row, and the file and the name of what follows them; None where nothing is to be done."""
    for line in PAGE.read_text().splitlines():
        if found := ROW.match(line):
            yield ids(found[1]), found[2], found[3]


PLACES = [(rule, file, name) for rules, file, name in rows() for rule in sorted(rules) if file and name]


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


@pytest.mark.parametrize(("rule", "file", "name"), PLACES, ids=[rule for rule, _, _ in PLACES])
def test_the_rule_stands_where_the_page_says(rule: str, file: str, name: str):
    defined = definitions(SERVICE / file)
    assert name in defined, f"{file} does not define {name}"
    assert rule in ids(defined[name]), f"{name} does not name {rule}"


def test_every_rule_of_the_references_is_on_the_page_once():
    listed = [rule for rules, _, _ in rows() for rule in rules]
    assert len(listed) == len(set(listed))
    wanted = {f"{family}{n}" for family, most in SPL.items() for n in range(1, most + 1)}
    wanted |= {f"KIP {family}{n}" for family, most in KIP.items() for n in range(1, most + 1)}
    assert sorted(wanted - set(listed)) == []


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
        ("# noqa: S101, M2, UTF-8, T99, E501", set()),
    ],
)
def test_what_names_a_rule(text: str, expected: set[str]):
    assert ids(text) == expected
