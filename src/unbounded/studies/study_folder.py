"""The folder of a study: names of its files, and a check that a study may use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.trials.plan_file import PLAN, read_plan, write_plan
from unbounded.experiments.trials.study_file import StudyFile, make_study_file
from unbounded.experiments.trials.trial import Trial
from unbounded.files import make_folder, read_text, write_text

#: Keys in a study's file that change only what is shown, and not the runs.
_SHOWN: Final = ("about", "select", "table", "figures", "log_with")
_MOST_NAMED: Final = 5


class StudyFolder:
    """The folder of a study. The files in this folder are described in docs/studies.md.

    Args:
        path: the folder, which may be missing.
        runs: the folder of the run folders; None for runs/ in it.
    """

    def __init__(self, path: Path, runs: Path | None = None) -> None:
        self.path = path
        self.runs = path / "runs" if runs is None else runs
        self.study_file = path / "study.yaml"
        self.plan_file = path / PLAN
        self.figures = path / "figures"
        self.page_file = path / "index.html"

    def __str__(self) -> str:
        return str(self.path)

    def study(self) -> StudyFile:
        """Return the study of the folder.

        Raises:
            CheckpointError: the folder is not a study's, or its file is damaged.
        """
        name, data = self._stored()
        try:
            return make_study_file(name, data)
        except ConfigError as error:
            raise CheckpointError(f"{self.study_file} is damaged: {error}") from error

    def trials(self) -> list[Trial]:
        """The planned runs.

        Raises:
            CheckpointError: the folder is not a study's, or its plan is damaged.
        """
        if not self.plan_file.is_file():
            raise CheckpointError(
                f"{self.path} is not the folder of a study: it has no {PLAN}. `unbounded study "
                "FILE` makes one"
            )
        return read_plan(self.plan_file)

    def check(self, study: StudyFile, trials: Sequence[Trial], *, extend: bool = False) -> None:
        """Check that the folder belongs to a study or is free, as `begin` does; write nothing.

        Args, errors: as for `begin`.
        """
        if self.study_file.is_file():
            self._check(study, trials, extend)
        elif self.path.is_dir() and any(self.path.glob("*.yaml")):
            raise ConfigError(f"out: {self.path} holds other files; name another folder")

    def begin(
        self, study: StudyFile, trials: Sequence[Trial], *, extend: bool = False
    ) -> tuple[Trial, ...]:
        """Write study and plan into the folder, or check that the folder belongs to the study.

        Any number of processes may do so at once, because all write the same content.

        Args:
            study: the study.
            trials: its runs.
            extend: whether the study may have more runs than the folder.
        Returns:
            The runs of the plan.
        Raises:
            ConfigError: the folder is another study's, or the study changed; the message says what
                differs.
            StorageError: the folder cannot be written.
        """
        self.check(study, trials, extend=extend)
        make_folder(self.path)
        write_plan(self.plan_file, trials)
        text = plain_yaml.dump({"study": study.name, "content": _plain(study.data)})
        if not self.study_file.is_file() or read_text(self.study_file) != text:
            write_text(self.study_file, text)
        return tuple(trials)

    def _stored(self) -> tuple[str, dict[str, Any]]:
        if not self.study_file.is_file():
            raise CheckpointError(
                f"{self.path} is not the folder of a study: it has no {self.study_file.name}"
            )
        try:
            data = plain_yaml.load(read_text(self.study_file))
            return str(data["study"]), dict(data["content"])
        except (yaml.YAMLError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{self.study_file} is damaged: {error}. Delete it; the study's command writes it "
                "again"
            ) from error

    def _check(self, study: StudyFile, trials: Sequence[Trial], extend: bool) -> None:
        name, content = self._stored()
        if name != study.name:
            raise ConfigError(
                f"out: {self.path} is the folder of study {name!r}, not of "
                f"{study.name!r}; name another folder with --out"
            )
        if not self.plan_file.is_file():
            return
        before = {trial.name for trial in self.trials()}
        now = {trial.name for trial in trials}
        added, removed = sorted(now - before), sorted(before - now)
        if not added and not removed:
            return
        differences = _differences(content, _plain(study.data))
        if removed:
            advice = (
                "--extend does not remove them: put them back"
                if extend
                else "--extend adds runs and removes none: put them back"
            )
            raise ConfigError(
                [
                    f"the study changed after it began: {len(removed)} of {len(before)} runs are "
                    f"no longer in it ({_named(removed)}), {len(added)} are new. {advice}, or name "
                    "another folder with --out",
                    *differences,
                ]
            )
        if not extend:
            raise ConfigError(
                [
                    f"the study changed after it began: {len(added)} runs are new "
                    f"({_named(added)}). --extend adds them to {self.path}",
                    *differences,
                ]
            )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert data to the form that JSON has, so that two readings of one file are equal."""
    result: dict[str, Any] = json.loads(json.dumps(data))
    return result


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """One line for each value that differs between two files."""
    lines = []
    for key in dict.fromkeys([*before, *now]):
        if not prefix and key in _SHOWN:
            continue
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += _differences(old, new, f"{prefix}{key}: ")
        elif old != new:
            was = "nothing" if key not in before else json.dumps(old)
            got = "nothing" if key not in now else json.dumps(new)
            lines.append(f"{prefix}{key}: was {was:.100}, is {got:.100}")
    return lines
