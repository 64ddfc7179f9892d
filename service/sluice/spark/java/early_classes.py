"""Lets Java load classes of Spark before a session needs them: Java is up while the service still imports modules."""

from __future__ import annotations

import logging
import threading

from py4j.java_gateway import GatewayParameters, JavaGateway  # type: ignore[import-untyped]

LOGGER = logging.getLogger("sluice.spark")

#: classes whose static initialisers take half of the time of a session: the settings of Spark SQL, the reflection of
#: Scala, the functions of SQL, and the texts of errors. None of them depends on the properties of the session
CLASSES = (
    "org.apache.spark.sql.internal.SQLConf$",
    "org.apache.spark.sql.catalyst.ScalaReflection$",
    "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$",
    "org.apache.spark.SparkThrowableHelper$",
)


def load_early(port: int, secret: str) -> None:
    """Initialises CLASSES in the Java process whose gateway is at this port. It takes 0.6 s.

    An error is only logged, also if Java ends meanwhile: the session loads missing classes itself.
    """
    log, this_thread = logging.getLogger("py4j.java_gateway"), threading.get_ident()

    def of_another_thread(record: logging.LogRecord) -> bool:
        return record.thread != this_thread

    log.addFilter(of_another_thread)  # py4j logs each error with a stack trace
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        for name in CLASSES:
            gateway.jvm.java.lang.Class.forName(name)
    except Exception as error:  # noqa: BLE001 - whatever it is
        LOGGER.debug("the classes of Spark are not loaded early: %s", error)
    finally:
        gateway.close()
        log.removeFilter(of_another_thread)
