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


@pytest.mark.parametrize("text", ["65", "65-128", "a:b", "65:", "1.5:2", "", "1:2:3", 7])
def test_other_forms(text):
    with pytest.raises(ConfigError, match=r"expected MINIMUM:MAXIMUM such as 65:128, got "):
        LengthRange.of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("128:65", "128:65 is reversed; write 65:128"), ("0:4", "an integer of at least 1, got 0")],
)
def test_ends_out_of_order_or_range(text, message):
    with pytest.raises(ConfigError, match=message):
        LengthRange.parse(text)


def test_all_errors_together():
    with pytest.raises(ConfigError) as caught:
        LengthRange(True, 2.5)
    assert len(caught.value.errors) == 2
