"""The command that starts Spark's Java process, as `spark-submit` computes it.

`spark-submit` needs two shell scripts and a Java program of their own for it: 0.2 s of each start. The package pins the
version of Spark, with which the result depends on three properties only, so it is written down here, and a test
compares it with the one of `spark-submit`. With another Spark, or one that a user has configured, `spark-submit` is
called.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

#: the jar whose name has the version of Spark for which this module has the command
LAUNCHER = "spark-launcher_2.13-4.2.0.jar"
PROGRAM = "org.apache.spark.deploy.SparkSubmit"
#: packages of Java that Spark opens for reflection
OPENED = (
    "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
    "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
    "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)  # fmt: skip
#: Java's options, without the module jdk.incubator.vector, which `spark-submit` adds: Java warns of it at each start,
#: and only the machine learning of Spark uses it
OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
#: the variables that the scripts add and something reads: Python workers, and the executors of a local cluster
VARIABLES = {"PYTHONHASHSEED": "0", "SPARK_SCALA_VERSION": "2.13"}
#: names of variables with which `spark-submit` may compute another command, and of those with which it does not
CONFIGURED, USUAL = ("SPARK_", "HADOOP_", "YARN_"), {"SPARK_HOME", "SPARK_CONNECT_MODE", *VARIABLES}
#: names of properties with which it does, and what it does not take literally in Java's options
FURTHER = re.compile(r"spark\.driver\.(default.*|extraLibraryPath)")
QUOTED = re.compile(r"""["'\\]|-Xmx""")


def spark_home() -> Path:
    """The folder of PySpark, which is not imported. Raises ModuleNotFoundError if it is not installed."""
    installed = find_spec("pyspark")
    if installed is None:
        message = "No module named 'pyspark'"
        raise ModuleNotFoundError(message, name="pyspark")
    return Path(str(installed.origin)).parent


def temporary_files() -> str:
    """The option that names Java's folder of temporary files. By default Java uses /tmp and ignores TMPDIR."""
    return f"-Djava.io.tmpdir={tempfile.gettempdir()}"


def java_command(
    spark_home: Path, properties: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The command, and the environment in which it is started, for these properties of Spark."""
    settings = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    java = _java(environment)
    if java is None or _is_configured(spark_home, properties, environment):
        return [str(spark_home / "bin" / "spark-submit"), *settings, "pyspark-shell"], dict(environment)
    start = [java, "-cp", _class_path(spark_home, properties), *_options(properties), PROGRAM]
    return [*start, *settings, "pyspark-shell"], {**environment, **VARIABLES}


def _java(environment: Mapping[str, str]) -> str | None:
    home = environment.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java")) if home else "java", path=environment.get("PATH"))


def _is_configured(spark_home: Path, properties: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Whether `spark-submit` may compute another command: this is another Spark, or the user has configured it."""
    return (
        not (spark_home / "jars" / LAUNCHER).exists()
        or (spark_home / "conf").exists()
        or any(name.startswith(CONFIGURED) for name in environment.keys() - USUAL)
        or any(FURTHER.fullmatch(name) for name in properties)
        or QUOTED.search(properties.get("spark.driver.extraJavaOptions", "")) is not None
    )


def _class_path(spark_home: Path, properties: Mapping[str, str]) -> str:
    further, jars = properties.get("spark.driver.extraClassPath", ""), spark_home / "jars"
    own_jars = [spark_home / "conf", *jars.glob("slf4j-api-*.jar"), jars / "*"]
    return os.pathsep.join([*filter(None, [further]), *map(str, own_jars)])


def _options(properties: Mapping[str, str]) -> list[str]:
    heap = properties.get("spark.driver.memory", "1g")
    return [f"-Xmx{heap}", *properties.get("spark.driver.extraJavaOptions", "").split(), *OPTIONS]
