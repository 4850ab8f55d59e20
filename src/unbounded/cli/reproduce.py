"""`unbounded reproduce PAPER`: train the runs of a paper's table and write the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
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


def reproduce(
    paper: str,
    study: str = "laptop",
    jobs: int = 1,
    only: str | None = None,
    where: str | Sequence[str] = (),
    runs: str = "runs",
    out: str | None = None,
    data: str | None = None,
    device: str | None = None,
    matmul_precision: str | None = None,
    missing: bool = False,
    dry_run: bool = False,
    table_only: bool = False,
    executor: Executor | None = None,
) -> int:
    """Reproduce a paper's table.

    Args:
        paper: which paper; see `unbounded list`.
        study: laptop, paper for the whole grid, or another study of the paper.
        jobs: number of concurrent runs, one thread each.
        only: train one task, one model or one TASK/MODEL, and print its rows and columns; table.md
            has the whole study.
        where: train only runs that match every FIELD=VALUE or FIELD=VALUE,VALUE of a run's config,
            and print their rows.
        runs: folder of the run folders.
        out: folder of the results; None for results/PAPER (study laptop) or results/PAPER-STUDY.
        data: folder of Penn Treebank, for tables that need it; None skips these rows.
        device: device of the runs: cpu, cuda or auto (a GPU if there is one, for any `jobs`);
            None for the study's device, auto.
        matmul_precision: precision of float32 products: highest, high or medium, as in
            torch.set_float32_matmul_precision; None for the precision of the study.
        missing: train only runs without a report in OUT, or without a verification that the study
            requires; a report's run folder may be absent.
        dry_run: print the plan without training.
        table_only: write the table and figures from the reports in OUT, without training.
        executor: who trains; None for a pool of `jobs` processes.
    Returns:
        0 if every requested run finished, 1 if one failed, 130 after Ctrl-C, 75 if another signal
        or the time limit stopped it with runs left.
    Raises:
        ChoiceError: unknown paper, study, task or model; the message lists the valid names.
        ConfigError: an option is out of range, or two exclude each other.
    """
    # The imports and checks below take seconds.
    print(f"planning {paper}, study {study} ...", file=sys.stderr, flush=True)
    from unbounded.experiments.trials.paper_studies import load_study
    from unbounded.experiments.trials.selection import on_hardware, select

    chosen_study = load_study(paper, study, data)
    # Writing a table does not need a corpus.
    trials = () if table_only else select(chosen_study, only, where)
    trials = on_hardware(trials, device, matmul_precision)
    errors = [f"jobs: expected at least 1, got {jobs}"] if jobs < 1 else []
    if dry_run and table_only:
        errors.append("dry_run and table_only exclude each other; give one of them")
    if only is not None and table_only:
        errors.append("only has no effect with table_only: the table shows the whole study")
    if where and table_only:
        errors.append("where has no effect with table_only: the table shows the whole study")
    for name, option in (("device", device), ("matmul_precision", matmul_precision)):
        if option is not None and table_only:
            errors.append(f"{name} has no effect with table_only: nothing is trained")
    if missing and table_only:
        errors.append("missing has no effect with table_only: the table shows the whole study")
    if errors:
        raise ConfigError(errors)
    folder = Path(out) if out else _default_out(paper, study)
    printed = trials if only is not None or where else chosen_study.trials

    # Imported late, because these import torch and matplotlib.
    from unbounded.experiments.tables import reproduce as work
    from unbounded.experiments.tables.runs_file import RUNS
    from unbounded.studies.executors import Executor

    if missing:
        trials = work.missing(trials, folder)
        if not trials:
            print(f"nothing is missing in {folder}")
            if dry_run:
                return 0
    if dry_run:
        print(work.plan(chosen_study, trials, Path(runs), folder, jobs))
        return 0
    if table_only:
        if not (folder / RUNS).is_file():
            raise ConfigError(f"table_only: no file {folder / RUNS}; train first, or give --out")
        _, written = work.write_table(chosen_study, folder)
        _print_table(work.table_of(chosen_study, printed, folder), folder)
        _name([*written, *work.draw_tasks(chosen_study, folder)])
        return 0
    executor = executor or Executor(jobs=jobs)
    is_plain = executor.name == "pool" and executor.options.time_limit_s is None
    train = None if is_plain else partial(_train, executor)
    try:
        result = work.reproduce(
            chosen_study, trials, jobs=jobs, runs=Path(runs), out=folder, train=train
        )
    except Interrupted as error:
        return stopped(error, executor)
    _print_table(work.table_of(chosen_study, printed, folder), folder)
    _name(list(result.written))
    for outcome in result.failed:
        print(f"failed: {outcome.trial.name}; see {outcome.log}", file=sys.stderr)
    return 1 if result.failed else 0


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
        help="Train one task, one model or one TASK/MODEL of the study, and print its rows.",
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
    options = given.as_dict()
    with exit_on_signals(EXIT_CONTINUE):
        options["executor"] = executor_of(given, retry=True, figures=True)
        return reproduce(**{name: options[name] for name in signature(reproduce).parameters})


def _default_out(paper: str, study: str) -> Path:
    return Path("results") / (paper if study == "laptop" else f"{paper}-{study}")


def _print_table(table: str, folder: Path) -> None:
    print(f"{table.rstrip()}\n\nthe whole table, every run line by line: {folder / 'table.md'}")


def _name(paths: Sequence[Path]) -> None:
    print("written:")
    for path in paths:
        print(f"  {path}")
