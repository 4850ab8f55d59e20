"""The machine that a network with whole decisions is: a table, a graph, a program."""

from unbounded.extraction.equivalence import Agreement, agreement
from unbounded.extraction.extract import Extraction, compare, extract
from unbounded.extraction.machine import Machine, Step
from unbounded.extraction.program import Program, program_from, program_of
from unbounded.extraction.table import dot_of, edges, machine_data, table_lines

__all__ = [
    "Agreement",
    "Extraction",
    "Machine",
    "Program",
    "Step",
    "agreement",
    "compare",
    "dot_of",
    "edges",
    "extract",
    "machine_data",
    "program_from",
    "program_of",
    "table_lines",
]
