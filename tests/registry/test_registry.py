"""Avro with a schema registry, in Confluent's wire format: the same with a real registry and with a small one."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sluice.columns.arrow_types import arrow_schema
from sluice.config.load import load_text
from sluice.model.spec import Coding, Stream
from sluice.model.types import FLOAT64, INT64, STRING
from sluice.wire.formats.avro_format import AvroOptions
from sluice.wire.record_codec import Records
from sluice.wire.schema_registry import Registry, RegistryError
from tests.registry.servers import Small, apicurio, small

SCHEMA = (("symbol", STRING), ("size", INT64))
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    with apicurio() as url:
        yield url


@pytest.fixture
def server() -> Iterator[Small]:
    with small() as one:
        yield one


@pytest.fixture(params=["small", pytest.param("real", marks=pytest.mark.registry)])
def url(request) -> str:
    return request.getfixturevalue("server").url if request.param == "small" else request.getfixturevalue("real")


@pytest.fixture
def client(request) -> Iterator[SchemaRegistryClient]:
    """Confluent's own, of the registry that the test has."""
    where = "url" if "url" in request.fixturenames else "real"
    with SchemaRegistryClient({"url": request.getfixturevalue(where)}) as one:
        yield one


@pytest.fixture
def name(request) -> str:
    """A topic that no other test uses."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def records(url, topic, schema=SCHEMA, text=None, **properties):
    stream = Stream("s", schema, topic, Coding("avro-confluent", AvroOptions(text)), defaults=(("size", 0),))
    return Records.of(stream, {"url": url, "max.retries": "1", **properties})


def decode(these, values):
    nothing = pa.nulls(len(values), pa.binary()), pa.nulls(len(values), HEADERS)
    return these.decode(pa.array(values, pa.binary()), *nothing)


def rows(*values, schema=SCHEMA):
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*values, strict=True), arrow_schema(schema), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))


def avro(**fields):
    listed = [
        {"name": n, **({"type": f[0], "default": f[1]} if isinstance(f, tuple) else {"type": f})}
        for n, f in fields.items()
    ]
    return json.dumps({"type": "record", "name": "Trade", "fields": listed})


def framed(number, schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_what_is_written_is_registered_and_read_by_its_id(url, name):
    these = records(url, name)
    values = these.encode_values(rows(("IBM", 7), ("é", -1)))
    assert decode(these, values.to_pylist()).tuples.to_pylist() == [
        {"symbol": "IBM", "size": 7},
        {"symbol": "é", "size": -1},
    ]
    assert values[0].as_py()[0] == 0
    assert values[0].as_py()[:5] == values[1].as_py()[:5]


@pytest.mark.registry
def test_confluents_own_deserializer_reads_it_and_its_serializer_is_read(real, name, client):
    these = records(real, name)
    (value,) = these.encode_values(rows(("IBM", 7))).to_pylist()
    context = SerializationContext(name, MessageField.VALUE)
    assert AvroDeserializer(client)(value, context) == {"symbol": "IBM", "size": 7}
    assert client.get_latest_version(f"{name}-value").schema_id == int.from_bytes(value[1:5], "big")
    theirs = AvroSerializer(client, avro(size="int", venue="string", symbol="string"))
    other = SerializationContext(f"{name}-other", MessageField.VALUE)
    sent = theirs({"size": 3, "venue": "X", "symbol": "A"}, other)
    assert decode(these, [sent]).tuples.to_pylist() == [{"symbol": "A", "size": 3}]


@pytest.mark.registry
def test_schemas_that_name_others(real, name, client):
    inner = json.dumps({"type": "enum", "name": "shared.Colour", "symbols": ["RED", "GREEN"]})
    client.register_schema(f"{name}-colour", Schema(inner, "AVRO"))
    outer = avro(symbol="shared.Colour", size="long")
    number = client.register_schema(
        f"{name}-value", Schema(outer, "AVRO", [SchemaReference("shared.Colour", f"{name}-colour", 1)])
    )
    value = b"\0" + number.to_bytes(4, "big") + b"\x02\x0e"
    assert decode(records(real, name), [value]).tuples.to_pylist() == [{"symbol": "GREEN", "size": 7}]


def test_schemas_evolve_within_a_batch(url, name, client):
    schemas = [
        avro(symbol="string", size="int"),
        avro(symbol="string"),
        avro(venue=("string", "X"), size=["null", "long"], symbol="string"),
    ]
    numbers = [client.register_schema(f"{name}-{i}-value", Schema(schema, "AVRO")) for i, schema in enumerate(schemas)]
    values = [
        framed(numbers[0], schemas[0], {"symbol": "a", "size": 1}),
        framed(numbers[2], schemas[2], {"venue": "Y", "size": None, "symbol": "c"}),
        framed(numbers[1], schemas[1], {"symbol": "b"}),
        framed(numbers[0], schemas[0], {"symbol": "d", "size": 4}),
    ]
    found = decode(records(url, name), values)
    assert found.bad == []
    assert [tuple(row.values()) for row in found.tuples.to_pylist()] == [("a", 1), ("c", 0), ("b", 0), ("d", 4)]
    own = records(
        url, name, text=avro(symbol="string", size=("double", 2.5)), schema=(("symbol", STRING), ("size", FLOAT64))
    )
    plain = [tuple(row.values()) for row in decode(own, values[:1] + values[2:]).tuples.to_pylist()]
    assert plain == [("a", 1.0), ("b", 0), ("d", 4.0)]  # the file's default comes before the schema's


def test_bad_records_are_set_aside_one_by_one(url, name):
    these = records(url, name)
    (good,) = these.encode_values(rows(("a", 1))).to_pylist()
    found = decode(these, [good, b"", b"\0\0\0", b"\1" + good[1:], b"\0\x00\xff\xff\xff\x02", good[:-1], good])
    assert found.good.tolist() == [0, 6]
    assert [reason.partition(":")[0] for _, reason in found.bad] == [
        "not Avro", "not Avro", "not Avro", "unknown schema", "not Avro",
    ]  # fmt: skip
    assert found.bad[3][1] == "unknown schema: the registry has no schema 16777215"


def test_a_schema_that_is_not_registered_is_refused_where_the_file_says_so(url, name):
    these = records(url, name, **{"auto.register.schemas": "false"})
    with pytest.raises(RegistryError, match=f"has no schema like this one under the subject {name}-value"):
        these.encode_values(rows(("a", 1)))
    records(url, name).encode_values(rows(("a", 1)))
    assert these.encode_values(rows(("a", 1))).to_pylist()


# ---- what only the small one does ------------------------------------------------------------------------------------


def test_each_schema_is_asked_for_once(server):
    these = records(server.url, "once")
    values = these.encode_values(rows(("a", 1), ("b", 2))).to_pylist()
    for _ in range(3):
        decode(these, values)
        these.encode_values(rows(("a", 1)))
    assert [path.split("?")[0] for path, _ in server.requests] == ["/subjects/once-value/versions", "/schemas/ids/1"]


def test_an_unknown_id_is_asked_for_again_in_the_next_batch(server):
    these = records(server.url, "again")
    value = framed(1, avro(symbol="string", size="long"), {"symbol": "a", "size": 1})
    assert decode(these, [value]).bad
    server.schemas.append(avro(symbol="string", size="long"))
    assert not decode(these, [value]).bad


def test_a_passing_trouble_is_waited_out(server):
    server.failures = [503]
    these = records(server.url, "passing", **{"retries.wait.ms": "1"})
    assert these.encode_values(rows(("a", 1))).to_pylist()


def test_a_registry_that_stays_down_is_an_error_and_no_dead_letter():
    with small() as gone:
        url = gone.url
    these = records(url, "down", **{"max.retries": "0"})
    with pytest.raises(RegistryError, match=f"the registry at {url} does not answer"):
        decode(these, [b"\0\0\0\0\1\2"])


def test_a_registry_that_refuses_says_why(server):
    server.failures = [401]
    with pytest.raises(RegistryError, match=f"the registry at {server.url} refuses a request: not today"):
        records(server.url, "refused").encode_values(rows(("a", 1)))


def test_the_password_is_sent_and_never_shown(server):
    text = f"""
pipeline: p
streams:
  in: {{topic: in, format: avro-confluent, schema: {{a: int64}}}}
  out: {{topic: out}}
operators:
  - {{name: m, map: in, output: [out]}}
registry: {{url: "{server.url}", basic.auth.user.info: "${{WHO}}"}}
"""
    pipeline = load_text(text, "p.yaml", environment={"WHO": "user:secret"})
    assert "secret" not in repr(pipeline)
    Registry(tuple(pipeline.settings.registry.items())).id_of("a-value", avro(a="long"))
    ((_, headers),) = server.requests
    assert headers.get("Authorization", headers.get("authorization")) == "Basic dXNlcjpzZWNyZXQ="
