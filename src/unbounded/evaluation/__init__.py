"""Metrics, decoding, length sweeps and reports."""

from unbounded.evaluation.actions import (
    ActionRow,
    action_cells,
    action_rows,
    action_table,
)
from unbounded.evaluation.answers import Answer, answer_to, answers_of
from unbounded.evaluation.memory_use import memory_use
from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.removal import Removal, remove_unused
from unbounded.evaluation.report import details, make_report, table
from unbounded.evaluation.score import Score, score
from unbounded.evaluation.scorings import SCORINGS, Exam, Place, Scoring, Sweep, scoring_of
from unbounded.evaluation.streams import (
    LengthScore,
    StreamScore,
    percent_of_lengths,
    score_lengths,
    score_streams,
    sequence_rights,
    stream_loss,
)
from unbounded.evaluation.typed_symbols import read_symbols
from unbounded.models.memory_room import with_room

__all__ = [
    "SCORINGS",
    "ActionRow",
    "Answer",
    "Exam",
    "LengthScore",
    "Place",
    "Removal",
    "Score",
    "Scoring",
    "StreamScore",
    "Sweep",
    "action_cells",
    "action_rows",
    "action_table",
    "answer_to",
    "answers_of",
    "details",
    "make_report",
    "memory_use",
    "percent_of_lengths",
    "read_symbols",
    "remove_unused",
    "score",
    "score_lengths",
    "score_streams",
    "scoring_of",
    "sequence_rights",
    "sequence_scores",
    "stream_loss",
    "table",
    "with_room",
]
