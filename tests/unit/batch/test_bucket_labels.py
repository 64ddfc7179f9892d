import pytest

from sluice.batch.packed_rows import hash_int, labels


@pytest.mark.parametrize(("value", "hashed"), [(0, 933211791), (1, -559580957)])
def test_hash_is_sparks(value, hashed):
    """As `SELECT hash(1)` has it."""
    assert hash_int(value) == hashed


@pytest.mark.parametrize("buckets", [1, 2, 3, 8, 64])
def test_each_bucket_has_a_shuffle_partition_of_its_own(buckets):
    assert [hash_int(label) % buckets for label in labels(buckets)] == list(range(buckets))


def test_labels_do_not_change():
    """They are keys of the state in every checkpoint."""
    assert labels(4) == [12, 6, 2, 0]
