"""`sluice run`: which service runs which files, with which options. The services themselves are replaced."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from sluice.cli import main
from sluice.commands import run
from sluice.running import service
from sluice.running.pipeline_folder import Loader, PipelineFolder
from sluice.running.service_options import Restart

pytestmark = pytest.mark.usefixtures("only_files")
FILE = """
pipeline: {name}
streams:
  in: {{topic: in, schema: {{k: string}}}}
  out: {{topic: {name}.out}}
operators:
  - {{name: copy, map: in, output: [out]}}
kafka: {{bootstrap.servers: nowhere}}
{more}
"""


@pytest.fixture
def called(tmp_path, monkeypatch):
    """Calls `sluice run`, and returns what it would run: the pipelines by file, whether changes of files are followed
    (None: a service of one pipeline that ends with it), and the options.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    ran = []
    monkeypatch.setattr(service, "serve", lambda pipeline, file, how, _: ran.append(({file: pipeline}, None, how)))
    monkeypatch.setattr(
        service, "serve_several",
        lambda found, scan, how, _, **__: ran.append((
            {item.file: item.pipeline for item in found.wanted.values()}, scan is not None, how,
        )),
    )  # fmt: skip

    def call(*arguments, a="", b=""):
        (tmp_path / "f" / "a.yaml").write_text(FILE.format(name="a", more=a))
        (tmp_path / "f" / "b.yaml").write_text(FILE.format(name="b", more=b))
        result = CliRunner().invoke(main, ["run", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        (one,) = ran
        return one

    return call


@pytest.mark.parametrize(
    ("arguments", "files", "followed"),
    [
        (["f/a.yaml"], ["f/a.yaml"], None),
        (["f/a.yaml", "f/b.yaml"], ["f/a.yaml", "f/b.yaml"], False),
        (["f"], ["f/a.yaml", "f/b.yaml"], True),
    ],
    ids=["one file", "files", "folder"],
)
def test_files_run_as_they_are_and_a_folder_is_followed(called, arguments, files, followed):
    pipelines, follows, _ = called(*arguments)
    assert (list(pipelines), follows) == (files, followed)


@pytest.mark.parametrize(
    ("arguments", "own", "expected"),
    [
        (["f/a.yaml"], "", "never"),
        (["f/a.yaml"], "restart: on-failure", "on-failure"),
        (["f/a.yaml", "--restart", "never"], "restart: on-failure", "never"),
        (["f/a.yaml", "--restart", "always"], "", "always"),
        (["f/a.yaml", "f/b.yaml"], "", "on-failure"),
        (["f"], "", "on-failure"),
        (["f"], "restart: never", "never"),
        (["f", "--restart", "always"], "restart: never", "always"),
    ],
)
def test_the_option_restart_precedes_the_key_of_the_file_and_that_the_default(called, arguments, own, expected):
    pipelines, follows, how = called(*arguments, a=own)
    assert how.restart_of(pipelines["f/a.yaml"]) == expected
    assert (follows is None) == (len(pipelines) == 1 and expected == "never")


def test_the_checkpoint_of_one_file_is_the_folder_itself(called):
    pipelines, _, _ = called("f/a.yaml", "--checkpoint", "c", "--restart", "always")
    assert pipelines["f/a.yaml"].checkpoint == "c"


def test_the_checkpoints_of_several_files_are_in_the_folder(called):
    pipelines, _, _ = called("f", "--checkpoint", "c", b="checkpoint: elsewhere")
    assert [one.checkpoint for one in pipelines.values()] == ["c/a", "c/b"]


def test_without_the_option_each_file_names_its_checkpoint(called):
    pipelines, _, _ = called("f", b="checkpoint: elsewhere")
    assert [one.checkpoint for one in pipelines.values()] == ["checkpoints/a", "elsewhere"]


@pytest.mark.parametrize(("arguments", "port", "page"), [
    ([], 8080, "local"),
    (["--http-port", "0", "--page", "open"], 0, "open"),
    (["--no-http"], None, "local"),
])  # fmt: skip
def test_port_and_page(called, arguments, port, page):
    _, _, how = called("f/a.yaml", *arguments)
    assert (how.http_port, how.page) == (port, page)


def test_a_folder_and_a_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    result = CliRunner().invoke(main, ["run", "f", "g.yaml"])
    assert result.exit_code == 2
    assert "give one FOLDER, or files" in result.output


def test_one_file_with_standby_is_supervised_and_ends_with_a_failure(called):
    files, followed, how = called("f/a.yaml", "--standby")
    assert ([*files], followed, how.standby, how.restart) == (["f/a.yaml"], False, True, Restart.NEVER)


def test_a_standby_cannot_reset_the_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(FILE.format(name="a", more=""))
    result = CliRunner().invoke(main, ["run", "a.yaml", "--standby", "--reset-ledger"])
    assert result.exit_code == 2
    assert "--reset-ledger cannot be used with --standby" in result.output


@pytest.mark.parametrize("arguments", [["f/a.yaml"], ["f/a.yaml", "f/b.yaml"]], ids=["one file", "files"])
def test_without_a_broker_no_service_is_started(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    started = []
    monkeypatch.setattr(service, "serve", lambda *_: started.append("one"))
    monkeypatch.setattr(service, "serve_several", lambda *_, **__: started.append("several"))
    (tmp_path / "f" / "a.yaml").write_text(FILE.format(name="a", more="").replace("bootstrap.servers", "client.id"))
    (tmp_path / "f" / "b.yaml").write_text(FILE.format(name="b", more=""))
    result = CliRunner().invoke(main, ["run", *arguments])
    assert (result.exit_code, started) == (2, [])
    assert result.output == (
        "sluice: f/a.yaml: kafka: expected the property bootstrap.servers (host:port of a broker), got none; give it "
        "in the file, or with --kafka bootstrap.servers=HOST:PORT\n"
    )


def test_a_broker_may_come_from_the_command_line(called):
    pipelines, _, _ = called("f", "--kafka", "bootstrap.servers=here")
    assert {one.settings.kafka["bootstrap.servers"] for one in pipelines.values()} == {"here"}


def test_in_a_folder_a_file_without_a_broker_is_a_wrong_file(tmp_path):
    (tmp_path / "a.yaml").write_text(FILE.format(name="a", more="").replace("bootstrap.servers", "client.id"))
    (tmp_path / "b.yaml").write_text(FILE.format(name="b", more=""))
    found = PipelineFolder(tmp_path, Loader({}, None, lambda _: None)).first()
    assert list(found.wanted) == ["b"]
    assert "expected the property bootstrap.servers" in found.wrong[str(tmp_path / "a.yaml")]


def test_files_that_cannot_be_read_are_named_before_java_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "start", lambda *_, **__: pytest.fail("Java would start"))
    result = CliRunner().invoke(main, ["run", "nowhere.yaml", "nor/here.yaml"])
    assert result.exit_code == 1
    assert (
        'nowhere.yaml: expected a file that can be read (No such file or directory), got "nowhere.yaml"'
        in result.output
    )
    assert "nor/here.yaml: expected a file that can be read" in result.output
