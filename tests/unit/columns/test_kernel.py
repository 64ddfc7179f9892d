"""How kernels are compiled."""

from __future__ import annotations

import numpy as np

from sluice.columns.kernel import inlined, kernel


@inlined
def shifted(row, by, twice):
    return row + by + by if twice else row + by


@kernel
def shift_all(rows, small):
    total = shifted(rows[0], 1, False)  # noqa: FBT003 - numba's literals are positional
    total += shifted(small[0], 2, True)  # noqa: FBT003
    total += shifted(row=small[1], by=rows[1], twice=rows[0] > 3)
    return total


def test_a_function_has_one_version_for_all_widths_and_constants():
    shift_all._cache.flush()  # noqa: SLF001 - code from an earlier run of this test has no versions of its callees
    rows, small = np.array([5, 10**12]), np.array([-(2**31), 7], np.int32)
    assert shift_all(rows, small) == (5 + 1) + (-(2**31) + 4) + (7 + 2 * 10**12)
    (signature,) = shifted.signatures
    assert [str(kind) for kind in signature] == ["int64", "int64", "bool"]


def test_python_code_can_call_an_inlined_function():
    for _ in range(2):
        assert shifted(1, 2, True) == 5  # noqa: FBT003
