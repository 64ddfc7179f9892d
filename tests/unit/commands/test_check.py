import pytest
from click.testing import CliRunner

from sluice.cli import main
from tests.unit.config.files import aggregate


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(text):
        (tmp_path / "pipeline.yaml").write_text(text)
        return CliRunner().invoke(main, ["check", "pipeline.yaml"])

    return check


def test_a_right_file(checked):
    result = checked(aggregate(output="{n: Count(), bids: Last(bids)}"))
    assert result.output == (
        "pipeline one\n"
        "  stream trades: topic trades, {symbol: string, price: float64, size: int64, time: timestamp, open: boolean, "
        "bids: list<float64>}\n"
        "  stream out: topic out, {n: int64, bids: list<float64>}\n"
        "  operator only: trades -> out\n"
    )
    assert result.exit_code == 0


def test_a_doubtful_file(checked):
    result = checked(aggregate("tumbling, count(0)"))
    assert result.output.startswith("pipeline.yaml:8: operators[0].window: warning: count(0) ignores every tuple")
    assert result.exit_code == 0


def test_a_wrong_file(checked):
    result = checked(aggregate("tumbling, cout(2)"))
    assert result.stdout == (
        "pipeline.yaml:8: operators[0].window: expected tumbling, sliding, count, time, delta, punct, partitioned, "
        "partitionAge, partitionCount or tupleCount, "
        'got "cout(2)" at column 11 (did you mean count(n)?)\n'
    )
    assert result.stderr == "1 problem\n"
    assert result.exit_code == 1


def test_no_file():
    result = CliRunner().invoke(main, ["check", "nowhere.yaml"])
    assert "expected a file that can be read (No such file or directory)" in result.output
    assert result.exit_code == 1


def test_wrong_usage():
    assert CliRunner().invoke(main, ["check"]).exit_code == 2
