"""How many seeds that nobody has used become exact: train, harden, score far beyond training.

    python benchmarks/new_seeds.py copy 101:110 reversal 101:105 --runs runs/new_seeds
    python benchmarks/new_seeds.py anbn 101:120 --runs runs/new_seeds
    python benchmarks/new_seeds.py dyck 201:291:10 --runs runs/new_seeds
    python benchmarks/new_seeds.py --table results/new_seeds.json > results/new_seeds.md

Each seed is trained by its preset, hardened and scored on the test split, by the commands that a
user types. What is there already is not done again, so that the command can be interrupted. A seed
that has not solved its task by the preset's own budget is in the table as not solved, and is not
hardened. A seed of dyck is the first of up to four restarts, which end with the first that is
solved on validation.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from unbounded.experiments.config.compose import preset_of
from unbounded.tasks import TASKS

#: Lengths and strings of each: 1, 2, 4, 10 and 100 times the training length.
WORDS = (
    ("8:64", 1000),
    ("65:128", 1000),
    ("129:256", 1000),
    ("640:640", 1000),
    ("6400:6400", 100),
)
Scored = tuple[tuple[str, int], ...]
#: As far as 3, 5, 10 and 100 times the n of training; n and strings of each n.
COUNTS = (("2:60", 199), ("100:100", 199), ("200:200", 199), ("2000:2000", 199))
SCORED = {"copy": WORDS, "reversal": WORDS, "anbn": COUNTS}
#: Options of hardening for tasks whose preset has none; those of `unbounded reproduce exact`.
HARDENING = {"anbn": {"batches": 60, "every": 1, "far": 5}}


def run_command(*words: str) -> int:
    """One command of unbounded, with one thread; its exit code."""
    return subprocess.run([sys.executable, "-P", "-m", "unbounded", *words], check=False).returncode


def read_spans(words: list[str]) -> list[tuple[str, range]]:
    """Tasks and their seeds, from TASK FIRST:LAST[:STEP] pairs.

    Raises:
        ValueError: a task is unknown, or a pair is not complete or has no seed.
    """
    spans = []
    for task, span in itertools.zip_longest(words[::2], words[1::2]):
        if task not in TASKS:
            raise ValueError(f"unknown task {task}")
        match = re.fullmatch(r"(\d+):(\d+)(?::([1-9]\d*))?", span or "")
        if match is None or int(match[1]) > int(match[2]):
            raise ValueError(f"{task}: expected FIRST:LAST[:STEP] after it, got {span}")
        spans.append((task, range(int(match[1]), int(match[2]) + 1, int(match[3] or 1))))
    if not spans:
        raise ValueError("expected TASK FIRST:LAST[:STEP] pairs, or --table FILE")
    return spans


def run_folder(root: Path, seed: int) -> Path | None:
    return next((each for each in sorted(root.glob(f"*-seed{seed}")) if each.is_dir()), None)


def rule_of(preset: dict[str, Any]) -> str:
    """The rule of a preset: batches between two steps of its hardening, and its additions."""
    hardening = {**preset["hardening"], **HARDENING.get(preset["task"]["name"], {})}
    names = {"logit_noise": "noise", "cool": "cool"}
    others = [f"{word} {hardening[name]:g}" for name, word in names.items() if hardening.get(name)]
    if preset["model"].get("output_initialization") == "small_normal":
        others.append("small_normal")
    return ", ".join([f"{hardening['every']}", *others])


def rule_of_run(task: str, folder: Path) -> str:
    """The rule by which a run was trained and hardened; the preset's before it is hardened."""
    preset = preset_of(task)
    report, options = (folder / each for each in ("report.json", "hardening/options.json"))
    model = json.loads(report.read_text())["config"]["model"] if report.is_file() else {}
    hardening = json.loads(options.read_text()) if options.is_file() else {}
    return rule_of(
        {
            "task": preset["task"],
            "model": model or preset["model"],
            "hardening": hardening or preset["hardening"],
        }
    )


