"""Custom studies: their folders, and results as tables, data frames, plots and a page.

`load(FOLDER)` returns a pandas DataFrame with one row for each run. All of this is shown in
docs/studies.md.
"""

from unbounded.studies.frame import load
from unbounded.studies.run_results import StudyRun, study_runs
from unbounded.studies.study_folder import StudyFolder

__all__ = ["StudyFolder", "StudyRun", "load", "study_runs"]
