"""Metrics, decoding, length sweeps and reports."""

from unbounded.evaluation.actions import (
    ActionRow,
    action_cells,
    action_rows,
    action_table,
    read_symbols,
)
from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.removal import Removal, remove_unused
from unbounded.evaluation.report import make_report, row, sweep, table
from unbounded.evaluation.score import Score, score
from unbounded.evaluation.streams import (
    LengthScore,
    percent_of_lengths,
    score_lengths,
    sequence_rights,
    stream_loss,
)

__all__ = [
    "ActionRow",
    "LengthScore",
    "Removal",
    "Score",
    "action_cells",
    "action_rows",
    "action_table",
    "make_report",
    "percent_of_lengths",
    "read_symbols",
    "remove_unused",
    "row",
    "score",
    "score_lengths",
    "sequence_rights",
    "sequence_scores",
    "stream_loss",
    "sweep",
    "table",
]
