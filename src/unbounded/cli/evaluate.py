"""`unbounded evaluate RUN`: score a trained run over length ranges."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbounded.cli.errors import missing_folder
from unbounded.cli.overlay import import_given, option_value, sorted_words
from unbounded.cli.parsing import Parser, add_hardened, add_import, parse
from unbounded.cli.verify import progress
from unbounded.errors import ConfigError, RunExistsError, collected
from unbounded.options import Range

_DESCRIPTION = """Score a trained run on fresh sequences of one or more length ranges.

examples:
  unbounded evaluate runs/copy-queue-lstm-*-seed1
  unbounded evaluate RUN --lengths 100:1000 --every 100
  unbounded evaluate RUN --lengths 65:128,129:256,257:512 --count 1000
  unbounded evaluate RUN --model.memory.slots 256

Exact match is the share of sequences that are wholly correct. Prefix accuracy is the mean share of
a target before its first error. Streams are scored for each n; an n is mastered if all its
sequences are correct. The report goes to a new file in RUN/evaluations/, or to --out.

--model.memory.OPTION VALUE changes a memory option on which no weight depends.
"""
_MEMORY = "model.memory."
# File names have at most 255 bytes.
_LONGEST_LABEL = 150


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded evaluate", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name in runs/.")
    made.add_argument(
        "--lengths",
        type=str | None,
        help="Ranges such as 65:128,129:256; default: the ranges of the run's report.",
    )
    made.add_argument("--split", type=str, default="test", help="train, validation or test.")
    made.add_argument(
        "--count",
        type=int | None,
        help="Sequences per range, or per n on streams; default: as in the report, where long "
        "ranges have fewer.",
    )
    made.add_argument(
        "--every", type=int | None, help="On streams: score every EVERY-th n of each range."
    )
    made.add_argument("--seed", type=int | None, help="Seed of the sequences; default: the run's.")
    add_hardened(made)
    made.add_argument(
        "--discretize",
        action="store_true",
        help="Use only the most likely action of each memory gate, at full weight.",
    )
    made.add_argument("--data", type=str, help="Folder of the corpus, if it moved.")
    add_import(made)
    made.add_argument("--device", type=str, default="cpu", help="cpu or cuda.")
    made.add_argument("--out", type=str, help="File for the JSON report.")
    made.add_argument("--overwrite", action="store_true", help="Replace the file of --out.")
    made.add_argument(
        "--quiet", action="store_true", help="Do not show progress of long evaluations."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Score the run, print the table, and write the report."""
    sorted_out = sorted_words(arguments, ("model", "evaluation"))
    texts, wrong = _memory_options(sorted_out.options)
    given, errors = parse(parser(arguments), sorted_out.rest)
    errors += [*sorted_out.errors, *wrong]
    from unbounded.checks import check_choice
    from unbounded.experiments.config.check import ranges
    from unbounded.tasks import SPLITS
    from unbounded.tasks.randomness import LAST_SEED

    with collected(errors, "--split"):
        check_choice("split", given.split, SPLITS)
    if given.count is not None and given.count < 1:
        errors.append(f"--count: expected at least 1, got {given.count}")
    if given.seed is not None and (error := Range(0, LAST_SEED).error("--seed", given.seed)):
        errors.append(error)
    with collected(errors, "--device"):
        check_choice("device", given.device, ("cpu", "cuda"))
    errors += missing_folder("--out", given.out)
    lengths = None
    if given.lengths is not None:
        with collected(errors, "--lengths"):
            lengths = ranges(given.lengths.split(","))
    if errors:
        raise ConfigError(errors)
    out = None if given.out is None else Path(given.out)
    if out is not None and out.exists() and not given.overwrite:
        raise RunExistsError(f"{out} exists; --overwrite replaces it")
    from unbounded.evaluation import details, table
    from unbounded.experiments.run.evaluate import evaluate_run
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.files import json_text, storage_errors, write_text

    import_given(given)
    folder = RunFolder.find(given.run)
    memory = {}
    if texts:
        model = folder.config().model
        memory = {
            name: option_value("model.memory", model.memory["name"], name, text, model)
            for name, text in texts.items()
        }
    report = evaluate_run(
        folder,
        lengths=lengths,
        split=given.split,
        count=given.count,
        seed=given.seed,
        every=given.every,
        data=given.data,
        hardened=given.hardened,
        discretize=given.discretize,
        device=given.device,
        memory=memory,
        looking=(lambda what, share: None) if given.quiet else progress("scoring {}, {:.0f}% done"),
    )
    if report["weights_batch"] is not None:
        print(
            f"this run is not finished: its newest readable checkpoint is scored, after batch "
            f"{report['weights_batch']} ({report['weights']})"
        )
    more = details(report)
    if more:
        print(f"{more}\n")
    print(table(report))
    if out is None:
        evaluations = folder / "evaluations"
        with storage_errors(evaluations, "making folder"):
            evaluations.mkdir(exist_ok=True)
        out = _unused(evaluations / f"{_name(report)}.json")
    write_text(out, json_text(report, indent=2) + "\n")
    print(f"report: {out}")
    return 0


def _memory_options(options: Sequence[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    """The texts of memory options, and one line for each other option of the model."""
    memory = {name.removeprefix(_MEMORY): text for name, text in options}
    errors = []
    for name, text in options:
        given = f"--{name} {text}".rstrip()
        if name.startswith("evaluation.") and not name.startswith("evaluation.memory"):
            other = name.removeprefix("evaluation.")
            errors.append(f"--{name}: a trained run has its config; did you mean --{other}?")
        elif not name.startswith(_MEMORY) or name == f"{_MEMORY}name" or not text:
            errors.append(f"--{name}: expected --{_MEMORY}OPTION and its value, got {given}")
    return memory, errors


def _name(report: dict[str, Any]) -> str:
    from unbounded.evaluation import metric_set_of

    head = report["split"]
    head += "-hardened" if report["weights"] == "model-hardened" else ""
    head += "-discrete" if report["discretized"] else ""
    head += "".join(f"-{name}{value}" for name, value in report["memory_options"].items())
    label = metric_set_of(report["metric_set"]).label(report["rows"])
    if len(label) > _LONGEST_LABEL:
        digest = hashlib.sha256(label.encode()).hexdigest()[:8]
        label = f"{len(report['rows'])}-ranges-{digest}"
    return "-".join(part for part in (head, label, f"seed{report['seed']}") if part)


def _unused(path: Path) -> Path:
    """The path, with a number appended to its name if the file exists."""
    for number in itertools.count(2):
        if not path.exists():
            break
        path = path.with_stem(f"{path.stem.partition('_again')[0]}_again{number}")
    return path
