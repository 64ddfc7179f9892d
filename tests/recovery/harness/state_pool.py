"""The pool and its state servers without Spark: `python state_pool.py CHECKPOINT [beside]`.

Each line of the standard input is `BUCKET VERSION FIRST COUNT`: a task that feeds the tuples number FIRST and on to a
bucket at a version. The answer is a line of JSON: {"outputs": [...]}, {"failed": ...} where the state server reports a
failure, or {"died": ...} where the task fails because state servers died. With `beside`, every snapshot is written by
a process of its own, as those of large states are.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from sluice.batch.packed_rows import RECORDS, unpack
from sluice.batch.spool import in_memory
from sluice.checkpoint.checkpoint_identity import CheckpointError
from sluice.state.server.pool import start_pool
from sluice.state.server.request import StateServerError, request
from sluice.state.server.state_server import serve
from tests.unit.state.packed_rows import plan_of, rows_of

PLAN = plan_of(Path(sys.argv[1]), buckets=100)
if "beside" in sys.argv[2:]:
    PLAN = replace(PLAN, bounds=replace(PLAN.bounds, snapshot=0))


def fed(number: int, version: int, first: int, count: int) -> dict[str, Any]:
    try:
        answer = request(PLAN, number, version, rows_of(first, count))
    except (StateServerError, CheckpointError) as error:
        return {"failed": str(error)}
    except (EOFError, ConnectionError) as error:
        return {"died": repr(error)}
    rows = in_memory(PLAN.checkpoint, answer)
    values = [unpack(packed)[0].column("value").to_pylist() for kind, packed in rows if kind == RECORDS]
    return {"outputs": [orjson.loads(value) for some in values for value in some if value]}


start_pool(serve)
for line in sys.stdin:
    sys.stdout.write(orjson.dumps(fed(*map(int, line.split()))).decode() + "\n")
    sys.stdout.flush()
