"""Arrow works without pandas, and pandas can still be imported."""

import subprocess
import sys

import pytest


def loaded_after(code: str) -> str:
    """Whether pandas is imported after this code, in a new process."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('pandas' in sys.modules)"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip


def test_pyarrow_imports_pandas_with_the_first_array():
    assert loaded_after("import pyarrow; pyarrow.array([1])") == "True"


@pytest.mark.parametrize(
    "code",
    [
        "import sluice.arrow_without_pandas as a; a.keep_pandas_out(); import pyarrow; pyarrow.array([1, None])",
        "import sluice.spark.workers.loaded_modules as m; m.keep_pandas_out()",
        "import sluice.spark.spark_session, pyspark.sql.types as t; t.NumpyArrayConverter().can_convert('a')",
    ],
    ids=["arrays", "the worker's modules", "a call of PySpark into Java"],
)
def test_pandas_is_not_imported(code: str):
    assert loaded_after(code) == "False"


def test_pandas_can_be_imported_later_and_arrow_converts_to_it():
    code = (
        "import sluice.arrow_without_pandas as a; a.keep_pandas_out()\n"
        "import pyarrow; assert pyarrow.array([1, 2]).to_pandas().sum() == 3"
    )
    assert loaded_after(code) == "True"
