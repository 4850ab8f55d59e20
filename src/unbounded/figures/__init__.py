"""Figures of saved runs, traces and tables, as SVG.

Functions in this folder draw files, or rows of numbers from `unbounded.evaluation`. The functions
do not run models.
"""

from unbounded.figures.actions import draw_action_table, draw_actions, read_actions
from unbounded.figures.automaton import draw_automaton
from unbounded.figures.convergence import draw_convergence
from unbounded.figures.course import draw_course, draw_key_course
from unbounded.figures.curves import Curves, read_curves
from unbounded.figures.keys import KeyTrace, draw_keys, read_keys
from unbounded.figures.lengths import draw_lengths
from unbounded.figures.marked_answers import draw_answers
from unbounded.figures.matrix import draw_matrix
from unbounded.figures.memory import draw_memory, draw_worked_example
from unbounded.figures.run import draw_run
from unbounded.figures.sweep import draw_sweep
from unbounded.figures.tape import TapeTrace, draw_path, draw_tape, read_tape

__all__ = [
    "Curves",
    "KeyTrace",
    "TapeTrace",
    "draw_action_table",
    "draw_actions",
    "draw_answers",
    "draw_automaton",
    "draw_convergence",
    "draw_course",
    "draw_key_course",
    "draw_keys",
    "draw_lengths",
    "draw_matrix",
    "draw_memory",
    "draw_path",
    "draw_run",
    "draw_sweep",
    "draw_tape",
    "draw_worked_example",
    "read_actions",
    "read_curves",
    "read_keys",
    "read_tape",
]
