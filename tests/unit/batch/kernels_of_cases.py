"""A program that compiles everything, then prints each kernel that a conformance case needs beyond it."""

from __future__ import annotations

from typing import Any

from sluice.batch.kernel_warm_up import everything
from sluice.compiler.kernel_cache import KernelCache
from sluice.testing import run_case
from tests.spec.conformance_vectors import all_cases


def main() -> None:
    for part in everything():
        part()
    load = KernelCache.load_overload

    def reported(self: KernelCache, sig: Any, target_context: Any) -> Any:
        print(self._name, sig)  # noqa: T201
        return load(self, sig, target_context)

    KernelCache.load_overload = reported  # type: ignore[method-assign]
    for case in all_cases():
        run_case(case)


if __name__ == "__main__":
    main()
