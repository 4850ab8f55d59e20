"""Figures of saved runs, traces and tables, as PNG and SVG.

This folder takes files, or rows of numbers that `unbounded.evaluation` made, and runs no model.
"""

from unbounded.figures.actions import draw_action_table, draw_actions, read_actions
from unbounded.figures.convergence import draw_convergence
from unbounded.figures.curves import Curves, read_curves
from unbounded.figures.figure1a import draw_worked_example
from unbounded.figures.lengths import draw_lengths
from unbounded.figures.matrix import draw_matrix
from unbounded.figures.memory import draw_memory
from unbounded.figures.run import draw_run

__all__ = [
    "Curves",
    "draw_action_table",
    "draw_actions",
    "draw_convergence",
    "draw_lengths",
    "draw_matrix",
    "draw_memory",
    "draw_run",
    "draw_worked_example",
    "read_actions",
    "read_curves",
]
