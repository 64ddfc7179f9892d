"""One start of a service runs one version of a module (FN15)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.api import class_loader
from sluice.api.class_loader import ClassChangedError
from sluice.spark.pipeline.class_changes import INTERVAL_S, ClassChanges

FIRST, SECOND = "class Named:\n    number = 1\n", "class Named:\n    number = 2\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module that was loaded for its class, as `loaded` of a process."""
    name = "module_that_changes"
    monkeypatch.setattr(class_loader, "_DIGESTS", {})
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{name}.py").write_text(FIRST)
    assert vars(class_loader.resolve(f"{name}:Named", object))["number"] == 1
    return tmp_path / f"{name}.py"


def test_a_module_that_has_not_changed(module: Path):
    module.touch()
    assert not class_loader.changed()
    class_loader.require_same(class_loader.loaded())


def test_a_changed_module_is_found_and_not_loaded_again(module: Path):
    module.write_text(SECOND)
    assert class_loader.changed() == {module.stem: str(module)}
    assert vars(class_loader.resolve(f"{module.stem}:Named", object))["number"] == 1
    module.write_text(FIRST)
    assert not class_loader.changed()


def test_a_module_that_is_removed_is_not_changed(module: Path):
    module.unlink()
    assert not class_loader.changed()


def test_a_process_that_loads_another_content_refuses_it(module: Path):
    of_service = class_loader.loaded() | {"module_of_another_pipeline": "digest"}
    class_loader.require_same(of_service)
    with pytest.raises(ClassChangedError, match=rf"the module {module.stem} \({module}\) has changed since"):
        class_loader.require_same(of_service | {module.stem: "digest of an earlier content"})


def test_a_process_that_inherited_an_earlier_content_loads_that_of_the_service(module: Path):
    module.write_text(SECOND)
    class_loader.forget_others(class_loader.loaded() | class_loader.digests_of([module.stem]))
    assert vars(class_loader.resolve(f"{module.stem}:Named", object))["number"] == 2
    class_loader.require_same(class_loader.digests_of([module.stem]))


def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    now, changed = [0.0], {}
    changes = ClassChanges(lambda: changed, lambda: now[0])

    def messages() -> list[str]:
        now[0] += INTERVAL_S
        changes.look()
        changes.look()
        found = [f"{one.levelname} {one.module_name}" for one in caplog.records]  # type: ignore[attr-defined]
        caplog.clear()
        return found

    assert messages() == []
    changed["m"] = "m.py"
    changes.look()  # not yet
    assert not caplog.records
    assert messages() == ["WARNING m"]
    assert messages() == []
    changed.clear()
    assert messages() == ["INFO m"]
