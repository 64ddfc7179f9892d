"""The format protobuf in pipeline files: its files, its message, and what `check` says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from grpc_tools import protoc

from sluice.columns.arrow_types import HEADERS
from sluice.config.load import load_text
from sluice.model.errors import SluiceError
from sluice.model.types import parse_type
from sluice.wire.record_codec import Records

ORDER = """syntax = "proto3"; package shop; import "shop/common/money.proto";
  message Order { string id = 1; optional double price = 2; common.Money total = 3; map<string, int64> m = 4; repeated Side s = 5; }
  enum Side { A = 0; }"""  # noqa: E501
MONEY = 'syntax = "proto3"; package shop.common; message Money { int64 units = 1; bytes raw = 2; }'
PLAIN = (
    'syntax = "proto3"; package p; message A { int32 x = 1; message In { string s = 1; } } message B { string y = 1; }'
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop" / "common").mkdir(parents=True)
    (tmp_path / "shop" / "order.proto").write_text("\ufeff" + ORDER, encoding="utf-8")
    (tmp_path / "shop" / "common" / "money.proto").write_text(MONEY, encoding="utf-8")
    (tmp_path / "plain.proto").write_text(PLAIN, encoding="utf-8")
    return tmp_path


def load(folder, stream, output="{topic: o}", given="{}"):
    text = f"""
pipeline: p
streams:
  in: {{topic: i, format: protobuf, {stream}}}
  out: {output}
operators:
  - {{name: m, map: in, output: {{out: {given}}}}}
"""
    return load_text(text, str(folder / "p.yaml")).streams["in"]


def problems(folder, stream, output="{topic: o}", given="{a: 1}"):
    with pytest.raises(SluiceError) as error:
        load(folder, stream, output, given)
    return str(error.value)


ATTRIBUTES = {
    "id": "string", "price": "float64?", "total": "tuple<units: int64, raw: bytes>?", "m": "map<string, int64>",
    "s": "list<string>",
}  # fmt: skip


def test_the_attributes_of_a_message(folder):
    stream = load(folder, "proto: shop/order.proto", given="{a: 1}")
    assert stream.schema == tuple((name, parse_type(type_)) for name, type_ in ATTRIBUTES.items())


def test_files_that_are_imported(folder):
    names = [name for name, _ in load(folder, "proto: shop/order.proto", given="{a: 1}").value.options.files]
    assert names == ["shop/common/money.proto", "order.proto"]


def test_files_that_import_each_other_end(folder):
    (folder / "a.proto").write_text('syntax = "proto3"; import "b.proto"; message A { int32 x = 1; B b = 2; }')
    (folder / "b.proto").write_text('syntax = "proto3"; import "a.proto"; message B { int32 y = 1; }')
    stream = load(folder, "proto: a.proto, schema: {b: 'tuple<y: int64>'}", given="{a: 1}")
    assert stream.value.options.message == "A"


def test_a_descriptor_file(folder):
    arguments = [
        "protoc",
        f"-I{folder}",
        "--include_imports",
        f"--descriptor_set_out={folder}/o.desc",
        "shop/order.proto",
    ]
    assert protoc.main(arguments) == 0
    stream = load(folder, "descriptor: o.desc, message: shop.Order", given="{a: 1}")
    assert stream.schema == tuple((name, parse_type(type_)) for name, type_ in ATTRIBUTES.items())


@pytest.mark.parametrize(("word", "full"), [("p.A", "p.A"), ("B", "p.B"), ("In", "p.A.In")])
def test_the_name_of_the_message(folder, word, full):
    assert load(folder, f"proto: plain.proto, message: {word}", given="{a: 1}").value.options.message == full


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        ("schema: {a: int64}", "streams.in.proto: expected a .proto file, or `descriptor`, as the format is protobuf"),
        ("proto: none.proto", "expected a file that can be read"),
        ("proto: plain.proto", "streams.in.message: expected one of its messages (p.A, p.A.In, p.B)"),
        ("proto: plain.proto, message: C", "streams.in.message: expected one of its messages (p.A, p.A.In, p.B)"),
        ("proto: p.yaml, message: C", "expected a file that can be read"),
        ("descriptor: plain.proto, message: A", "streams.in.descriptor: expected a"),
        ("proto: plain.proto, descriptor: x.desc, message: A", "streams.in.descriptor: expected no descriptor file"),
        ("proto: plain.proto, message: A, schema: {y: int64}", "expected a message with a field y (attribute y)"),
        ("proto: plain.proto, message: A, schema: {x: string}", "a message with string, which int32 does not give"),
        ("proto: plain.proto, message: A, delimiter: ;", "expected no delimiter, as the format is protobuf"),
    ],
)
def test_a_wrong_file(folder, stream, why):
    assert why in problems(folder, stream)


@pytest.mark.parametrize(
    ("output", "given", "why"),
    [
        ("{topic: o, format: protobuf, proto: plain.proto, message: A}", "{x: x}", "int64, which int32 does not hold"),
        ("{topic: o, format: protobuf, proto: plain.proto, message: B}", "{z: x}", "a message with a field z"),
        ("{topic: o, format: json, proto: plain.proto}", "{z: x}", "expected no `.proto` file, as the format is json"),
        ("{topic: o, format: protobuf-confluent}", "{z: x}", "the URL of a schema registry"),
    ],
)
def test_a_wrong_output(folder, output, given, why):
    assert why in problems(folder, "proto: plain.proto, message: A", output, given)


def test_a_key_in_protobuf_and_a_value_in_protobuf(folder):
    stream = load(
        folder,
        "proto: plain.proto, message: A, schema: {x: int64, y: string}, key: {attributes: [y], format: protobuf, "
        "proto: plain.proto, message: B}",
        given="{a: x}",
    )
    records = Records.of(stream, {})
    values, keys = pa.array([b"\x08\x05", b"\x08"], pa.binary()), pa.array([b"\x0a\x01k", b""], pa.binary())
    decoded = records.decode(values, keys, pa.nulls(2, HEADERS))
    assert decoded.tuples.to_pylist() == [{"x": 5, "y": "k"}]
    assert decoded.bad == [(1, "not Protobuf: x: the bytes end in the middle of a field (at byte 0)")]
