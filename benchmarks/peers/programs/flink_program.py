"""The workloads in Flink SQL: python flink_program.py JARS, with the environment of a Task."""

import os
import sys
import time

from pyflink.table import EnvironmentSettings, TableEnvironment

WORKLOAD, RUN = os.environ["WORKLOAD"], os.environ["RUN"]
KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = '{}', 'topic' = '{}', 'key.format' = 'raw', \
'key.fields' = 'k', 'value.format' = 'json'"
SETTINGS = {
    "pipeline.jars": sys.argv[1],
    "parallelism.default": "2",
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.dir": f"file://{os.environ['FOLDER']}/checkpoints",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
    "pipeline.object-reuse": "true",
}
OVER = """SELECT k, COUNT(*) OVER x, SUM(v) OVER x, MAX(v) OVER x, w FROM records
WINDOW x AS (PARTITION BY k ORDER BY {} PRECEDING AND CURRENT ROW)"""
QUERIES = {
    "pass": "SELECT k, v, ts, w FROM records",
    "tumble": """SELECT k, COUNT(*), SUM(v), MAX(v), CAST(NULL AS DOUBLE)
        FROM TUMBLE(TABLE records, DESCRIPTOR(event_time), INTERVAL '10' SECOND)
        GROUP BY k, window_start, window_end""",
    # The order of arrival, as a count window has it.
    "slide": OVER.format("arrival ROWS BETWEEN 99"),
    "slidetime": OVER.format("event_time RANGE BETWEEN INTERVAL '10' SECOND"),
    "join": """SELECT a.k, CAST(1 AS BIGINT), a.v + b.v, GREATEST(a.v, b.v), a.w FROM records a, others b
        WHERE a.k = b.k
        AND a.event_time BETWEEN b.event_time - INTERVAL '10' SECOND AND b.event_time + INTERVAL '10' SECOND""",
}


def kafka(topic):
    return KAFKA.format(os.environ["BOOTSTRAP"], topic)


def source(table, topic):
    environment.execute_sql(f"""CREATE TABLE {table} (
        k STRING, v DOUBLE, ts BIGINT, w DOUBLE, arrival AS PROCTIME(),
        event_time AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR event_time AS event_time) WITH ({kafka(topic)},
        'scan.startup.mode' = 'earliest-offset', 'properties.group.id' = '{RUN}')""")


os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for key, value in SETTINGS.items():
    environment.get_config().set(key, value)
source("records", os.environ["INPUT"])
if WORKLOAD == "join":
    source("others", os.environ["SECOND_INPUT"])
columns = "v DOUBLE, ts BIGINT, w DOUBLE" if WORKLOAD == "pass" else "n BIGINT, s DOUBLE, m DOUBLE, w DOUBLE"
environment.execute_sql(f"""CREATE TABLE results (k STRING, {columns}) WITH ({kafka(os.environ["OUTPUT"])},
    'value.json.encode.ignore-null-fields' = 'true', 'properties.compression.type' = 'lz4',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{RUN}',
    'properties.transaction.timeout.ms' = '60000')""")
job = environment.execute_sql("INSERT INTO results " + QUERIES[WORKLOAD]).get_job_client()
while "RUNNING" not in str(job.get_job_status().result()):
    time.sleep(0.05)
print("FIRST", flush=True)
while True:
    time.sleep(1)
