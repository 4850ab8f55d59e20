"""`unbounded reproduce PAPER`: train the runs of a paper's table and write the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unbounded.cli.executors import (
    EXIT_CONTINUE,
    add_executor,
    executor_errors,
    executor_of,
    stopped,
)
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError
from unbounded.signals import Interrupted, exit_on_signals

if TYPE_CHECKING:
    from jsonargparse import Namespace

    from unbounded.experiments.trials.trial import Outcome, Trial
    from unbounded.studies.executors import Executor

_DESCRIPTION = """Train the runs of a paper's table, and write published and measured values.

examples:
  unbounded reproduce grefenstette2015 --dry-run
  unbounded reproduce grefenstette2015 --study laptop --jobs 2
  unbounded reproduce grefenstette2015 --only copy/queue
  unbounded reproduce joulin2015 --study paper --where model.hidden_size=50 --where seed=1,2
  unbounded reproduce joulin2015 --study paper --missing --dry-run
  unbounded reproduce grefenstette2015 --table-only
  unbounded reproduce joulin2015 --jobs 2 --data DIR
  unbounded reproduce matrix --executor slurm --jobs 16 --time_limit 2:00:00

Each trial is a run folder named by the hash of its config. Finished trials are not trained again;
after Ctrl-C, SIGTERM or a crash the same command resumes. Test data never stop or select a run.
OUT gets table.md, table.json, runs.jsonl.xz and figures; RUNS gets the run folders.
"""


def _reproduce(given: Namespace, executor: Executor) -> int:
    """Reproduce a paper's table with the options of `parser`, and return the exit code.

    It is 0 if every requested run finished, 1 if one failed, 130 after Ctrl-C, and 75 if another
    signal or the time limit stopped it with runs left.
    """
    # The imports and checks below take seconds.
    print(f"planning {given.paper}, study {given.study} ...", file=sys.stderr, flush=True)
    from unbounded.experiments.trials.paper_studies import load_study
    from unbounded.experiments.trials.selection import on_hardware, select

    study = load_study(given.paper, given.study, given.data)
    is_part = given.only is not None or bool(given.where)
    # Writing a table does not need a corpus.
    trials = () if given.table_only else select(study, given.only, given.where)
    trials = on_hardware(trials, given.device, given.matmul_precision)
    errors = [f"jobs: expected at least 1, got {given.jobs}"] if given.jobs < 1 else []
    errors += _idle_with_table_only(given) if given.table_only else []
    if errors:
        raise ConfigError(errors)
    runs, folder = Path(given.runs), Path(given.out or _default_out(given.paper, given.study))
    printed = trials if is_part else study.trials

    # Imported late, because these import torch and matplotlib.
    from unbounded.experiments.tables import reproduce as tables
    from unbounded.experiments.tables.runs_file import RUNS

    if given.missing:
        trials = tables.missing(trials, folder)
        if not trials:
            print(f"nothing is missing in {folder}")
            if given.dry_run:
                return 0
    if given.dry_run:
        print(tables.plan_text(study, trials, runs, folder, given.jobs))
        return 0
    if given.table_only:
        if not (folder / RUNS).is_file():
            raise ConfigError(f"table_only: no file {folder / RUNS}; train first, or give --out")
        _, written = tables.write_table(study, folder)
        _print_table(tables.table_of(study, printed, folder), folder)
        _name([*written, *tables.draw_tasks(study, folder)])
        return 0
    is_plain = executor.name == "pool" and executor.options.time_limit_s is None
    train = None if is_plain else partial(_train, executor)
    try:
        result = tables.reproduce(
            study, trials, jobs=given.jobs, runs=runs, out=folder, train=train
        )
    except Interrupted as error:
        return stopped(error, executor)
    _print_table(tables.table_of(study, printed, folder), folder)
    _name(list(result.written))
    for outcome in result.failed:
        print(f"failed: {outcome.trial.name}; see {outcome.log}", file=sys.stderr)
    return 1 if result.failed else 0


def _idle_with_table_only(given: Namespace) -> list[str]:
    """Errors of the options that have no effect with --table-only."""
    shows, trains = "the table shows the whole study", "nothing is trained"
    idle = {
        "only": (given.only is not None, shows),
        "where": (given.where, shows),
        "device": (given.device is not None, trains),
        "matmul_precision": (given.matmul_precision is not None, trains),
        "missing": (given.missing, shows),
    }
    errors = [
        f"{name} has no effect with table_only: {why}"
        for name, (is_given, why) in idle.items()
        if is_given
    ]
    both = "dry_run and table_only exclude each other; give one of them"
    return [both, *errors] if given.dry_run else errors


def _train(
    executor: Executor,
    trials: Sequence[Trial],
    runs: Path,
    jobs: int,
    *,
    watch: Callable[[list[Trial]], None],
    ended: Callable[[Outcome], None],
) -> None:
    """Have the runs trained by an executor."""
    from unbounded.experiments.tables.reproduce import say_now
    from unbounded.experiments.trials.workers import PlanWatch, plan_of
    from unbounded.studies.executors import run_plan

    if trials:
        watched = PlanWatch(trials, runs, retry=executor.options.retry)
        plan = plan_of(trials, runs)
        run_plan(executor, plan, watched, runs, watch=watch, ended=ended, say=say_now)


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded reproduce", description=_DESCRIPTION)
    made.add_argument("paper", type=str, help="Which paper; see `unbounded list`.")
    made.add_argument(
        "--study",
        type=str,
        default="laptop",
        help="laptop, or paper for the whole grid; some papers have more, which an unknown name "
        "lists.",
    )
    add_executor(made)
    made.add_argument(
        "--only",
        type=str,
        help="Train one task, one model or one TASK/MODEL of the study, and print its rows. Names "
        "may be shortened, as in parity/lstm.",
    )
    made.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="Train only runs that match all --where, as in model.hidden_size=50,100.",
    )
    made.add_argument("--runs", type=str, default="runs", help="Folder of the run folders.")
    made.add_argument(
        "--out",
        type=str,
        help="Folder of the results; default results/PAPER, or results/PAPER-STUDY.",
    )
    made.add_argument(
        "--data",
        type=str,
        help="Folder of ptb.train.txt, ptb.valid.txt, ptb.test.txt, for joulin2015 and yang2016.",
    )
    made.add_argument(
        "--device",
        type=str | None,
        help="Device of the runs: cpu, cuda or auto (a GPU if there is one, shared by all JOBS).",
    )
    made.add_argument(
        "--matmul-precision",
        type=str | None,
        help="Precision of float32 products: highest, high or medium (bfloat16, if the processor "
        "has AMX).",
    )
    made.add_argument(
        "--missing",
        action="store_true",
        help="Train only runs without a report in OUT (or without a verification, in studies that "
        "verify), as in a clone with results and no runs.",
    )
    made.add_argument("--dry-run", action="store_true", help="Print the plan without training.")
    made.add_argument(
        "--table-only",
        action="store_true",
        help="Write table and figures from the reports in OUT, without training.",
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Reproduce a table, and return the exit code."""
    try:
        given, errors = parse(parser(arguments), arguments)
        # The number of jobs is checked with the other options, so that all errors are reported at
        # once.
        errors += [line for line in executor_errors(given) if not line.startswith("jobs:")]
        if errors:
            raise ConfigError(errors)
    except ConfigError as error:
        hint = "where: takes one FIELD=VALUE; give --where once for each"
        asked = any(word.startswith("--where") for word in arguments)
        stray = asked and any("unrecognized" in line for line in error.errors)
        raise ConfigError([*error.errors, *([hint] if stray else [])]) from None
    with exit_on_signals(EXIT_CONTINUE):
        return _reproduce(given, executor_of(given, retry=True, figures=True))


def _default_out(paper: str, study: str) -> Path:
    return Path("results") / (paper if study == "laptop" else f"{paper}-{study}")


def _print_table(table: str, folder: Path) -> None:
    print(f"{table.rstrip()}\n\nthe whole table, every run line by line: {folder / 'table.md'}")


def _name(paths: Sequence[Path]) -> None:
    print("written:")
    for path in paths:
        print(f"  {path}")
