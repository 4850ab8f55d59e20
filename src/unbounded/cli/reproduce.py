"""`unbounded reproduce PAPER`: train what a table needs and write it, published beside measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError

_DESCRIPTION = """Train what a paper's table needs and write it: published and measured, every seed.

examples:
  unbounded reproduce grefenstette2015 --dry-run
  unbounded reproduce grefenstette2015 --tier laptop --jobs 2
  unbounded reproduce grefenstette2015 --only copy/queue
  unbounded reproduce joulin2015 --tier paper --where model.hidden_size=50 --where seed=1,2
  unbounded reproduce joulin2015 --tier paper --missing --dry-run
  unbounded reproduce grefenstette2015 --table-only
  unbounded reproduce joulin2015 --jobs 2 --data DIR

A trial is a run folder named by the hash of its config: what is finished is not trained again, and
after Ctrl-C, SIGTERM or a crash the same command goes on. Nothing measured on test data ends a
run or chooses one. OUT gets table.md, table.json, reports and figures; RUNS the run folders.
"""


def reproduce(
    paper: str,
    tier: str = "laptop",
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
) -> int:
    """Reproduce a paper's table.

    Args:
        paper: which paper; see `unbounded list`.
        tier: how much of it: laptop, paper for the whole grid, or another one that the paper has.
        jobs: runs at once, one thread each.
        only: train one task, one model or one TASK/MODEL, and print its rows and columns; table.md
            has the whole tier.
        where: train what fits each of these: FIELD=VALUE or FIELD=VALUE,VALUE of a run's config.
            The rows that have such runs are printed.
        runs: folder of the run folders.
        out: folder of the results; None for results/PAPER (tier laptop) or results/PAPER-TIER.
        data: folder of Penn Treebank, for tables that need it; None leaves these rows as they are.
        device: of the runs: cpu, cuda, or auto, a GPU where there is one, whatever JOBS is;
            None for the tier's own, auto.
        matmul_precision: of the runs' products in float32: highest, high or medium, as of
            torch.set_float32_matmul_precision; None for the tier's own.
        missing: train only what OUT has no report of, or no verification where there is to be one;
            the run folder of a report need not be there.
        dry_run: show what would be trained and stop.
        table_only: write the table and figures from the reports in OUT, without training.
    Returns:
        0 when every run asked for is finished, 1 when one failed, 130 or 143 when stopped.
    Raises:
        ChoiceError: no such paper, tier, task or model; the message lists them and the closest.
        ConfigError: an option is out of range, or two exclude each other.
    """
    # The imports and checks take seconds.
    print(f"planning {paper}, tier {tier} ...", file=sys.stderr, flush=True)
    from unbounded.experiments.trials.selection import on_machine, select
    from unbounded.experiments.trials.tiers import load_tier

    chosen_tier = load_tier(paper, tier, data)
    # A table needs no corpus.
    trials = () if table_only else select(chosen_tier, only, where)
    trials = on_machine(trials, device, matmul_precision)
    faults = [f"jobs: expected at least 1, got {jobs}"] if jobs < 1 else []
    if dry_run and table_only:
        faults.append("dry_run and table_only exclude each other; give one of them")
    if only is not None and table_only:
        faults.append("only has no effect with table_only: the table shows the whole tier")
    if where and table_only:
        faults.append("where has no effect with table_only: the table shows the whole tier")
    for name, option in (("device", device), ("matmul_precision", matmul_precision)):
        if option is not None and table_only:
            faults.append(f"{name} has no effect with table_only: nothing is trained")
    if missing and table_only:
        faults.append("missing has no effect with table_only: the table shows the whole tier")
    if faults:
        raise ConfigError(faults)
    folder = Path(out) if out else _default_out(paper, tier)
    printed = trials if only is not None or where else chosen_tier.trials

    # Only now: these bring torch and matplotlib along.
    from unbounded.experiments.tables import reproduce as work
    from unbounded.training.signals import Interrupted

    if missing:
        trials = work.missing(trials, folder)
        if not trials:
            print(f"nothing is missing in {folder}")
            if dry_run:
                return 0
    if dry_run:
        print(work.plan(chosen_tier, trials, Path(runs), folder, jobs))
        return 0
    if table_only:
        if not any((folder / "reports").glob("*.json")):
            raise ConfigError(
                [f"table_only: no report is in {folder / 'reports'}; train first, or give --out"]
            )
        _, written = work.write_table(chosen_tier, folder)
        _print_table(work.table_of(chosen_tier, printed, folder), folder)
        _name([*written, *work.draw_tasks(chosen_tier, folder)])
        return 0
    try:
        result = work.reproduce(chosen_tier, trials, jobs=jobs, runs=Path(runs), out=folder)
    except Interrupted as error:
        print(f"\n{error}; every run is saved, the same command goes on", file=sys.stderr)
        return error.exit_code
    _print_table(work.table_of(chosen_tier, printed, folder), folder)
    _name(list(result.written))
    for outcome in result.failed:
        print(f"failed: {outcome.trial.name}; see {outcome.log}", file=sys.stderr)
    return 1 if result.failed else 0


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded reproduce", description=_DESCRIPTION)
    made.add_argument("paper", type=str, help="Which paper; see `unbounded list`.")
    made.add_argument(
        "--tier",
        type=str,
        default="laptop",
        help="How much of it: laptop, or paper for all of it; of grefenstette2015 also small "
        "and long, of joulin2015 parts, lists, halving and choices.",
    )
    made.add_argument("--jobs", type=int, default=1, help="Runs at once, one thread each.")
    made.add_argument(
        "--only",
        type=str,
        help="Train one task, one model or one TASK/MODEL of the tier, and print its rows.",
    )
    made.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="Train what fits, as in model.hidden_size=50,100; given again, what fits each.",
    )
    made.add_argument("--runs", type=str, default="runs", help="Folder of the run folders.")
    made.add_argument(
        "--out",
        type=str,
        help="Folder of the results; by default results/PAPER, or results/PAPER-TIER.",
    )
    made.add_argument(
        "--data",
        type=str,
        help="Folder of ptb.train.txt, ptb.valid.txt, ptb.test.txt, for joulin2015 and yang2016.",
    )
    made.add_argument(
        "--device",
        type=str | None,
        help="Of the runs: cpu, cuda or auto, a GPU where there is one, for all JOBS at once.",
    )
    made.add_argument(
        "--matmul-precision",
        type=str | None,
        help="Of the runs' products in float32: highest, high or medium (bfloat16 numbers, where "
        "the processor has AMX).",
    )
    made.add_argument(
        "--missing",
        action="store_true",
        help="Train only what OUT has no report of (of tiers that verify, or no verification), as "
        "in a clone that has results and no runs.",
    )
    made.add_argument("--dry-run", action="store_true", help="Show what would be trained and stop.")
    made.add_argument(
        "--table-only",
        action="store_true",
        help="Write table and figures from the reports in OUT, without training.",
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Reproduce; the exit code of `reproduce`."""
    try:
        given, faults = parse(parser(arguments), arguments)
        if faults:
            raise ConfigError(faults)
    except ConfigError as error:
        hint = "where: takes one FIELD=VALUE; give --where once for each"
        asked = any(word.startswith("--where") for word in arguments)
        stray = asked and any("unrecognized" in fault for fault in error.faults)
        raise ConfigError([*error.faults, *([hint] if stray else [])]) from None
    return reproduce(**given.as_dict())


def _default_out(paper: str, tier: str) -> Path:
    return Path("results") / (paper if tier == "laptop" else f"{paper}-{tier}")


def _print_table(table: str, folder: Path) -> None:
    print(f"{table.rstrip()}\n\nthe whole table, every run line by line: {folder / 'table.md'}")


def _name(paths: Sequence[Path]) -> None:
    print("written:")
    for path in paths:
        print(f"  {path}")
