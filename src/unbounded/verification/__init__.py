"""Verification of a network by all short strings, drawn long strings, and margins."""

from unbounded.verification.findings import Finding
from unbounded.verification.margins import Margins, answer_margins
from unbounded.verification.options import VerifyOptions
from unbounded.verification.prediction import Trend, predict, trend_of
from unbounded.verification.report import report_of, text_of
from unbounded.verification.verify import findings_of

__all__ = [
    "Finding",
    "Margins",
    "Trend",
    "VerifyOptions",
    "answer_margins",
    "findings_of",
    "predict",
    "report_of",
    "text_of",
    "trend_of",
]
