"""A folder of pipeline files that changes between two scans."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sluice.api import class_loader
from sluice.config.load import load
from sluice.running.pipeline_folder import PipelineFolder
from sluice.running.service_options import FolderError, files_in

FILE = """
pipeline: {name}
streams:
  in: {{topic: {read}, schema: {{k: string}}}}
  out: {{topic: {write}}}
operators:
  - {{name: copy, map: in, output: [out]}}
"""


def text(name, read="in", write=""):
    return FILE.format(name=name, read=read, write=write or f"{name}.out")


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = PipelineFolder(path, load)

    def write(self, file: str, content: str) -> None:
        (self.path / file).write_text(content)

    def first(self) -> dict[str, str]:
        return self.shown(self.folder.first())

    def scanned(self) -> dict[str, str] | None:
        """After as many scans as a change needs: the read topic and the file of each pipeline, and the wrong files."""
        found = None
        for _ in range(2):
            found = self.folder.scan() or found
        return None if found is None else self.shown(found)

    def shown(self, found):
        self.wrong = {Path(file).name: problem for file, problem in found.wrong.items()}
        return {
            name: f"{one.pipeline.inputs[0].topic} of {Path(one.file).name}" for name, one in found.wanted.items()
        } | dict.fromkeys(self.wrong, "wrong")


@pytest.fixture
def folder(tmp_path):
    one = Folder(tmp_path)
    one.write("a.yaml", text("a"))
    one.write("b.yml", text("b"))
    return one


BOTH = {"a": "in of a.yaml", "b": "in of b.yml"}


def test_all_files_of_the_folder_but_no_others(folder):
    folder.write("notes.txt", "x")
    folder.write(".hidden.yaml", "x")
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "c.yaml").write_text("x")
    assert folder.first() == BOTH
    assert folder.scanned() is None


def test_the_files_of_a_config_map_are_links(tmp_path):
    """Kubernetes changes all files of a ConfigMap at once, by a link to another folder."""
    mounted = tmp_path / "mounted"
    for version, read in (("..1", "in"), ("..2", "other")):
        (mounted / version).mkdir(parents=True)
        (mounted / version / "c.yaml").write_text(text("c", read))
    (mounted / "..data").symlink_to("..1")
    (mounted / "c.yaml").symlink_to("..data/c.yaml")
    one = Folder(mounted)
    assert one.first() == {"c": "in of c.yaml"}
    (mounted / "..data_tmp").symlink_to("..2")
    (mounted / "..data_tmp").replace(mounted / "..data")
    assert one.scanned() == {"c": "other of c.yaml"}


def test_a_file_that_is_added_or_removed(folder):
    folder.first()
    folder.write("c.yaml", text("c"))
    assert folder.scanned() == {**BOTH, "c": "in of c.yaml"}
    (folder.path / "a.yaml").unlink()
    assert folder.scanned() == {"b": "in of b.yml", "c": "in of c.yaml"}
    assert folder.scanned() is None


def test_a_file_that_is_changed(folder):
    folder.first()
    folder.write("a.yaml", text("a", "other"))
    assert folder.scanned() == {**BOTH, "a": "other of a.yaml"}


def test_a_file_counts_when_two_scans_read_the_same(folder):
    folder.first()
    half = text("c", "other")
    folder.write("c.yaml", half[:40])
    assert folder.folder.scan() is None
    folder.write("c.yaml", half[:90])
    assert folder.folder.scan() is None
    folder.write("c.yaml", half)
    assert folder.folder.scan() is None
    assert folder.shown(folder.folder.scan()) == {**BOTH, "c": "other of c.yaml"}


def test_of_a_file_that_becomes_wrong_the_last_right_version_stays(folder):
    folder.first()
    folder.write("a.yaml", text("a").replace("map", "mop"))
    assert folder.scanned() == {**BOTH, "a.yaml": "wrong"}
    assert "did you mean map?" in folder.wrong["a.yaml"]
    assert folder.scanned() is None, "a change is reported once"
    folder.write("a.yaml", text("a", "other"))
    assert folder.scanned() == {**BOTH, "a": "other of a.yaml"}


def test_the_log_says_that_a_file_is_right_again(folder, caplog):
    caplog.set_level(logging.INFO, "sluice")
    folder.first()
    folder.write("a.yaml", "{")
    folder.scanned()
    assert "the pipeline file is wrong; its last right version goes on" in caplog.text
    assert "not wrong any more" not in caplog.text
    folder.write("a.yaml", text("a"))
    folder.scanned()
    assert "the pipeline file is not wrong any more; its pipeline runs" in caplog.text
    folder.write("c.yaml", "{")
    folder.scanned()
    (folder.path / "c.yaml").unlink()
    folder.scanned()
    assert "the pipeline file is not wrong any more; its pipeline was removed" in caplog.text


def test_a_new_file_that_is_wrong_has_no_pipeline(folder):
    folder.first()
    folder.write("c.yaml", "streams: [")
    assert folder.scanned() == {**BOTH, "c.yaml": "wrong"}
    (folder.path / "c.yaml").unlink()
    assert folder.scanned() == BOTH


def test_wrong_files_at_the_start_leave_the_others_alone(folder):
    folder.write("c.yaml", "streams: [")
    assert folder.first() == {**BOTH, "c.yaml": "wrong"}


@pytest.mark.parametrize(
    ("content", "what"),
    [(text("a"), "a name of its own"), (text("c", write="a.out"), "a topic that no other pipeline writes")],
)
def test_a_new_file_that_would_disturb_a_running_pipeline_is_wrong_whatever_its_name(folder, content, what):
    folder.first()
    folder.write("0.yaml", content)
    assert folder.scanned() == {**BOTH, "0.yaml": "wrong"}
    assert what in folder.wrong["0.yaml"]
    (folder.path / "a.yaml").unlink()
    found = folder.scanned()
    assert "wrong" not in found.values(), "what it would have disturbed is gone"
    assert len(found) == 2


def test_two_files_may_change_their_names_together(folder):
    folder.first()
    folder.write("a.yaml", text("b", "other"))
    folder.write("b.yml", text("a", "other"))
    assert folder.scanned() == {"b": "other of a.yaml", "a": "other of b.yml"}


def test_a_renamed_file_is_another_file_of_the_same_pipeline(folder):
    folder.first()
    (folder.path / "a.yaml").rename(folder.path / "z.yaml")
    assert folder.folder.scan() is None
    assert folder.shown(folder.folder.scan()) == {"a": "in of z.yaml", "b": "in of b.yml"}


def test_a_comment_changes_no_pipeline(folder):
    before = folder.folder.first()
    folder.write("a.yaml", f"# more\n{text('a')}")
    folder.folder.scan()
    after = folder.folder.scan()
    assert after is not None
    assert after.wanted == before.wanted


def test_pipelines_go_on_while_the_folder_is_away(folder, tmp_path):
    folder.first()
    away = tmp_path.with_name(f"{tmp_path.name}-away")
    tmp_path.rename(away)
    assert folder.scanned() == {**BOTH, tmp_path.name: "wrong"}
    assert folder.scanned() is None
    away.rename(tmp_path)
    assert folder.scanned() == BOTH


def test_a_start_needs_the_folder(tmp_path):
    with pytest.raises(FolderError, match=r"nowhere: expected a folder that can be read \(No such file or directory\)"):
        PipelineFolder(tmp_path / "nowhere", load).first()


def test_a_file_that_cannot_be_read_keeps_its_last_version(folder):
    folder.first()
    (folder.path / "a.yaml").unlink()
    (folder.path / "a.yaml").symlink_to("nowhere")
    assert folder.scanned() == {**BOTH, "a.yaml": "wrong"}
    assert "expected a file that can be read" in folder.wrong["a.yaml"]


def test_files_are_in_the_order_of_their_names(folder):
    assert [path.name for path in files_in(folder.path)] == ["a.yaml", "b.yml"]


# ---- modules of classes ----------------------------------------------------------------------------------------------

CLASS = """
class Made:
    signature = "string -> int64"

    def results(self, offsets, values):
        return offsets[1:] * 0 + {number}
