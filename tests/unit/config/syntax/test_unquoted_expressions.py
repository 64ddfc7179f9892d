"""Which quotes a line needs that YAML cannot read."""

from __future__ import annotations

import pytest

from sluice.config.syntax.unquoted_expressions import quoted_line

LINES = {
    """where: "ok" == status""": """where: '"ok" == status'""",
    """where: "status == "ok"" """.strip(): """where: 'status == "ok"'""",
    """where: 'ok' == status""": """where: "'ok' == status\"""",
    """where: 'ok' == status + "x" """.strip(): """where: '''ok'' == status + "x"'""",
    """size: x > 5 ? "large" : "small" """.strip(): """size: 'x > 5 ? "large" : "small"'""",
    """- where: "ok" == status""": """- where: '"ok" == status'""",
    """{a: x, b: x > 5 ? "y" : "n", c: "Max(x, y)"}""": """{a: x, b: 'x > 5 ? "y" : "n"', c: "Max(x, y)"}""",
    """out: {a: f(x, 'y'), b: g("z", 'w')}""": """out: {a: "f(x, 'y')", b: 'g("z", ''w'')'}""",
    "where: x > 5": None,
    "where: [": None,
    """where: "ok" is not an expression""": None,
    """"ok" == status""": None,
    """where: "ok" == """ + "x" * 1000: None,
}


@pytest.mark.parametrize(("line", "quoted"), LINES.items(), ids=range(len(LINES)))
def test_quoted_line(line: str, quoted: str | None):
    assert quoted_line(line) == quoted
