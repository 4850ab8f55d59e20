"""A worker process, which is started by the following command.

`python -m unbounded.experiments.trials.study_worker OPTIONS PLAN RUNS PARENT`.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from unbounded.errors import UnboundedError
from unbounded.experiments.trials.plan_file import read_plan
from unbounded.experiments.trials.work import WorkOptions, work

#: Exit code after bad input or a full disk, the same as for the commands.
EXIT_BAD = 2
_PARENT_POLL_S = 1.0


def main(arguments: list[str]) -> int:
    """Work on a plan. Return the exit code of `WorkResult`, or 2 if the disk is full.

    Args:
        arguments: options as JSON (`WorkOptions`), the plan's file, the folder of runs, and the id
            of the process that started this one.
    """
    began = time.monotonic()
    options = WorkOptions.from_json(arguments[0])
    _stop_with_parent(int(arguments[3]))
    for module in options.modules:
        importlib.import_module(module)
    # The modules are imported before the first run, so that their import is not attributed to that
    # run. The objects of these modules are then excluded from garbage collection. The tensors of
    # each step trigger garbage collection, which took 6 % of the time of a small training.
    importlib.import_module("unbounded.experiments.run.run")
    gc.freeze()
    if options.time_limit_s is not None:  # the imports count
        rest = options.time_limit_s - (time.monotonic() - began)
        options = replace(options, time_limit_s=rest)
    try:
        trials = read_plan(Path(arguments[1]))
        result = work(trials, Path(arguments[2]), options, lambda text: print(text, flush=True))
    except UnboundedError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return EXIT_BAD
    return result.exit_code


def _stop_with_parent(parent: int) -> None:
    """Stop this process with SIGTERM if its parent process no longer exists.

    Args:
        parent: id of the parent, which may have ended before this process could ask for it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
