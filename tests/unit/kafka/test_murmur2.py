import pyarrow as pa
import pytest

from sluice.columns.key_bytes import murmur2, partition_for

#: from Kafka's own test of Utils.murmur2
VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"1": -1993445489,
    b"12": 126087238,
    b"123": -267702483,
    b"1234": -1614185708,
    b"12345": -1188365604,
    b"": 275646681,
}


def test_hashes_are_those_of_kafkas_java_client():
    assert murmur2(pa.array(VECTORS, pa.binary())).tolist() == list(VECTORS.values())


def test_a_slice_of_an_array_is_read_from_its_own_start():
    keys = pa.array(VECTORS, pa.binary())
    assert murmur2(keys[2:5]).tolist() == list(VECTORS.values())[2:5]
    assert murmur2(keys[:0]).tolist() == []


@pytest.mark.parametrize("partitions", [1, 2, 7, 50])
def test_a_partition_is_the_positive_hash_modulo_their_number(partitions):
    expected = [(value & 0x7FFFFFFF) % partitions for value in VECTORS.values()]
    assert partition_for(pa.array(VECTORS, pa.binary()), partitions).tolist() == expected


def test_a_null_key_goes_to_the_first_partition():
    assert partition_for(pa.array([None, b"21", None], pa.binary()), 5).tolist()[::2] == [0, 0]
