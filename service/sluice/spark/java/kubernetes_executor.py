"""The program of an executor's container on Kubernetes: it becomes the Java process of Spark's executor.

Spark starts the containers of executors with variables of the environment and the argument `executor`. In Spark's own
image a shell script reads them; in the image of Sluice it is this module, which the template of the pods names:

    command: [tini, --, python, -m, sluice.spark.java.kubernetes_executor]

The names of the variables are those of org.apache.spark.deploy.k8s.Constants, and the arguments those of
KubernetesExecutorBackend.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from sluice.spark.java.java_command import OPTIONS, VARIABLES, spark_home, temporary_files

PROGRAM = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
#: option of the program -> variable that has its value
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
MEMORY, CLASS_PATH = "SPARK_EXECUTOR_MEMORY", "SPARK_CLASSPATH"
#: the name of a variable with one of Java's options
OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(environment: Mapping[str, str]) -> list[str]:
    """The command of the executor. Raises SystemExit if Spark has not set the variables."""
    if lacking := sorted({MEMORY, *ARGUMENTS.values()} - environment.keys()):
        message = (
            f"sluice: this program is for the pods that Spark starts as executors on Kubernetes: {', '.join(lacking)} "
            "is not set. The service is started with `sluice run FILE`"
        )
        raise SystemExit(message)
    memory = environment[MEMORY]
    path = os.pathsep.join([*filter(None, [environment.get(CLASS_PATH)]), str(spark_home() / "jars" / "*")])
    arguments = [part for option, name in ARGUMENTS.items() for part in (option, environment[name])]
    return ["java", f"-Xms{memory}", f"-Xmx{memory}", temporary_files(), *OPTIONS, *_options(environment),
            "-cp", path, PROGRAM, *arguments]  # fmt: skip


def _options(environment: Mapping[str, str]) -> Iterator[str]:
    """Java's options of `spark.executor.extraJavaOptions` and of Spark itself, in their order; these win."""
    numbers = {int(match[1]): value for name, value in environment.items() if (match := OPTION.fullmatch(name))}
    yield from (numbers[number] for number in sorted(numbers))


def main() -> None:
    """Becomes Java, which gets the signals of the pod."""
    program, *arguments = command(os.environ)
    environment = {**os.environ, **VARIABLES, "SPARK_HOME": str(spark_home())}
    os.execvpe(program, [program, *arguments], environment)  # noqa: S606 - Spark's script does the same


if __name__ == "__main__":
    main()
