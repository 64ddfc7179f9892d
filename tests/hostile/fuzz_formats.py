"""`make fuzz-formats`: a million damaged records for each format, from inputs that were grown by coverage.

For each format, a process with plain Python kernels grows a collection of records by coverage (coverage_growth.py). A
second one decodes changes of these with compiled kernels: each bad record is bad once, with a known reason of few
characters, alone as among others, and the records beside it are as they were. `ARGS="--formats json csv"` takes some.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.config.load import load_text
from sluice.engine.stream.items import TUPLE
from sluice.model.avro_schema import schema_of
from sluice.model.protobuf import proto_fit
from sluice.model.spec import Coding
from sluice.wire.dead_letter_record import Reason, reason
from sluice.wire.decoded_records import Decoded
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.formats.format_contract import Part
from sluice.wire.formats.format_table import codec
from sluice.wire.formats.protobuf_format import ProtobufOptions
from sluice.wire.received_records import Rejects, received
from sluice.wire.record_codec import Records
from tests.hostile.coverage_growth import Growth
from tests.unit.wire.test_any_bytes import ORDINARY, compared, mutant

Decode = Callable[[pa.BinaryArray], Decoded]
#: records that are decoded together, those of them that are decoded alone, too, and the most processor seconds of both
TOGETHER, ALONE, MOST_S = 10_000, 20, 20.0
#: the most characters of a reason, and of a record that is changed further
MOST_REASON, MOST_RECORD = 1_000, 20_000
#: a value of a text format, and values to put in its place
VALUE = re.compile(rb'"[^"]*"|-?\d[\d.eE+-]*|true|false|null|\{\}|\[\]')
VALUES = [
    b"0", b"-0.0", b"1e308", b"1e-400", b"9223372036854775807", b"-9223372036854775809",
    b"0.1234567890123456789012345678",
    b"null", b"true", b"[]", b"{}", b'[{"a":[null]}]', b'""', b'"1"', b'"NaN"',
    rb'"\ud83d\ude00"', rb'"\ud800"', rb'"\u0000"',
    b'"2026-02-30T25:61:61Z"', b'"9999-12-31T23:59:60.999999999+18:00"', b'"AQI"', b"1" * 50, b'"' + b"x" * 300 + b'"',
]  # fmt: skip

# ---- streams with every type and spelling ----------------------------------------------------------------------------

EVERY = """k: string, d: "decimal(20, 4)", s: {id: int64, l: [float64], o: "string?"}, m: "map<string, int64>",
      y: bytes, j: json, o: "int64?", u: "list<int64?>", t: "timestamp?\""""
STREAMS = f"""
pipeline: fuzz
streams:
  every: {{topic: every, schema: {{{EVERY}}}}}
  csv: {{topic: csv, format: csv, schema: {{{EVERY}}}}}
  paths:
    topic: paths
    schema:
      a: {{type: int64, from: "a.b[1]", coerce: true}}
      d: {{type: "decimal(9, 2)", from: a.d, coerce: true}}
      t: {{type: timestamp, from: a.t, unit: ms}}
      p: {{type: timestamp, from: p, pattern: "%Y-%m-%d %H:%M:%S"}}
      w: {{type: json, from: $}}
  changes: {{topic: changes, envelope: debezium, schema: {{id: int64, name: string, price: "decimal(9, 2)?"}}}}
  out: {{topic: out}}
operators:
  - {{name: a, map: every, output: {{out: {{k: k}}}}}}
"""
ROWS = [
    '{"k":"a","d":"1.5","s":{"id":1,"l":[1.5,-0.0],"o":"x"},"m":{"a":1},"y":"AQI=","j":{"z":[1,null]},"o":7,"u":[1]}',
    '{"k":"b","d":"0.0001","s":{"id":1,"l":[]},"m":{},"y":"","j":1.50,"u":[1,null,3],"t":"2026-01-01T00:00:00Z"}',
    '{"k":"","d":"-9999999999999999.9999","s":{"id":0,"l":[]},"m":{},"y":"","j":[],"u":[]}',
]
PATHS = [
    '{"a":{"b":[0,"17"],"d":"1.25","t":1700000000000},"p":"2026-01-31 23:59:59","x":{"y":[[]]}}',
    '{"p":"1999-12-31 00:00:00","a":{"t":-1,"d":3,"b":[true,-5,{}]}}',
]
CHANGES = [
    '{"before":null,"after":{"id":1,"name":"Ann","price":1.5},"source":{"ts_ms":1},"op":"c","ts_ms":2}',
    '{"schema":{"type":"struct"},"payload":{"before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"op":"u"}}',
    '{"op":"r","after":{"name":"x\\u00e9","id":-9223372036854775808}}',
]


