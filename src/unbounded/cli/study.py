"""`unbounded study FILE`: train the runs of a custom study, and report them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jsonargparse import Namespace

from unbounded.cli.executors import (
    EXIT_CONTINUE,
    add_executor,
    executor_errors,
    executor_of,
    stopped,
)
from unbounded.cli.names import names_of
from unbounded.cli.overlay import Words, compose_config, import_modules, sorted_words
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ChoiceError, ConfigError, RunExistsError, collected
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.presets import PRESETS
from unbounded.files import write_text
from unbounded.signals import Interrupted, exit_on_signals

if TYPE_CHECKING:
    from unbounded.experiments.trials.study_file import StudyFile
    from unbounded.experiments.trials.trial import Trial
    from unbounded.studies.study_folder import StudyFolder

_DESCRIPTION = """Train the runs of a study, and report them. A study is a YAML file, or options.

examples:
  unbounded study --new mine.yaml
  unbounded study mine.yaml --dry-run
  unbounded study mine.yaml --jobs 2
  unbounded study mine.yaml --shard 3/16
  unbounded study mine.yaml --executor slurm --jobs 16 --time_limit 4:00:00 --slurm partition=cpu
  unbounded study mine.yaml --table latex
  unbounded study mine.yaml --plot test_exact_match --against training.learning_rate
  unbounded study copy --grid training.learning_rate=5e-3,1e-3 --grid model.memory=stack,queue \\
    --seeds 0:10 --training.batches 500