def one_seed(task: str, seed: int, runs: Path) -> dict[str, Any]:
    """Train, harden and score one seed; its row."""
    root = runs / task
    folder = run_folder(root, seed)
    if folder is None or not (folder / "report.json").is_file():
        again = ["--resume"] if folder is not None else []
        words = ["--seed", str(seed), "--hardening", "none", "--hardware.threads", "1"]
        limits = ["--evaluation.multiples", "null", "--evaluation.symbols", "null"]
        if task in HARDENING:
            limits = ["--evaluation.lengths", SCORED[task][0][0]]
        run_command("train", task, *words, *limits, "--runs", str(root), *again)
        folder = run_folder(root, seed)
    if folder is None:
        return {"task": task, "seed": seed, "rule": rule_of(preset_of(task))}
    row: dict[str, Any] = {"task": task, "seed": seed, "rule": rule_of_run(task, folder)}
    if not (folder / "report.json").is_file():
        return row
    report = json.loads((folder / "report.json").read_text())
    row |= {
        "batches": report["batches"],
        "minutes": round(report["minutes"], 1),
        "stopped": report["stopped"],
        "torch": report["versions"]["torch"],
    }
    if not report["stopped"].startswith("solved"):
        return row
    if "hardened" not in report:
        own = HARDENING.get(task, {}).items()
        options = [word for name, value in own for word in (f"--{name}", str(value))]
        if run_command("harden", str(folder), "--quiet", *options):
            return row
        report = json.loads((folder / "report.json").read_text())
    hardened = report["hardened"]
    taken = not hardened["harm"]
    row |= {
        "hardened": taken,
        "hardening_batches": hardened["batches"],
        "hardening_minutes": round(hardened["minutes"], 1),
        "hardening_stopped": hardened["stopped"],
        "worse": hardened["worse"],
        "comparison": hardened["comparison"],
        "commit": hardened.get("commit"),
        "rows": {},
    }
    for lengths, count in SCORED[task]:
        out = folder / f"scored-{lengths.replace(':', '-')}-{count}.json"
        if not out.is_file():
            which = ["--hardened"] if taken else []
            words = ["--lengths", lengths, "--count", str(count), "--out", str(out)]
            run_command("evaluate", str(folder), *which, *words)
        (scored,) = json.loads(out.read_text())["rows"]
        row["rows"][lengths] = [scored["correct"], scored["count"]]
    return row


#: Restarts of a seed of dyck: with four, a seed takes at most 20 minutes of a core.
RESTARTS = 4


def dyck_seed(seed: int, runs: Path) -> dict[str, Any]:
    """Train the restarts of one seed until one is solved; the row of the best by validation."""
    root = runs / "dyck"
    run_command(
        "train", "dyck", "--seed", str(seed), "--restarts", str(RESTARTS), "--until_solved",
        "--hardware.threads", "1", "--quiet", "--resume", "--runs", str(root),
    )  # fmt: skip
    (folder,) = root.glob(f"*-seed{seed}-restarts")
    restarts = json.loads((folder / "restarts.json").read_text())
    report = json.loads((root / restarts["best"] / "report.json").read_text())
    return {
        "task": "dyck",
        "seed": seed,
        "restarts": [
            {name: one[name] for name in ("seed", "batches", "minutes", "stopped")}
            for one in restarts["restarts"]
        ],
        "best": report["config"]["seed"],
        "follows": report["read_head_follows_path"],
        "rows": {
            row["lengths"]: {
                "auc": row["auc"],
                "least_auc": min(band["auc"] for band in row["per_n"]),
                "correct": [row["correct"], row["count"]],
            }
            for row in report["rows"]
        },
        "commit": report["commit"],
        "torch": report["versions"]["torch"],
    }


