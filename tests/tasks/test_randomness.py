import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks.randomness import Stream, bounded, philox4x32, unit_floats, whole_number

# Known answers of Random123 (kat_vectors, philox4x32, 10 rounds): counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def philox_in_plain_python(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uint64(*values):
    return tuple(np.array(value, dtype=np.uint64) for value in values)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter, key, expected):
    assert [int(word) for word in philox4x32(uint64(*counter), tuple(key))] == expected


@given(st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6))
def test_philox_equals_plain_python(words):
    result = philox4x32(uint64(*words[:4]), tuple(words[4:]))
    assert [int(word) for word in result] == philox_in_plain_python(words[:4], words[4:])


def test_stream_fills_counter_and_key():
    index, block, seed = 2**40 + 7, 12, 2**50 + 3
    first, second = Stream(seed, "test").words(np.array([index]), np.array([block]))
    counter = [block, index & 0xFFFFFFFF, index >> 32, 2]
    words = philox_in_plain_python(counter, [seed & 0xFFFFFFFF, seed >> 32])
    assert int(first[0]) == words[0] | words[1] << 32
    assert int(second[0]) == words[2] | words[3] << 32


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**31))
def test_bounded_is_the_upper_half_of_the_product(word, count):
    assert bounded(np.array([word], dtype=np.uint64), count).tolist() == [word * count >> 64]


def test_bounded_takes_a_count_for_each_word():
    words = np.full(3, 2**64 - 1, dtype=np.uint64)
    assert bounded(words, np.array([1, 25, 2**31])).tolist() == [0, 24, 2**31 - 1]


def test_unit_floats_are_below_one():
    words = np.array([0, 1 << 11, 2**63, 2**64 - 1], dtype=np.uint64)
    assert unit_floats(words).tolist() == [0.0, 2.0**-53, 0.5, 1 - 2.0**-53]


def test_floats_are_uniform():
    first, second = Stream(5, "train").words(np.arange(20_000), np.array([3]))
    for words in (first, second):
        assert stats.kstest(unit_floats(words), "uniform").pvalue > 1e-3


def test_sequence_words_do_not_depend_on_the_count():
    indices = np.arange(4)
    stream = Stream(1, "train")
    length, nine = stream.sequence_words(indices, 9)
    other_length, four = stream.sequence_words(indices, 4)
    assert nine.shape == (4, 9)
    assert np.array_equal(nine[:, :4], four)
    assert np.array_equal(length, other_length)
    assert np.array_equal(length, stream.length_words(indices))


def test_seeds_splits_indices_and_blocks_share_no_word():
    indices, blocks = np.arange(50)[:, None], np.arange(50)[None, :]
    words = [
        word
        for seed in (0, 1, 2**32, 2**64 - 1)
        for split in ("train", "validation", "test")
        for half in Stream(seed, split).words(indices, blocks)
        for word in half.ravel().tolist()
    ]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "0", None, True])
def test_bad_seed(seed):
    with pytest.raises(ConfigError, match=r"seed: expected an integer from 0 to"):
        Stream(seed, "train")


def test_bad_split():
    with pytest.raises(ChoiceError, match=r"unknown split 'valid'.*Did you mean 'validation'"):
        Stream(0, "valid")


def test_whole_number_accepts_any_integer_type():
    assert whole_number("n", np.int64(3), 0, 3) == 3
    with pytest.raises(ConfigError, match="n: expected an integer from 0 to 3, got 4"):
        whole_number("n", 4, 0, 3)