The same command starts a study, continues it, and shows its table. Any number of commands on any
number of machines may work on one folder at once; each run is trained once. After Ctrl-C the exit
code is 130. It is 75 if another signal or --time_limit stopped it with runs left: run the same
command again.
OUT gets study.yaml, plan.jsonl, runs/ and table.md.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded study", description=_DESCRIPTION)
    made.add_argument(
        "study",
        type=str,
        nargs="?",
        help="A study's file, a task whose preset is varied, or a paper (`unbounded reproduce`).",
    )
    made.add_argument("--new", type=str, metavar="FILE", help="Write an example to FILE.")
    made.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="OPTION=VALUE,VALUE",
        help="With a task: an axis.",
    )
    made.add_argument("--seeds", type=str, help="With a task: 0:10 (0 to 9) or 1,2,5.")
    made.add_argument("--data", type=str, help="With a task: file or folder of its data.")
    made.add_argument("--out", type=str, help="Folder of the study; default studies/NAME.")
    made.add_argument("--runs", type=str, help="Folder of the run folders; default OUT/runs.")
    made.add_argument("--dry-run", action="store_true", help="Print the plan without training.")
    add_executor(made)
    made.add_argument(
        "--log_with", type=str, help="Trackers of each run, as tensorboard,wandb,mlflow."
    )
    made.add_argument("--retry", action="store_true", help="Train failed runs again.")
    made.add_argument("--extend", action="store_true", help="Add new runs of a changed study.")
    made.add_argument(
        "--table",
        type=str,
        nargs="?",
        const="md",
        help="Only write the table: md (default), csv, parquet or latex; all but md need the "
        "extra `tables`.",
    )
    made.add_argument(
        "--plot", type=str, metavar="METRIC", help="Only plot a metric, minutes or batches."
    )
    made.add_argument("--against", type=str, help="With --plot: the axis; default the last one.")
    made.add_argument(
        "--by", type=str, help="With --plot: axes that make lines, as A,B; default all others."
    )
    made.add_argument(
        "--page", action="store_true", help="Only write OUT/index.html: all runs, with curves."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Plan, train and report.

    Return 0 if every run is finished, 1 if one failed, 75 if some are left.
    """
    if any(word in names_of("papers") for word in arguments[:1]):  # the package has this study
        from unbounded.cli import reproduce

        return reproduce.run(arguments)
    words = sorted_words(list(arguments))
    given, errors = parse(parser(arguments), words.rest)
    errors += words.errors
    if given.new is not None:
        return _new(given, errors)
    _check_flags(given, errors)
    if errors:
        raise ConfigError(errors)
    with exit_on_signals(EXIT_CONTINUE):
        study = _study(given, words)
        import_modules(study.modules)
        from unbounded.studies.study_folder import StudyFolder

        out = Path(given.out) if given.out else Path("studies") / study.name
        folder = StudyFolder(out, None if given.runs is None else Path(given.runs))
        if given.table is not None or given.plot is not None or given.page:
            return _read(given, study, folder)
        return _train(given, study, folder)


def _new(given: Namespace, errors: list[str]) -> int:
    if given.study is not None:
        errors.append(f"new: expected one file, got {given.study!r} too")
    if errors:
        raise ConfigError(errors)
    path = Path(given.new)
    if path.exists():
        raise RunExistsError(f"{path} exists; name another file")
    text = files("unbounded.studies").joinpath("template.yaml").read_text(encoding="utf-8")
    write_text(path, text.replace("THIS_FILE", str(path)))
    print(f"wrote {path}; unbounded study {path} --dry-run shows its runs")
    return 0


def _check_flags(given: Namespace, errors: list[str]) -> None:
    from unbounded.studies.frame import FORMATS

    if given.study is None:
        errors.append("study: expected a study's file or a task; --new FILE writes an example")
    errors += executor_errors(given)
    errors += [
        f"{name}: has a meaning with --plot alone"
        for name in ("against", "by")
        if getattr(given, name) is not None and given.plot is None
    ]
    reads = [f"--{name}" for name in ("table", "plot", "page") if getattr(given, name)]
    trains = [f"--{name}" for name in ("retry", "extend", "dry_run") if getattr(given, name)]
    if reads and trains:
        reading = ", ".join(reads)
        errors.append(f"{', '.join(trains)}: has no meaning with {reading}, which trains nothing")
    if given.table is not None and given.table not in FORMATS:
        errors.append(f"table: {ChoiceError('format', given.table, FORMATS)}")


def _study(given: Namespace, words: Words) -> StudyFile:
    """Build the study of a file, or of a task with options.

    Raises:
        ConfigError: lists all errors.
    """
    from unbounded.experiments.trials.study_file import make_study_file, read_study

    path = Path(given.study)
    if path.is_file():
        odd = [f"--{name}" for name, _ in words.options]
        odd += ["--grid"] * bool(given.grid)
        odd += [f"--{name}" for name in ("seeds", "data") if getattr(given, name) is not None]
        if odd:
            raise ConfigError(f"{', '.join(odd)}: expected in the file; write it into {path}")
        return read_study(path)
    if given.study not in PRESETS:
        if path.suffix in (".yaml", ".yml"):
            raise ConfigError(f"study: there is no file {path}; --new {path} writes an example")
        raise ChoiceError(
            "study", given.study, PRESETS, "Give a YAML file, or a task: `unbounded list`."
        )
    return make_study_file(given.study, _typed(given, words))


def _typed(given: Namespace, words: Words) -> dict[str, Any]:
    """Make the content of a study's file from the options of a command line."""
    from unbounded.experiments.trials.study_file import option_error, parse_seeds

    axes: dict[str, Any] = {}
    errors = []
    for text in given.grid:
        name, equals, values = text.partition("=")
        name = name.strip()
        if not equals or not name or not values.strip():
            errors.append(f"grid: expected OPTION=VALUE,VALUE, got {text!r}")
        elif name in axes:
            errors.append(
                f"grid: expected one axis for option {name}, got two; give --grid {name} once"
            )
        elif name != "task" and (error := option_error(name)):
            errors.append(f"grid: {error}")
        else:
            axes[name] = plain_yaml.load_or_text(f"[{values}]")
    composed = compose_config(given.study, words.options)
    errors += composed.errors
    errors += [
        f"{name}: an option and an axis; leave one of them out"
        for name, _ in words.options
        if name in axes
    ]
    if not axes and not given.grid:
        errors.append("grid: expected an axis, as in --grid model.memory=stack,queue; got none")
    with collected(errors):
        seeds = parse_seeds(given.seeds) if given.seeds is not None else [1]
    if errors:
        raise ConfigError(errors)
    base: dict[str, Any] = {}
    for name, _ in words.options:
        value: Any = composed.data
        for part in name.split("."):
            value = value[part] if isinstance(value, Mapping) else None
        base[name] = value
    data: dict[str, Any] = {"preset": given.study, "axes": axes, "seeds": seeds}
    if "task" in axes:
        del data["preset"]
    if given.data is not None:
        data["data"] = given.data
    return {**data, "base": base} if base else data


def _trials(study: StudyFile, *, is_file: bool) -> tuple[Trial, ...]:
    from unbounded.experiments.trials.study_file import study_trials
    from unbounded.studies.run_results import check_table_metric
    from unbounded.studies.session import check_trials

    trials = study_trials(study)
    try:
        check_trials(trials)
    except ConfigError as error:  # data is an option on the command line, and a key in a file
        lines = [line.removeprefix("--") if is_file else line for line in error.errors]
        raise ConfigError(lines) from None
    check_table_metric(study.table.metric, (trial.config for trial in trials))
    return trials


def _train(given: Namespace, study: StudyFile, folder: StudyFolder) -> int:
    print(f"planning {study.name} ...", file=sys.stderr, flush=True)
    from unbounded.experiments.run.trackers import tracker_errors, tracker_names
    from unbounded.experiments.trials.claims import newest_claims
    from unbounded.experiments.trials.work import LOGS, WORKERS
    from unbounded.experiments.trials.workers import PlanWatch
    from unbounded.studies.executors import JOBS, run_plan
    from unbounded.studies.missing import role_warnings
    from unbounded.studies.session import plan_text, progress_of

    trials = _trials(study, is_file=Path(given.study).is_file())
    if study.useless and not folder.study_file.is_file():
        raise ConfigError([f"{given.study}: {line}" for line in study.useless])
    for line in study.useless:  # of a study that began before
        print(f"warning: {line}", file=sys.stderr, flush=True)
    for warning in role_warnings(trial.config for trial in trials):
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    log_with = tracker_names(given.log_with) or study.log_with
    if errors := tracker_errors(log_with):
        raise ConfigError(errors)
    if given.dry_run:
        folder.check(study, trials, extend=given.extend)
        title = f"{study.name}: {study.about}" if study.about else study.name
        print(plan_text(title, trials, folder.runs, given.jobs))
        return 0
    trials = folder.begin(study, trials, extend=given.extend)
    executor = executor_of(
        given,
        retry=given.retry,
        figures=study.figures,
        modules=study.modules,
        log_with=log_with,
    )
    watched = PlanWatch(trials, folder.runs, retry=given.retry)
    claims = newest_claims(folder.runs)
    try:
        with progress_of(folder.runs, trials, watched, given.jobs, _say) as (watch, ended):
            is_left = run_plan(
                executor,
                folder.plan_file,
                watched,
                folder.runs,
                watch=watch,
                ended=ended,
                say=_say,
            )
    except Interrupted as error:
        return stopped(error, executor)
    code = _report(study, folder)
    if is_left:
        left = len(watched.waiting)
        if newest_claims(folder.runs) == claims:
            places = (folder.path / JOBS, folder.runs / LOGS / WORKERS)
            where = " and ".join(str(place) for place in places if place.is_dir())
            print(
                f"every worker has ended before it began one of the {left} runs; the workers' "
                f"messages are in {where or 'their own logs'}",
                file=sys.stderr,
            )
            return 1
        print(
            f"every worker has ended, and {left} runs are left; the same command resumes",
            file=sys.stderr,
        )
        return EXIT_CONTINUE
    if watched.waiting:
        left = len(watched.waiting)
        whose = "are of other shards" if given.isolated else "are with other workers"
        print(f"{left} runs {whose}; --watch shows their progress", file=sys.stderr)
    return code


def _report(study: StudyFile, folder: StudyFolder) -> int:
    """Print and write the table, and return 1 if a run failed."""
    from unbounded.studies.frame import write_tables
    from unbounded.studies.run_results import study_runs
    from unbounded.studies.study_table import table_of

    runs = study_runs(folder)
    table = table_of(study, runs)
    written = write_tables("md", table, runs, folder)
    print(table.markdown())
    print("written:", *(f"  {path}" for path in written), sep="\n")
    failed = [run for run in runs if run.state == "failed"]
    for run in failed[:_MOST_FAILED]:
        print(f"failed: {run.name}: {run.error.splitlines()[-1]}", file=sys.stderr)
    if failed:
        logs, runs_word = folder.runs / "logs", "run" if len(failed) == 1 else "runs"
        print(
            f"{len(failed)} {runs_word} failed; the logs are in {logs}; --retry trains them again",
            file=sys.stderr,
        )
    return 1 if failed else 0


_MOST_FAILED: Final = 10


def _read(given: Namespace, study: StudyFile, folder: StudyFolder) -> int:
    """Write a table, a plot or the page, without training."""
    from unbounded.studies.frame import latex, write_tables
    from unbounded.studies.run_results import study_runs
    from unbounded.studies.study_table import table_of

    runs = study_runs(folder)
    written: list[object] = []
    if given.table is not None:
        table = table_of(study, runs, longer=given.table in ("csv", "parquet"))
        written += write_tables(given.table, table, runs, folder)
        print(latex(table) if given.table == "latex" else table.markdown())
    if given.plot is not None:
        from unbounded.studies.plot import draw_study

        by = None if given.by is None else [name for name in given.by.split(",") if name]
        written += draw_study(
            study, runs, folder.figures, metric=given.plot, against=given.against, by=by
        )
    if given.page:
        from unbounded.studies.page import write_study_page

        written.append(write_study_page(study, runs, folder))
    print("written:", *(f"  {path}" for path in written), sep="\n")
    return 0


def _say(text: str) -> None:
    """Print a line immediately, also into a pipe or a file, because runs may take hours."""
    print(text, flush=True)