"""


def with_class(name: str, module: str) -> str:
    window = "window: 'tumbling, count(2)'"
    return text(name).replace("map: in, output: [out]", f"""aggregate: in, {window}, output:
      {{out: {{n: 'Custom("{module}:Made", k)'}}}}""")  # fmt: skip


def digests(folder: Folder) -> dict[str, tuple[str | None, ...]]:
    """The digests of the modules of each pipeline, after as many scans as a change needs."""
    found = None
    for _ in range(2):
        found = folder.folder.scan() or found
    return {} if found is None else {name: tuple(one.modules.values()) for name, one in found.wanted.items()}


@pytest.fixture
def module(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module beside the pipeline files, which the pipeline `a` uses."""
    name = "module_of_a_folder"
    monkeypatch.setattr(class_loader, "_DIGESTS", {})
    monkeypatch.syspath_prepend(folder.path)
    folder.write(f"{name}.py", CLASS.format(number=1))
    folder.write("a.yaml", with_class("a", name))
    yield name
    sys.modules.pop(name, None)


def test_a_changed_module_changes_the_pipelines_that_use_it(folder: Folder, module: str):
    assert folder.first() == {"a": "in of a.yaml", "b": "in of b.yml"}
    assert folder.scanned() is None
    folder.write(f"{module}.py", CLASS.format(number=22))
    after = digests(folder)
    assert ([len(one) for one in after.values()], class_loader.loaded()) == ([1, 0], {module: after["a"][0]})
    assert sys.modules[module].Made().results(np.arange(3), None).tolist() == [22, 22]
    assert folder.scanned() is None


def test_a_wrong_module_changes_nothing_until_it_is_right(folder: Folder, module: str):
    before = folder.folder.first().wanted["a"]
    folder.write(f"{module}.py", "class Made")
    assert digests(folder)["a"] == tuple(before.modules.values())
    folder.scanned()
    folder.write(f"{module}.py", CLASS.format(number=333))
    (digest,) = digests(folder)["a"]
    assert digest not in (None, before.modules[module])
