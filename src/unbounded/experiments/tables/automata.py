"""The machines that were extracted from the runs of a study, beside its table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.extraction import FORMAT, VERSION, extract_run
from unbounded.experiments.run.folder import folder_of
from unbounded.experiments.run.verification import is_stale
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.verified import verifications
from unbounded.experiments.trials.studies import Study, Trial
from unbounded.files import read_text, storage_errors, write_text

#: Each trial that a machine was extracted from, with what `automaton.json` says.
Automata = Sequence[tuple[Trial, Mapping[str, Any]]]

#: What of the folder of a machine is kept beside the table.
_FILES: Final = (
    "automaton.svg",
    "automaton.txt",
    "automaton.dot",
    "automaton.py",
    "automaton.json",
)
_COLUMNS: Final = ("listed", "drawn", "states", "symbols", "table", "closed", "every_word_to")
_LEGEND: Final = """\
"states", "symbols" (written to the memory) and "cases" are those of the automaton's table.
"closes": whether the table gives every step of every string up to that length. "equal": on how many
of these strings, and of drawn strings of each length, automaton and network agree wherever an
answer is judged; in brackets, on how many the network itself is wrong. Drawn strings have the
greatest length at which the run is verified, or 2 and 10 times the training length. Files are in
automata/RUN: automaton.svg, .dot, .txt (the table), .json, and automaton.py, which runs without
this library and without torch."""


def extract_automata(
    study: Study, trials: Sequence[Trial], runs: Path, out: Path, say: Callable[[str], None]
) -> None:
    """Extract the machines of hardened runs into `out/automata`, those that are not there.

    Where a run is another than the one whose machine is kept, and gives none, that one is removed.

    Args:
        study: says of which tasks.
        trials: that were asked for.
        runs: folder of the run folders. out: of the results.
        say: told what was extracted, and why something was not.
    Raises:
        CheckpointError: a machine that is there is none.
        StorageError: a folder cannot be written.
    """
    for trial in trials:
        if trial.task not in study.extract or trial.phase != "hardened":
            continue
        folder, into = folder_of(runs, trial.config), out / "automata" / trial.name
        there = _kept(out, trial.name)
        if not (folder / "model-hardened").is_dir():
            is_finished = (folder / "report.json").is_file()
            if is_finished and is_outdated(out, trial.name, verifications(out)):
                _drop(into)
            continue
        if there.is_file() and not is_stale(_read(there), folder / "model-hardened"):
            continue
        try:
            extract_run(folder, hardened=True, look=lambda name, share: None)
        except ConfigError as error:
            say(f"no machine of {trial.name}: {error}")
            _drop(into)
            continue
        with storage_errors(into, "making folder"):
            into.mkdir(parents=True, exist_ok=True)
            for name in _FILES:
                if (folder / "automaton" / name).is_file():
                    shutil.copyfile(folder / "automaton" / name, into / name)
        data = {**_read(there), "run": trial.name}
        write_text(there, json.dumps(data, indent=1) + "\n")
        say(f"extracted the machine of {trial.name}")


def _drop(into: Path) -> None:
    """Remove the machine that was kept of a run whose weights are others now."""
    with storage_errors(into, "removing"):
        shutil.rmtree(into, ignore_errors=not into.is_dir())


def read_automata(study: Study, out: Path) -> list[tuple[Trial, dict[str, Any]]]:
    """The machines in `out/automata` of a study's trials; of two phases of a run, of the last.

    One of other weights than those that were verified since is left out (`is_outdated`).

    Raises:
        CheckpointError: a file there is no machine, or no verification.
    """
    last, verified = {trial.name: trial for trial in study.trials}, verifications(out)
    return [
        (last[name], _read(_kept(out, name)))
        for name in last
        if _kept(out, name).is_file() and not is_outdated(out, name, verified)
    ]


def is_outdated(out: Path, name: str, verified: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the automaton of a run is of other weights than its verification.

    Args:
        out: folder of the table. name: of the run. verified: see `verifications`.
    Raises:
        CheckpointError: the file of the automaton is damaged.
    """
    automaton = _kept(out, name)
    if not automaton.is_file() or name not in verified:
        return False
    digests = {data.get("weights_sha256") for data in (_read(automaton), verified[name])}
    return None not in digests and len(digests) > 1


def _kept(out: Path, name: str) -> Path:
    """Where what is known of the machine of a run is kept."""
    return out / "automata" / name / "automaton.json"


def automata_grid(automata: Automata, published: Published) -> str:
    """A row for each machine, and what its columns mean."""
    if not automata:
        return "None is extracted."
    header = ["run", "seed", "states", "symbols", "cases", "closes", "equal", "automaton"]
    rows = [_row(trial, data, published) for trial, data in automata]
    return f"{grid(header, rows)}\n\n{_LEGEND}"


def _row(trial: Trial, data: Mapping[str, Any], published: Published) -> tuple[str, ...]:
    closes = "yes" if data["closed"] else f"{100 * data['determined']:.2f} % of the steps"
    equal = [f"every word to {data['every_word_to']}: {_share(data['listed'])}"]
    equal += [f"{length}: {_share(each)}" for length, each in data["drawn"].items()]
    return (
        f"{published.tasks[trial.task]}, {model_name(trial.config.model)}",
        str(trial.config.seed),
        str(data["states"]),
        str(sum(len(names) for names in data["symbols"])),
        str(len(data["table"])),
        closes,
        "; ".join(equal),
        f"[picture](automata/{trial.name}/automaton.svg), "
        f"[table](automata/{trial.name}/automaton.txt)",
    )


def _share(agreement: Mapping[str, Any]) -> str:
    wrong = f" ({agreement['erring']})" if agreement["erring"] else ""
    return f"{agreement['equal']}/{agreement['words']}{wrong}"


def _read(path: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no machine: {error}") from error
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise CheckpointError(f"{path} is no machine of version {VERSION}")
    if not set(data) >= set(_COLUMNS):
        raise CheckpointError(f"{path} is damaged: it has not all that a machine has")
    return data
