import pytest

from unbounded.errors import ConfigError
from unbounded.tasks import LengthRange


def test_both_ends_belong_to_it():
    lengths = LengthRange(3, 5)
    assert list(lengths) == [3, 4, 5]
    assert len(lengths) == 3
    assert 5 in lengths
    assert 6 not in lengths
    assert "4" not in lengths


@pytest.mark.parametrize("value", ["65:128", " 65 : 128 ", (65, 128), [65, 128]])
def test_forms(value):
    assert LengthRange.of(value) == LengthRange(65, 128)


def test_text_form_reads_back():
    assert str(LengthRange(8, 64)) == "8:64"
    assert LengthRange.of(LengthRange(8, 64)) == LengthRange.parse("8:64")


@pytest.mark.parametrize("text", ["65", "65-128", "a:b", "65:", "1.5:2", "", "1:2:3"])
def test_other_text(text):
    with pytest.raises(ConfigError, match=r"expected MINIMUM:MAXIMUM such as 65:128, got "):
        LengthRange.parse(text)


def test_other_value():
    with pytest.raises(ConfigError, match=r"expected MINIMUM:MAXIMUM such as 65:128, got 7"):
        LengthRange.of(7)


def test_reversed():
    with pytest.raises(ConfigError, match="128:65 is reversed; write 65:128"):
        LengthRange.parse("128:65")


def test_below_one():
    with pytest.raises(ConfigError, match=r"minimum must be an integer of at least 1, got 0"):
        LengthRange.parse("0:4")


def test_all_errors_together():
    with pytest.raises(ConfigError) as caught:
        LengthRange(True, 2.5)
    assert len(caught.value.errors) == 2
