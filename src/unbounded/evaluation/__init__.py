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
from unbounded.evaluation.report import make_report, per_n_table, row, stream_row, sweep, table
from unbounded.evaluation.score import Score, score
from unbounded.evaluation.streams import (
    LengthScore,
    StreamScore,
    percent_of_lengths,
    room_for,
    score_lengths,
    score_streams,
    sequence_rights,
    stream_loss,
)

__all__ = [
    "ActionRow",
    "LengthScore",
    "Removal",
    "Score",
    "StreamScore",
    "action_cells",
    "action_rows",
    "action_table",
    "make_report",
    "per_n_table",
    "percent_of_lengths",
    "read_symbols",
    "remove_unused",
    "room_for",
    "row",
    "score",
    "score_lengths",
    "score_streams",
    "sequence_rights",
    "sequence_scores",
    "stream_loss",
    "stream_row",
    "sweep",
    "table",
]
