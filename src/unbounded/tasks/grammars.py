"""The two grammars of Grefenstette et al. 2015, arXiv:1506.02516, appendix C, Table 1."""

from __future__ import annotations

from typing import Final

from unbounded.tasks.grammar import Grammar, Rule, WordClass

# Table 1(a): subject-verb-object to subject-object-verb. Each side has 3 x 33 words and a relative
# pronoun. The verb of a relative clause is last on both sides. Only the verb of the main clause
# moves.
SVO_SOV: Final = Grammar(
    name="svo_sov",
    root="A",
    rules=(
        Rule("1", "A", "S1 VT2 O3", "S1 O3 VT2"),
        Rule("1/5", "S", "S1 S2", "S1 S2"),
        Rule("1/5", "S", "S1 rpi S2 VT3", "S1 rpo S2 VT3"),
        Rule("3/5", "S", "ST1", "ST1"),
        Rule("1/5", "O", "O1 O2", "O1 O2"),
        Rule("1/5", "O", "S1 rpi S2 VT3", "S1 rpo S2 VT3"),
        Rule("3/5", "O", "OT1", "OT1"),
    ),
    classes=(
        WordClass("ST", "si", "so", 33),
        WordClass("OT", "oi", "oo", 33),
        WordClass("VT", "vi", "vo", 33),
    ),
)

# Table 1(b): English to German, where the article shows the noun's gender. Each side has 4 x 25
# words; the source has 4 others, and the target has 7.
GENDER: Final = Grammar(
    name="gender",
    root="A",
    rules=(
        Rule("1", "A", "B1", "B1"),
        Rule("1/4", "B", "B1 or B2", "B1 oder B2"),
        Rule("1/4", "B", "S1 and S2", "S1 und S2"),
        Rule("1/2", "B", "B1 V1", "B1 V1"),
        Rule("3/4", "V", "W1 B2", "W1 B2"),
        Rule("1/4", "V", "W1", "W1"),
        Rule("1/6", "S", "the M1", "der M1"),
        Rule("1/6", "S", "the F1", "die F1"),
        Rule("1/6", "S", "the N1", "das N1"),
        Rule("1/6", "S", "a M1", "ein M1"),
        Rule("1/6", "S", "a F1", "eine F1"),
        Rule("1/6", "S", "a N1", "ein N1"),
    ),
    classes=(
        WordClass("W", "we", "wg", 25),
        WordClass("M", "me", "mg", 25),
        WordClass("F", "fe", "fg", 25),
        WordClass("N", "ne", "ng", 25),
    ),
)
