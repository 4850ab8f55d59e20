"""Store the extracted automata of a study's runs next to the study's table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.extraction import FORMAT, VERSION, extract_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import is_stale
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.verified import verifications
from unbounded.experiments.trials.paper_studies import Study
from unbounded.experiments.trials.trial import Trial
from unbounded.files import read_text, storage_errors, write_text

#: Pairs of a trial with an extracted automaton, and the data of its `automaton.json`.
Automata = Sequence[tuple[Trial, Mapping[str, Any]]]

#: Files of an automaton that are copied next to the table.
_FILES: Final = (
    "automaton.svg",
    "automaton.txt",
    "automaton.dot",
    "automaton.py",
    "automaton.json",
)
#: Fields of `automaton.json` that are shown in the table.
_FIELDS: Final = ("listed", "drawn", "states", "symbols", "table", "closed", "every_string_to")
_LEGEND: Final = """\
"states", "symbols" (written to the memory) and "cases" count those of the automaton's table.
"closes": whether the table contains every step of every string up to the length under "equal".
"equal": on how many of these strings automaton and network agree wherever an answer is judged, and
on how many drawn strings of each further length. The number in brackets counts the strings on which
the network itself is wrong. Drawn strings have the greatest verified lengths of the run. Without a
verification they have 2 and 10 times the training length. The folder automata/RUN has
automaton.svg, .dot, .txt (the table) and .json. Its automaton.py runs without this library and
without torch."""


def extract_automata(
    study: Study, trials: Sequence[Trial], runs: Path, out: Path, say: Callable[[str], None]
) -> None:
    """Extract the missing automata of hardened runs into `out/automata`.

    A stored automaton is removed if the run's weights have changed and yield no automaton.

    Args:
        study: names the tasks to extract automata of.
        trials: the requested trials.
        runs: folder of the run folders.
        out: folder of the results.
        say: called with a line for each extracted automaton, and for each failure with its reason.
    Raises:
        CheckpointError: a stored file is not an automaton.
        StorageError: a folder cannot be written.
    """
    for trial in trials:
        if trial.task not in study.extract or trial.phase != "hardened":
            continue
        folder, into = RunFolder.of(runs, trial.config), out / "automata" / trial.name
        stored = _path(out, trial.name)
        if not folder.is_hardened:
            if folder.is_finished and is_outdated(out, trial.name, verifications(out)):
                _remove(into)
            continue
        if stored.is_file() and not is_stale(_read(stored), folder, "model-hardened"):
            continue
        try:
            extract_run(folder, hardened=True, look=lambda name, share: None)
        except ConfigError as error:
            say(f"no automaton of {trial.name}: {error}")
            _remove(into)
            continue
        with storage_errors(into, "making folder"):
            into.mkdir(parents=True, exist_ok=True)
            for name in _FILES:
                if (folder.automaton / name).is_file():
                    shutil.copyfile(folder.automaton / name, into / name)
        data = {**_read(stored), "run": trial.name}
        write_text(stored, json.dumps(data, indent=1) + "\n")
        say(f"extracted the automaton of {trial.name}")


def _remove(folder: Path) -> None:
    """Remove the stored automaton of a run whose weights have changed."""
    with storage_errors(folder, "removing"):
        shutil.rmtree(folder, ignore_errors=not folder.is_dir())


def read_automata(study: Study, out: Path) -> list[tuple[Trial, dict[str, Any]]]:
    """Read the automata of a study's trials from `out/automata`.

    If a run has two phases, its automaton belongs to the last one. Outdated automata
    (`is_outdated`) are omitted.

    Raises:
        CheckpointError: a file is not an automaton or not a verification.
    """
    last, verified = {trial.name: trial for trial in study.trials}, verifications(out)
    return [
        (trial, _read(_path(out, name)))
        for name, trial in last.items()
        if _path(out, name).is_file() and not is_outdated(out, name, verified)
    ]


def is_outdated(out: Path, name: str, verified: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a run's automaton and its verification belong to different weights.

    Args:
        out: folder of the table.
        name: name of the run.
        verified: verifications by the name of their run, from `verifications`.
    Raises:
        CheckpointError: the file of the automaton is damaged.
    """
    automaton = _path(out, name)
    if not automaton.is_file() or name not in verified:
        return False
    digests = {data.get("weights_sha256") for data in (_read(automaton), verified[name])}
    return None not in digests and len(digests) > 1


def _path(out: Path, name: str) -> Path:
    """The file with the data of a run's automaton."""
    return out / "automata" / name / "automaton.json"


def automata_grid(automata: Automata, published: Published) -> str:
    """A row for each automaton, and the meaning of the columns."""
    if not automata:
        return "No automaton is extracted."
    header = ["run", "seed", "states", "symbols", "cases", "closes", "equal", "automaton"]
    rows = [_row(trial, data, published) for trial, data in automata]
    return f"{grid(header, rows)}\n\n{_LEGEND}"


def _row(trial: Trial, data: Mapping[str, Any], published: Published) -> tuple[str, ...]:
    closes = "yes" if data["closed"] else f"{100 * data['determined']:.2f} % of the steps"
    equal = [f"every string to {data['every_string_to']}: {_share(data['listed'])}"]
    equal += [f"{length}: {_share(agreement)}" for length, agreement in data["drawn"].items()]
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
    return f"{agreement['equal']}/{agreement['strings']}{wrong}"


def _read(path: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not an automaton: {error}") from error
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise CheckpointError(f"{path} is not an automaton of version {VERSION}")
    if missing := sorted(set(_FIELDS) - set(data)):
        raise CheckpointError(f"{path} is damaged: it lacks {', '.join(missing)}")
    return data
