"""A program that prints each kernel that conformance cases need and that was not compiled in advance.

Without arguments everything is compiled first, for all cases; with names of cases the parts of each case's pipeline, in
a process of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from sluice.batch.kernel_warm_up import Work, everything, of_pipeline
from sluice.compiler.kernel_cache import KernelCache
from sluice.testing import run_case
from sluice.testing.one_operator import pipeline_of
from tests.spec.conformance_vectors import Case, all_cases


def main(names: list[str]) -> None:
    if not names:
        print_needed(everything(), all_cases())
    for case in [case for case in all_cases() if case["name"] in names]:
        if not (pid := os.fork()):
            print_needed(of_pipeline(pipeline_of(case)), [case])
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)


def print_needed(parts: Iterable[Work], cases: Iterable[Case]) -> None:
    """Prints each kernel that the cases need beyond those of the parts."""
    for part in parts:
        part()
    load = KernelCache.load_overload

    def reported(self: KernelCache, sig: Any, target_context: Any) -> Any:
        print(self._name, sig)  # noqa: T201
        return load(self, sig, target_context)

    KernelCache.load_overload = reported  # type: ignore[method-assign]
    for case in cases:
        run_case(case)


if __name__ == "__main__":
    main(sys.argv[1:])
