"""Metrics, decoding, length sweeps and reports."""

from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.report import make_report, row, sweep, table
from unbounded.evaluation.score import Score, score

__all__ = ["Score", "make_report", "row", "score", "sequence_scores", "sweep", "table"]
