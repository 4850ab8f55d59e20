from __future__ import annotations

import pytest

from unbounded.errors import ConfigError
from unbounded.tasks import make_task
from unbounded.tasks.transduction import TransductionTask


class Backwards(TransductionTask):
    """A task of a user whose layout is misspelt."""

    def __init__(self) -> None:
        vars(self).update(vars(make_task("copy")))
        self.layout = "pair"


def test_a_layout_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown layout 'pair'\. Did you mean 'pairs'"):
        make_task(f"{__name__}.Backwards")
