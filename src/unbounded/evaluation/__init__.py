"""Evaluation: metrics, decoding, length sweeps and reports."""

from unbounded.evaluation.actions import (
    ActionRow,
    action_cells,
    action_rows,
    action_table,
)
from unbounded.evaluation.answers import Answer, answer_to, answers_of
from unbounded.evaluation.memory_use import memory_use
from unbounded.evaluation.metric_sets import (
    METRIC_SETS,
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Place,
    metric_set_of,
)
from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.ngrams import NGramModel, NGramResult, ngram_result
from unbounded.evaluation.removal import Removal, remove_unused
from unbounded.evaluation.report import details, make_report, table
from unbounded.evaluation.score import Score, score
from unbounded.evaluation.streams import (
    LengthScore,
    StreamScore,
    correct_sequences,
    percent_of_lengths,
    score_lengths,
    score_streams,
    stream_loss,
)
from unbounded.evaluation.typed_symbols import read_symbols
from unbounded.models.memory_room import with_room

__all__ = [
    "METRIC_SETS",
    "ActionRow",
    "Answer",
    "EvaluationPlan",
    "Evaluator",
    "Examples",
    "LengthScore",
    "MetricSet",
    "NGramModel",
    "NGramResult",
    "Place",
    "Removal",
    "Score",
    "StreamScore",
    "action_cells",
    "action_rows",
    "action_table",
    "answer_to",
    "answers_of",
    "correct_sequences",
    "details",
    "make_report",
    "memory_use",
    "metric_set_of",
    "ngram_result",
    "percent_of_lengths",
    "read_symbols",
    "remove_unused",
    "score",
    "score_lengths",
    "score_streams",
    "sequence_scores",
    "stream_loss",
    "table",
    "with_room",
]
