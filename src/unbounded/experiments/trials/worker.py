"""One trial in a process of its own: `python -m ...worker [OPTIONS] CONFIG.json RUNS`."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unbounded.errors import RunBusyError, UnboundedError
from unbounded.experiments.config.schema import from_dict
from unbounded.training.signals import Interrupted

EXIT_FAILED = 1
EXIT_BUSY = 4

_PARENT_LOOK_S = 1.0
_KEEP = "--keep="
_VERIFY = "--verify="


def main(arguments: list[str]) -> int:
    """Train the config in a file under the folder of runs, the two last arguments, or go on.

    With "--overwrite" before them the run is trained anew, with "--keep=BATCHES" the checkpoint of
    that batch stays, with "--verify=OPTIONS" it is verified
    after that, if it was not, the options as JSON; every other word before them is a module of the
    user's own that is imported.

    Returns:
        0 when the run is finished, 1 when it failed, 4 when another process trains it, 128 + the
        signal's number when it was stopped; the run is saved then.
    """
    *options, config_file, runs = arguments
    config = from_dict(json.loads(Path(config_file).read_text(encoding="utf-8")))
    overwrite = "--overwrite" in options
    keep_at = [int(each.removeprefix(_KEEP)) for each in options if each.startswith(_KEEP)]
    _stop_with_parent()
    # Only now: torch and accelerate take seconds to load, and a parent may be gone by then.
    from unbounded.experiments.run.folder import folder_of
    from unbounded.experiments.run.run import train_run
    from unbounded.experiments.run.run_lock import is_begun

    for module in options:
        if not module.startswith("--"):
            importlib.import_module(module)
    # What is loaded by now stays: looking through it for garbage again and again, as the tensors of
    # each step make Python do, was 6 % of a small training.
    gc.freeze()

    folder = folder_of(Path(runs), config)
    try:
        result = train_run(
            config,
            root=Path(runs),
            # A new run is no attempt to go on with one, of which the log would say something.
            resume=not overwrite and (os.path.lexists(folder) or is_begun(folder)),
            overwrite=overwrite,
            keep_at=keep_at,
            share=True,
        )
        for option in options:
            if option.startswith(_VERIFY):
                _verify(result.folder, json.loads(option.removeprefix(_VERIFY)))
    except Interrupted as interrupted:
        return interrupted.exit_code
    except RunBusyError as error:
        print(error, file=sys.stderr)
        return EXIT_BUSY
    except UnboundedError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _verify(folder: Path, options: Mapping[str, Any]) -> None:
    from unbounded.experiments.run.verification import is_verified, verify_run
    from unbounded.training.signals import stop_requests
    from unbounded.verification import VerifyOptions

    if not is_verified(folder, options):
        with stop_requests() as request:
            verify_run(
                folder,
                VerifyOptions(**options),
                overwrite=True,
                look=lambda name, share: request.check(),
            )


def _stop_with_parent() -> None:
    """End this run as Ctrl-C would when the process that started it is gone, killed for one."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
