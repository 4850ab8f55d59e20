"""`unbounded bench`: what a memory costs beside its controller, measured side by side."""

from unbounded.experiments.bench.cases import SUITES, Case, suite
from unbounded.experiments.bench.measuring import Measurement, measure, peak_gflops

__all__ = ["SUITES", "Case", "Measurement", "measure", "peak_gflops", "suite"]
