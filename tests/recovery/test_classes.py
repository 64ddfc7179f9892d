"""Users' classes in a service: a class that hangs (FN14), and a module that is changed while it runs (FN15)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recovery.harness.service import Service

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

FILE = """
streams:
  in: {{schema: {{k: string, number: int64}}}}
  out: {{}}
operators:
  - name: counts
    aggregate: in
    window: tumbling, count(2), partitioned
    partition_by: [k]
    output: {{out: {{k: k, n: 'Custom("{module}:Made", number)'}}}}
class_timeout: 2s
buckets: 2
"""
MODULE = """
class Made:
    signature = "int64 -> int64"

    def results(self, offsets, values):
        while 13 in values.to_pylist():
            pass
        return offsets[1:] * 0 + {number}
"""


def service_with(services: Callable[..., Service], module: str) -> tuple[Service, Path]:
    """A service, and the module beside its pipeline file, which gives 1 for each window."""
    service = services(FILE.format(module=module), arguments=("--master", "local[1]"))
    path = service.folder / f"{module}.py"
    path.write_text(MODULE.format(number=1))
    service.create("in")
    return service, path


def send(service: Service, *numbers: int) -> None:
    service.send("in", [{"k": key, "number": number} for number in numbers for key in "abcd"])


def given(service: Service) -> list[int]:
    """What the windows gave, in ascending order."""
    records = [record for some in service.outputs("out").values() for record in some]
    return sorted(record["tuple"]["n"] for record in records if "tuple" in record)


def test_a_class_that_hangs_ends_the_service_with_exit_code_6(services):
    service, path = service_with(services, "class_that_hangs")
    send(service, 1, 2)
    service.start()
    service.wait_until(lambda: len(given(service)) == 4, "the first windows are there")
    send(service, 13, 14)
    assert service.await_end() == 6
    message = "operator counts: a call of the class class_that_hangs:Made did not return within 2 s (class_timeout)"
    assert service.sentence.startswith("batch ")
    assert message in service.sentence
    path.write_text(MODULE.format(number=2).replace("13", "99"))
    service.start()
    service.wait_until(lambda: len(given(service)) == 8, "the batch is repeated with the mended class")
    service.end()
    assert given(service) == [1] * 4 + [2] * 4


def test_a_class_that_hangs_in_c_ends_the_service_too(services):
    service, path = service_with(services, "class_that_locks")
    lock = "ctypes.PyDLL(None).pthread_mutex_lock(LOCK)"
    path.write_text(
        "import ctypes\nLOCK = ctypes.create_string_buffer(64)\n"
        + MODULE.format(number=1).replace("pass", f"{lock}; {lock}")
    )
    send(service, 1, 2)
    service.start()
    service.wait_until(lambda: len(given(service)) == 4, "the first windows are there")
    send(service, 13, 14)
    assert service.await_end() == 6


def test_a_changed_module_is_used_after_a_restart(services):
    service, path = service_with(services, "class_that_changes")
    send(service, 1, 2)
    service.start()
    service.wait_until(lambda: len(given(service)) == 4, "the first windows are there")
    path.write_text(MODULE.format(number=2))
    service.wait_until(lambda: "a module of a class has changed" in service.log(), "the change is reported")
    service.signal("state")
    send(service, 3, 4)
    service.wait_until(lambda: len(given(service)) == 8, "new state servers go on")
    service.end()
    assert given(service) == [1] * 8
    service.start()
    send(service, 5, 6)
    service.wait_until(lambda: len(given(service)) == 12, "the next start goes on")
    service.end()
    assert given(service) == [1] * 8 + [2] * 4
