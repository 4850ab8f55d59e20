"""Extract the automaton of a hardened network, as a table, a graph and a program."""

from unbounded.extraction.automaton import Automaton, Step
from unbounded.extraction.automaton_text import automaton_data, dot_of, edges, table_lines
from unbounded.extraction.equivalence import Agreement, agreement
from unbounded.extraction.extract import Extraction, compare, extract
from unbounded.extraction.program import Program, program_from, program_of

__all__ = [
    "Agreement",
    "Automaton",
    "Extraction",
    "Program",
    "Step",
    "agreement",
    "automaton_data",
    "compare",
    "dot_of",
    "edges",
    "extract",
    "program_from",
    "program_of",
    "table_lines",
]
