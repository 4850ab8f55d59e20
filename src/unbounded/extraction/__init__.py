"""The machine that a network with whole decisions is: a table, a graph, a program."""

from unbounded.extraction.equivalence import Agreement, agreement
from unbounded.extraction.extract import Extraction, extract
from unbounded.extraction.machine import Machine, Step
from unbounded.extraction.program import program_of
from unbounded.extraction.table import dot_of, edges, machine_data, table_lines

__all__ = [
    "Agreement",
    "Extraction",
    "Machine",
    "Step",
    "agreement",
    "dot_of",
    "edges",
    "extract",
    "machine_data",
    "program_of",
    "table_lines",
]
