import pytest
from click.testing import CliRunner

from sluice.cli import main
from tests.unit.config.pipeline_files import aggregate


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
        "  stream out: topic out, {n: int64, bids: list<float64>}, marks: header\n"
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
        "pipeline.yaml:8: operators[0].window: expected tumbling, sliding, table, count, time, sinceFirst, delta, "
        "punct, partitioned, partitionAge, partitionCount or tupleCount, "
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


COPY = """
pipeline: {name}
streams:
  in: {{topic: {read}, schema: {{k: string}}}}
  out: {{topic: {write}}}
operators:
  - {{name: copy, map: in, output: [out]}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Writes pipelines, each as (name, input topic, output topic), and calls a command with their folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()

    def call(command, *pipelines, files=("files",)):
        for name, read, write in pipelines:
            (tmp_path / "files" / f"{name}.yaml").write_text(COPY.format(name=name, read=read, write=write))
        return CliRunner().invoke(main, [command, *files])

    return call


@pytest.mark.parametrize("files", [("files",), ("files/a.yaml", "files/b.yaml")], ids=["folder", "files"])
def test_several_right_files_and_the_topics_between_them(folder, files):
    result = folder("check", ("a", "x", "y"), ("b", "y", "z"), files=files)
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == [
        "pipeline a", "pipeline b", "topic y: a -> b",
    ]  # fmt: skip


def test_two_pipelines_that_write_one_topic(folder):
    result = folder("check", ("a", "x", "z"), ("b", "y", "z"))
    assert result.stdout == (
        "files/b.yaml: streams.out.topic: expected a topic that no other pipeline writes (a of files/a.yaml writes "
        'it), got "z"\n'
    )
    assert (result.stderr, result.exit_code) == ("1 problem\n", 1)


def test_a_cycle_of_pipelines_is_a_warning(folder):
    result = folder("check", ("a", "x", "y"), ("b", "y", "x"))
    assert result.stdout.startswith("files/a.yaml: warning: a cycle of pipelines through topics (a -> topic y -> b")
    assert result.exit_code == 0


def test_the_problems_of_each_file_of_a_folder(folder, tmp_path):
    (tmp_path / "files" / "c.yaml").write_text("pipeline: c\n")
    result = folder("check", ("a", "x", "y"))
    assert result.stdout.startswith("files/c.yaml")
    assert result.exit_code == 1


def test_a_folder_without_pipeline_files(folder):
    result = folder("check")
    assert result.stderr == "sluice: files: expected a folder with pipeline files (*.yaml, *.yml)\n"
    assert result.exit_code == 1


def test_a_folder_beside_files_is_a_wrong_call(folder):
    assert folder("check", ("a", "x", "y"), files=("files", "files/a.yaml")).exit_code == 2


def test_explain_describes_each_pipeline_and_what_connects_them(folder):
    result = folder("explain", ("a", "x", "y"), ("b", "y", "x"))
    assert result.exit_code == 0
    heads = [line for line in result.stdout.splitlines() if line.startswith(("pipeline", "topic", "files"))]
    assert heads[:4] == [
        "pipeline a: 1 stage, one query", "pipeline b: 1 stage, one query", "topic y: a -> b", "topic x: b -> a",
    ]  # fmt: skip
    assert heads[4].startswith("files/a.yaml: warning: a cycle of pipelines")


@pytest.mark.usefixtures("only_files")
def test_run_refuses_files_that_disturb_each_other_before_it_starts_anything(folder):
    call = ("files/a.yaml", "files/b.yaml", "--kafka", "bootstrap.servers=nowhere", "--restart", "on-failure")
    result = folder("run", ("a", "x", "z"), ("b", "y", "z"), files=(*call, "--page", "off"))
    assert "expected a topic that no other pipeline writes" in result.stderr
    assert result.exit_code == 1