def _decode(records: Records, values: pa.BinaryArray) -> Decoded:
    """As the service decodes the records of a batch. A change event that has no tuple counts as bad."""
    nothing = pa.nulls(len(values), pa.binary())
    headers = pa.nulls(len(values), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    batch = pa.RecordBatch.from_arrays([values, nothing, headers], names=["value", "key", "headers"])
    rejects = Rejects(len(values))
    result = received(records, batch, np.zeros(len(values), np.int64), rejects)
    good = rejects.accepted & (result.kind == TUPLE)
    without = np.flatnonzero(rejects.accepted & ~good)
    reasons = dict(rejects.reasons) | dict.fromkeys(map(int, without), reason(Reason.NO_VALUE, "it has no tuple"))
    return Decoded(result.tuples, np.flatnonzero(good), sorted(reasons.items()))


def of_streams() -> Mapping[str, tuple[Decode, pa.BinaryArray]]:
    streams = load_text(STREAMS, "fuzz.yaml", environment=None).streams
    codecs = {name: Records.of(streams[name], {}) for name in ("every", "csv", "paths", "changes")}
    decodes: dict[str, Decode] = {name: partial(_decode, codec) for name, codec in codecs.items()}
    tuples, schema = decodes["every"](texts(ROWS)).tuples, streams["every"].schema
    fields = tuple((name, type_) for name, type_ in schema if name not in "uj")  # no list with nulls, no JSON text
    proto = ProtobufOptions("R", (("", proto_fit.schema_of("R", fields)),))
    avro = codec(Part(Coding("avro", AvroOptions(schema_of("R", schema))), schema))
    protobuf = codec(Part(Coding("protobuf", proto), fields))
    return {
        "json, every type": (decodes["every"], texts(ROWS)),
        "json, paths and spellings": (decodes["paths"], texts(PATHS)),
        "json, change events": (decodes["changes"], texts(CHANGES)),
        "csv, every type": (decodes["csv"], codecs["csv"].encode_values(tuples)),
        "avro, every type": (avro.decode, avro.encode(tuples)),
        "protobuf, every type": (protobuf.decode, protobuf.encode(tuples.select([name for name, _ in fields]))),
    }


def texts(records: Sequence[str]) -> pa.BinaryArray:
    return pa.array([record.encode() for record in records], pa.binary())


def formats() -> dict[str, tuple[Decode, pa.BinaryArray]]:
    return {**ORDINARY, **of_streams()}


# ---- the two processes of a format -----------------------------------------------------------------------------------


def changed(random: Random, inputs: Sequence[bytes], ordinary: Sequence[bytes] = ()) -> bytes:
    """A mutation, half of them of `ordinary` inputs; sometimes the beginning of one input with the end of another."""
    chosen = ordinary if ordinary and random.randrange(2) else inputs
    if random.randrange(2):
        return gentle(random, random.choice(chosen), random.choice(inputs))[:MOST_RECORD]
    if random.randrange(4):
        return mutant(random, chosen)[:MOST_RECORD]
    one, other = random.choice(inputs), random.choice(inputs)
    return (one[: random.randrange(len(one) + 1)] + other[random.randrange(len(other) + 1) :])[:MOST_RECORD]


def gentle(random: Random, data: bytes, other: bytes) -> bytes:
    """The input with another value, number or text, at one place, or with one byte that is one more or less."""
    values = list(VALUE.finditer(data))
    if not values or not random.randrange(3):
        at = random.randrange(max(len(data), 1))
        return data[:at] + bytes([(byte + random.choice((-1, 1))) % 256 for byte in data[at : at + 1]]) + data[at + 1 :]
    place = random.choice(values)
    new = random.choice([*VALUES, *VALUE.findall(other)])
    return data[: place.start()] + new + data[place.end() :]


def grown(name: str, seconds: float, seed: int) -> dict[str, Any]:
    decode, records = formats()[name]
    growth: Growth[bytes] = Growth(lambda value: decode(pa.array([value], pa.binary())), changed, Random(seed))
    growth.start(records.to_pylist())
    before = len(growth.steps)
    growth.grow(seconds)
    inputs = [value.hex() for value in growth.inputs]
    return {"inputs": inputs, "ways": [before, len(growth.steps)], "runs": growth.runs}


def found(name: str, inputs: Sequence[bytes], cases: int, seed: int) -> dict[str, Any]:
    """What was wrong with so many changes of these inputs."""
    decode, records = formats()[name]
    random, bad, wrong, longest, ordinary = Random(seed), 0, [], 0.0, records.to_pylist()
    for start in range(0, cases, TOGETHER):
        mutants = [changed(random, inputs, ordinary) for _ in range(min(TOGETHER, cases - start))]
        began = time.process_time()
        try:
            reasons = compared(decode, records, mutants)
            assert all(len(reason) <= MOST_REASON for reason in reasons.values())
            alone(decode, mutants, reasons)
        except Exception as error:  # noqa: BLE001 - whatever a decoder raises is a finding
            wrong.append(f"{type(error).__name__}: {error}"[:500] + f" ({culprit(decode, records, mutants)})")
            continue
        longest = max(longest, time.process_time() - began)
        bad += len(reasons)
    if longest > MOST_S:
        wrong.append(f"{TOGETHER} records took {longest:.1f} s")
    return {"bad": bad, "wrong": wrong}


def alone(decode: Decode, mutants: Sequence[bytes], reasons: Mapping[int, str]) -> None:
    """The first of the records have the reasons that they have among others."""
    for number, value in enumerate(mutants[:ALONE]):
        expected = [reasons[number]] if number in reasons else []
        assert [reason for _, reason in decode(pa.array([value], pa.binary())).bad] == expected, value


def culprit(decode: Decode, records: pa.BinaryArray, mutants: Sequence[bytes]) -> str:
    for value in mutants:
        try:
            compared(decode, records, [value])
        except Exception:  # noqa: BLE001
            return value.hex()[:2000]
    return "no record alone"


# ---- all formats -----------------------------------------------------------------------------------------------------


def child(name: str, options: argparse.Namespace, *more: str, jit: bool, given: str = "") -> dict[str, Any]:
    """The answer of a process of its own: a crash or a hang of it is a finding."""
    command = [
        sys.executable,
        "-m",
        "tests.hostile.fuzz_formats",
        "--seed",
        str(options.seed),
        "--formats",
        name,
        *more,
    ]
    environment = os.environ | ({} if jit else {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"})
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"wrong": [f"the process ended with {done.returncode}: {done.stderr[-1000:]}"], "bad": 0}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def row(name: str, options: argparse.Namespace) -> list[str]:
    """Prints the row of a format. Returns what was wrong."""
    began = time.monotonic()
    growth = child(name, options, "--grow", str(options.growth), jit=False)
    if "inputs" not in growth:
        return [f"{name}: {growth['wrong'][0]}"]
    seconds = time.monotonic() - began
    cases = child(name, options, "--cases", str(options.cases), "--here", jit=True, given=json.dumps(growth["inputs"]))
    first, last = growth["ways"]
    print(  # noqa: T201
        f"| {name} | {growth['runs']:,} | {len(growth['inputs']):,} | {first:,} | {last:,} | {options.cases:,} "
        f"| {cases['bad']:,} | {seconds:.0f} + {time.monotonic() - began - seconds:.0f} | {len(cases['wrong'])} |",
        flush=True,
    )
    return [f"{name}: {what}" for what in cases["wrong"]]


HEAD = (
    "| format | runs with coverage | inputs kept | ways of the first inputs | ways of all | inputs, compiled "
    "| of these dead letters | s | findings |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz-formats", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="inputs of each format")
    parser.add_argument("--growth", type=float, default=30.0, help="processor seconds of the growth of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--formats", nargs="*")
    parser.add_argument("--grow", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.formats or [*formats()]
    if options.grow is not None or options.here:
        (name,) = names
        answer = grown(name, options.grow, options.seed) if options.grow is not None else _found_here(name, options)
        print(json.dumps(answer))  # noqa: T201
        return 0
    print(HEAD, flush=True)  # noqa: T201
    wrong = [what for name in names for what in row(name, options)]
    if wrong:
        file = Path("build") / "fuzz-formats.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(wrong))
        print(*wrong, f"The findings are in {file}.", sep="\n")  # noqa: T201
    return 1 if wrong else 0


def _found_here(name: str, options: argparse.Namespace) -> dict[str, Any]:
    return found(name, [bytes.fromhex(value) for value in json.load(sys.stdin)], options.cases, options.seed)


if __name__ == "__main__":
    sys.exit(main())
