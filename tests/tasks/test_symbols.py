import numpy as np
import pytest
from scipy import stats

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import LengthRange, RandomSymbols, Stream, make_task

TRAIN, TEST = LengthRange(8, 64), LengthRange(65, 128)


def flipped(source):
    return tuple(s for i in range(0, len(source), 2) for s in (source[i + 1], source[i]))


EXPECTED = {"copy": lambda s: s, "reversal": lambda s: s[::-1], "bigram_flip": flipped}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize(("split", "lengths"), [("train", TRAIN), ("test", TEST)])
def test_target_is_the_source_in_the_requested_order(name, split, lengths):
    for source, target in make_task(name).examples(3, split, 0, 400):
        assert len(source) in lengths
        assert target == EXPECTED[name](source)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("lengths", [TRAIN, TEST, LengthRange(7, 7 + 1)])
def test_lengths_are_uniform(name, lengths):
    drawn = RandomSymbols(name).draw(Stream(0, "train"), 0, 20_000, lengths).source_lengths
    possible = [k for k in lengths if name != "bigram_flip" or k % 2 == 0]
    counts = np.array([(drawn == k).sum() for k in possible])
    assert counts.sum() == 20_000
    if len(possible) > 1:
        assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("symbols", [128, 10])
def test_symbols_are_uniform_at_every_place_and_independent_of_their_neighbour(symbols):
    pairs = RandomSymbols("copy", symbols).draw(Stream(0, "train"), 0, 20_000, LengthRange(8, 8))
    for place in range(8):
        counts = np.bincount(pairs.source[:, place], minlength=symbols)
        assert stats.chisquare(counts).pvalue > 1e-4
    small = pairs.source * 4 // symbols
    table = np.zeros((4, 4))
    np.add.at(table, (small[:, :-1].ravel(), small[:, 1:].ravel()), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_odd_draws_are_never_rounded_out_of_the_range():
    drawn = RandomSymbols("bigram_flip").draw(Stream(0, "train"), 0, 200, LengthRange(5, 9))
    assert set(drawn.source_lengths.tolist()) == {6, 8}


@pytest.mark.parametrize("lengths", [TRAIN, TEST, LengthRange(9, 9), LengthRange(5, 8)])
def test_odd_draws_are_padded_on_request(lengths):
    """Every length of the range is drawn; an odd source ends with "pad", of the last pair."""
    task = make_task("bigram_flip", odd_lengths="padded", symbols=5)
    assert task.source_vocabulary == task.target_vocabulary == ("s0", "s1", "s2", "s3", "s4", "pad")
    drawn = dict.fromkeys(lengths, 0)
    for source, target in task.examples(3, "test", 0, 4000, lengths):
        assert len(source) % 2 == 0
        assert target == flipped(source)
        assert "pad" not in source[:-1]
        drawn[len(source) - (source[-1] == "pad")] += 1
    counts = np.array(list(drawn.values()))
    assert len(counts) == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_the_symbols_of_padded_draws_are_those_of_the_same_length_without():
    padded, plain = (
        RandomSymbols("bigram_flip", 9, odd_lengths=odd).draw(
            Stream(0, "train"), 0, 50, LengthRange(8, 8)
        )
        for odd in ("padded", "left_out")
    )
    assert all((a == b).all() for a, b in zip(padded, plain, strict=True))
    few = RandomSymbols("bigram_flip", 9, odd_lengths="padded").over(2)
    drawn = few.draw(Stream(0, "train"), 0, 50, LengthRange(7, 7))
    assert set(np.unique(drawn.source)) == {0, 1, 9}
    assert (drawn.target[:, 6] == 9).all()


def test_all_padded_pairs_are_listed():
    task = make_task("bigram_flip", odd_lengths="padded", symbols=3)
    assert (task.count_of(3, 2), task.count_of(4, 2)) == (8, 16)
    batch = task.every(3, 2)
    assert batch.lengths.tolist() == [4 + 4 + 2] * 8
    # <s> a b c pad ||| b a pad c
    assert batch.inputs[5].tolist() == [0, 3, 2, 3, 5, 1, 6, 7, 9, 7]
    assert RandomSymbols("bigram_flip", 3, odd_lengths="padded").most_symbols == 3


@pytest.mark.parametrize("lengths", [TRAIN, TEST, LengthRange(9, 9), LengthRange(5, 8)])
def test_the_last_symbol_of_an_unpaired_draw_gets_a_random_partner(lengths):
    task = make_task("bigram_flip", odd_lengths="unpaired", symbols=5)
    examples = task.examples(3, "test", 0, 4000, lengths)
    assert {len(source) for source, _ in examples} == set(lengths)
    partners = [target[-2] for source, target in examples if len(source) % 2]
    for source, target in examples:
        full = source + (target[-2:-1] if len(source) % 2 else ())
        assert target == flipped(full)
    counts = np.unique(partners, return_counts=True)[1]
    assert len(counts) == 5
    assert stats.chisquare(counts).pvalue > 1e-3


def test_all_unpaired_pairs_are_listed():
    task = make_task("bigram_flip", odd_lengths="unpaired", symbols=3)
    assert (task.count_of(3, 2), task.count_of(4, 2)) == (16, 16)
    batch = task.every(3, 2)
    assert batch.lengths.tolist() == [3 + 4 + 2] * 16
    # <s> a b c ||| b a d c
    assert batch.inputs[11].tolist() == [0, 3, 2, 3, 1, 5, 6, 6, 6]


def test_an_unknown_choice_for_odd_lengths():
    with pytest.raises(ChoiceError, match=r"unknown odd_lengths 'pad'. Did you mean 'padded'"):
        RandomSymbols("bigram_flip", odd_lengths="pad")
    with pytest.raises(ConfigError, match=r"unknown odd_lengths 'padde'. Did you mean 'padded'"):
        make_task("bigram_flip", odd_lengths="padde")


def test_a_range_without_an_even_length():
    with pytest.raises(ConfigError, match="odd_lengths is left_out, got 9:9"):
        make_task("bigram_flip").batch(0, "train", 0, 2, LengthRange(9, 9))


def test_one_symbol_and_length_one():
    task = make_task("copy", symbols=1, train_lengths="1:1")
    assert str(task.example(0, "train", 0)) == "s0 ||| s0"


def test_the_paper_has_128_symbols():
    task = make_task("copy")
    assert len(task.source_vocabulary) == len(task.target_vocabulary) == 128
    assert len(task.input_vocabulary) == 258
    assert len(task.output_vocabulary) == 129


@pytest.mark.parametrize("symbols", [0, -1, 2.5, 2**31 + 1])
def test_bad_number_of_symbols(symbols):
    with pytest.raises(ConfigError, match="symbols: expected an integer from 1 to"):
        RandomSymbols("copy", symbols)


def test_unknown_order():
    with pytest.raises(ChoiceError, match=r"unknown order 'reverse'.*Did you mean 'reversal'"):
        RandomSymbols("reverse")
