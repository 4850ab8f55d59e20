"""Custom studies: their folders, and their results as tables, data frames, plots and a page.

`load(FOLDER)` gives a pandas DataFrame with one row a run. docs/studies.md shows it all.
"""

from unbounded.studies.frame import load
from unbounded.studies.results import StudyRun, study_runs
from unbounded.studies.study_folder import StudyFolder

__all__ = ["StudyFolder", "StudyRun", "load", "study_runs"]
