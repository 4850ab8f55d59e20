import grammar_oracle as oracle
import numpy as np
import pytest
from scipy import stats

from unbounded.errors import ConfigError
from unbounded.tasks import GENDER, SVO_SOV, Grammar, Rule, WordClass
from unbounded.tasks.derivation import WeightedRows, inside_table

GRAMMARS = {"svo_sov": SVO_SOV, "gender": GENDER}


def root_lengths(name, longest):
    table = inside_table(GRAMMARS[name], longest)
    return table.inside[table.rules.nonterminals.index("A")]


@pytest.mark.parametrize(("name", "longest"), [("svo_sov", 10), ("gender", 14)])
def test_table_equals_enumeration(name, longest):
    exact = [float(sum(oracle.SHORT[name](n).values())) for n in range(1, longest + 1)]
    np.testing.assert_allclose(root_lengths(name, longest)[1:], exact, rtol=1e-14, atol=0)


def test_every_nonterminal_equals_enumeration():
    table = inside_table(SVO_SOV, 9)
    for name, derive in (("S", oracle.svo_s), ("O", oracle.svo_o)):
        exact = [float(sum(derive(n).values())) for n in range(1, 10)]
        row = table.inside[table.rules.nonterminals.index(name), 1:]
        np.testing.assert_allclose(row, exact, rtol=1e-14, atol=0)


def test_closed_form_of_the_svo_subject():
    # S = a S S + b, a = (1 + z^2)/5, b = 3z/5, so S = (1 - sqrt(1 - 4ab)) / 2a. At z = 1/2:
    a, b = 1.25 / 5, 0.3
    table = inside_table(SVO_SOV, 256)
    row = table.inside[table.rules.nonterminals.index("S")]
    value = (row * 0.5 ** np.arange(257)).sum()
    assert value == pytest.approx((1 - np.sqrt(1 - 4 * a * b)) / (2 * a), rel=1e-14)


def test_total_probability():
    # The gender grammar ends with probability 0.4: 0.625 q^2 - 0.875 q + 0.25 = 0.
    assert root_lengths("gender", 1024).sum() == pytest.approx(0.4, abs=1e-12)
    assert root_lengths("svo_sov", 1024).sum() == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize(
    ("name", "below_8", "to_64", "to_128"),
    [("svo_sov", 0.625, 0.358, 0.0154), ("gender", 0.287, 0.111, 0.0019)],
)
def test_published_shares_of_lengths(name, below_8, to_64, to_128):
    # 60 000 draws each were counted by rejection: agree within four standard deviations.
    row = root_lengths(name, 128)
    for share, counted in ((row[:8], below_8), (row[8:65], to_64), (row[65:], to_128)):
        p = share.sum()
        assert abs(p - counted) < 4 * np.sqrt(p * (1 - p) / 60_000) + 0.0005


@pytest.mark.parametrize("name", GRAMMARS)
def test_long_lengths_do_not_underflow_and_do_not_depend_on_the_size_of_the_table(name):
    row = root_lengths(name, 1024)
    assert row[1024] > 1e-20
    assert np.array_equal(row[:129], root_lengths(name, 128))


@pytest.mark.parametrize("longest", [0, 4097])
def test_lengths_out_of_range(longest):
    with pytest.raises(ConfigError, match=f"gender is sampled up to length 4096, got {longest}"):
        inside_table(GENDER, longest)


def test_a_grammar_too_large():
    names = [f"X{chr(97 + i)}" for i in range(20)]
    rules = tuple(Rule("1", name, "w", "w") for name in names)
    with pytest.raises(ConfigError, match="many has too many rules to sample up to 4096"):
        inside_table(Grammar("many", names[0], rules, ()), 4096)


def test_unary_rules_in_any_order():
    grammar = Grammar(
        "chain",
        "A",
        (Rule("1", "A", "B1", "B1"), Rule("1", "B", "C1", "C1"), Rule("1", "C", "W1 W2", "W2 W1")),
        (WordClass("W", "x", "y", 2),),
    )
    assert inside_table(grammar, 3).inside.tolist() == [[0, 0, 1, 0]] * 3


def test_weighted_rows_draw_by_weight_and_never_where_it_is_zero():
    weights = [[0.0, 3.0, 0.0, 1.0, 0.0], [0.0, 0.0], [2.0], [1e-300, 1e-300]]
    rows = WeightedRows([np.cumsum(row) for row in weights])
    words = np.random.default_rng(0).integers(0, 2**64, 40_000, dtype=np.uint64)
    words[:2] = 0, 2**64 - 1
    for row, expected in ((0, [0, 0.75, 0, 0.25, 0]), (2, [1.0]), (3, [0.5, 0.5])):
        drawn = rows.draw(np.full(len(words), row), words)
        counts = np.bincount(drawn, minlength=len(expected))
        possible = np.array(expected) > 0
        assert not counts[~possible].any()
        expected_counts = np.array(expected)[possible] * len(words)
        if len(expected_counts) > 1:
            assert stats.chisquare(counts[possible], expected_counts).pvalue > 1e-3
