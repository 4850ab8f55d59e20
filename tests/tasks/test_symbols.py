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
def test_target_is_the_source_in_the_order_asked_for(name, split, lengths):
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


def test_a_range_without_an_even_length():
    with pytest.raises(ConfigError, match="bigram_flip has even lengths only, 9:9 has none"):
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