def dyck_table(rows: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown on the seeds of dyck."""
    reached = sum(row["rows"]["41:100"]["least_auc"] >= 0.999 for row in rows)
    ranges = list(rows[0]["rows"])
    columns = [f"AUC {lengths} / least" for lengths in ranges]
    columns += [f"correct {lengths}" for lengths in ranges]
    lines = [
        "",
        "## Dyck words",
        "",
        f"The preset of dyck, at most {RESTARTS} restarts a seed, which end with the first that",
        "has 200 of 200 validation words of semi-length 41 to 100 correct twice in a row. A band",
        "has ten lengths and 200 test words. AUC / least: of all words, and of the words of the",
        "worst band. Correct: correct words.",
        f"{reached} of {len(rows)} seeds have an AUC of at least 0.999 in every band to 100.",
        "",
        f"| seed | restarts | batches | minutes | {' | '.join(columns)} |",
        "| --- | --- | --- | --- |" + " --- |" * len(columns),
    ]
    for row in rows:
        cells = [f"{one['auc']:.4f} / {one['least_auc']:.4f}" for one in row["rows"].values()]
        cells += ["{} of {}".format(*one["correct"]) for one in row["rows"].values()]
        batches, minutes = (
            sum(one[name] for one in row["restarts"]) for name in ("batches", "minutes")
        )
        lines.append(
            f"| {row['seed']} | {len(row['restarts'])} | {batches} | {minutes:.1f} "
            f"| {' | '.join(cells)} |"
        )
    return lines


def is_exact_on_shifted(task: str, comparison: list[dict[str, Any]]) -> bool:
    """Whether a hardened model is correct on all shifted inputs of its comparison.

    Besides the sets of other symbols, these are the strings below the training lengths.
    """
    shortest = int(SCORED[task][0][0].partition(":")[0])
    lengths = re.compile(r"lengths (\d+):\d+")
    shifted = [
        row
        for row in comparison
        if not (match := lengths.fullmatch(row["set"])) or int(match[1]) < shortest
    ]
    return bool(shifted) and all(row["hardened"] == row["count"] for row in shifted)


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a line for each rule, then a line for each seed."""
    dyck = [row for row in rows if row["task"] == "dyck"]
    rows = [row for row in rows if row["task"] != "dyck"]
    lines = [
        "# Seeds that nobody had used: how many become exact",
        "",
        "Made by `python benchmarks/new_seeds.py`, then `--table`. Rows of earlier rules were",
        "made at earlier commits, whose presets had these rules. A rule is the number of",
        "batches between two steps of a hardening. At 60 batches every other bucket of batches",
        "has strings below the training lengths; at 15 one string in nine is shorter. Reversal",
        "103 to 105 have 15 batches a step and the shorter buckets. The rule of 60 was chosen",
        "by the validation strings of copy 105 to 109. Noise is an offset of random sign on the",
        "logits of the gates in each gradient step. It was chosen by the validation strings of",
        "copy 113, 121 and 122. With `small_normal`, output embeddings are initially N(0,",
        "0.3^2) instead of N(0, 1). This was chosen by the training loss of copy 125 and 129.",
        "125 and 130 were ended by hand, after 6300 and 15 600 batches. Each seed is trained by",
        "the preset of its task, and hardened if it is solved. The cells have the number of",
        "correct test strings, of the hardened model if it is accepted, else of the trained",
        "model. Shifted inputs are five sets of 200 validation strings: of two symbols at two",
        "ranges, of one repeated symbol, of fewer symbols than in training, and of one symbol.",
        "On aⁿbⁿ, n is at most 19 in training. Cells are correct strings at all n of the range,",
        "and the shifted inputs are strings ab alone.",
        "",
        "| task | rule | seeds | solved | hardened | exact at 1 to 10 times | exact at 100 times "
        "| exact on shifted inputs |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for task, rule in dict.fromkeys((row["task"], row["rule"]) for row in rows):
        own = [row for row in rows if (row["task"], row["rule"]) == (task, rule)]
        done = [row for row in own if row.get("rows")]
        taken = [row for row in done if row["hardened"]]

        def exact(row: dict[str, Any], *lengths: str) -> bool:
            return all(row["rows"][each][0] == row["rows"][each][1] for each in lengths)

        near = sum(exact(row, *(each for each, _ in SCORED[task][:-1])) for row in taken)
        far = sum(exact(row, SCORED[task][-1][0]) for row in taken)
        shifted = sum(is_exact_on_shifted(task, row["comparison"]) for row in taken)
        solved = sum(row["stopped"].startswith("solved") for row in done)
        lines.append(
            f"| {task} | {rule} | {len(own)} | {solved} | {len(taken)} | {near} of {len(taken)} "
            f"| {far} of {len(taken)} | {shifted} of {len(taken)} |"
        )
    for scored in dict.fromkeys(SCORED[row["task"]] for row in rows):
        lines += seeds_table(scored, [row for row in rows if SCORED[row["task"]] == scored])
    return "\n".join(lines + (dyck_table(dyck) if dyck else []))


def seeds_table(scored: Scored, rows: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown: a row for each seed of the tasks with these scored lengths."""
    heads = " | ".join(lengths for lengths, _ in scored)
    lines = [
        "",
        f"| task | seed | rule | batches | minutes | hardened | {heads} | worse on |",
        "| --- | --- | --- | --- | --- | --- | " + "--- | " * (len(scored) + 1),
    ]
    for row in rows:
        if not row.get("rows"):
            state = f"{row['batches']}, not solved" if "stopped" in row else "not finished"
            lines.append(
                f"| {row['task']} | {row['seed']} | {row['rule']} | {state} "
                f"| {row.get('minutes', '')} |" + " |" * (len(scored) + 2)
            )
            continue
        scores = " | ".join(f"{correct} of {count}" for correct, count in row["rows"].values())
        minutes = f"{row['minutes']} + {row['hardening_minutes']}"
        lines.append(
            f"| {row['task']} | {row['seed']} | {row['rule']} "
            f"| {row['batches']} + {row['hardening_batches']} | {minutes} "
            f"| {'yes' if row['hardened'] else 'no'} | {scores} "
            f"| {', '.join(row['worse']) or '–'} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("seeds", nargs="*", help="TASK FIRST:LAST[:STEP] pairs")
    parser.add_argument("--runs", type=Path, default=Path("runs/new_seeds"))
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    try:
        if given.table:
            print(table(json.loads(given.table.read_text())))
            return
        spans = read_spans(given.seeds)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = []
    for task, seeds in spans:
        one = (
            dyck_seed
            if task == "dyck"
            else lambda seed, runs, task=task: one_seed(task, seed, runs)
        )
        for seed in seeds:
            rows.append(one(seed, given.runs))
            (given.runs / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
