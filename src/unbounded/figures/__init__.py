"""Figures of saved runs and traces, as PNG and SVG. This folder reads files and knows no model."""

from unbounded.figures.convergence import draw_convergence
from unbounded.figures.curves import Curves, read_curves
from unbounded.figures.figure1a import draw_worked_example
from unbounded.figures.memory import draw_memory
from unbounded.figures.run import draw_run

__all__ = [
    "Curves",
    "draw_convergence",
    "draw_memory",
    "draw_run",
    "draw_worked_example",
    "read_curves",
]
