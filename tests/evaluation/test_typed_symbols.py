"""Symbols as lines of text: written lines are read back, for any alphabet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbounded.errors import ChoiceError
from unbounded.evaluation.predictions import joined, read_inputs, written_errors
from unbounded.evaluation.typed_symbols import (
    as_typed,
    keeps_blanks,
    parted,
    read_symbols,
    unwritable,
    with_start,
)
from unbounded.tasks import make_task

BLANK = "\N{OPEN BOX}"
LETTERS = st.text(alphabet=f"ab {BLANK}\N{NO-BREAK SPACE}\t\n", max_size=3)


@given(alphabet=st.lists(LETTERS, min_size=1, max_size=6, unique=True).map(tuple), data=st.data())
def test_written_symbols_are_read_back(alphabet: tuple[str, ...], data: Any) -> None:
    cannot = unwritable(alphabet)
    symbols = data.draw(st.lists(st.sampled_from(alphabet), max_size=6))
    if not cannot and not any("\n" in symbol for symbol in alphabet):
        assert parted(alphabet, as_typed(alphabet, symbols)) == symbols


@pytest.mark.parametrize(
    ("alphabet", "text", "symbols"),
    [
        ("ab", " ab b ", "abb"),
        ("ab", f"a{BLANK}", f"a{BLANK}"),  # it is no symbol; the error names the line
        ("ab ", " ab b ", " ab b "),
        ("ab ", f"a{BLANK} ", "a  "),
        (f"ab {BLANK}", f"a {BLANK}", f"a {BLANK}"),
        (("ab", " "), f"ab {BLANK}  ab", ("ab", " ", "ab")),
        (("ab", " ", BLANK), f"ab {BLANK}", ("ab", BLANK)),
        (("ab", BLANK), f"ab {BLANK}", ("ab", BLANK)),
        (("ab", "b"), "ab\N{NO-BREAK SPACE}b\tb", ("ab", "b", "b")),
    ],
)
def test_how_a_blank_is_typed(alphabet: Any, text: str, symbols: Any) -> None:
    assert parted(tuple(alphabet), text) == list(symbols)


@pytest.mark.parametrize("name", ["flare", "stack_language", "dynamic_ngrams"])
@pytest.mark.parametrize("text", ["0110", "0 1 1 0", "<s> 0 1 1 0", " <s>0110"])
def test_the_start_symbol_does_not_count_among_the_typed_symbols(name: str, text: str) -> None:
    task = make_task(name)
    symbols = read_symbols(task, text)
    assert symbols == [*"0110"]
    assert with_start(task, symbols) == ["<s>", *"0110"]
    (inputs,) = read_inputs(task, [text])
    assert inputs.tolist() == [task.input_vocabulary.index(each) for each in ("<s>", *"0110")]
    with pytest.raises(ChoiceError) as caught:
        read_symbols(task, "01x")
    assert "<s>" not in str(caught.value)


def test_unwritable_symbols() -> None:
    assert unwritable(("a", "\n", " ")) == ["\n"]
    assert unwritable(("ab", " ", "", "a b", BLANK)) == [" ", "", "a b"]
    assert unwritable(("ab", " ")) == []
    assert [keeps_blanks(each) for each in (("a", " "), ("a", "b"), ("ab", " "))] == [
        True,
        False,
        False,
    ]


def test_outputs_are_written_in_the_form_in_which_they_are_read() -> None:
    task = make_task("copy", symbols=2)
    assert joined(task, ["s1", "s0"]) == "s1 s0"
    task.output_vocabulary = ("</s>", "s0", " ")
    assert joined(task, ["s0", " ", "s0"]) == f"s0 {BLANK} s0"
    assert written_errors(task) == []
    task.output_vocabulary = ("</s>", "s0", "a b")
    (fault,) = written_errors(task)
    assert fault.startswith("task 'copy': a line cannot hold its symbols 'a b'")
