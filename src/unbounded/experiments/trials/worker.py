"""Train one trial in a separate process: `python -m ...worker [OPTIONS] CONFIG.json RUNS`."""

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

_PARENT_POLL_S = 1.0
_VERIFY = "--verify="


def main(arguments: list[str]) -> int:
    """Train or resume a run; the last two arguments are a config file and the folder of runs.

    Options before them: "--overwrite" replaces the run; "--verify=OPTIONS", with JSON options,
    verifies the run after training if it is not verified. Any other argument is a module of custom
    components to import.

    Returns:
        0 if the run is finished, 1 if it failed, 4 if another process trains it, and 128 + the
        signal's number if a signal stopped it; the run is saved then.
    """
    *options, config_file, runs = arguments
    config = from_dict(json.loads(Path(config_file).read_text(encoding="utf-8")))
    overwrite = "--overwrite" in options
    _stop_with_parent()
    # Imported late: torch and accelerate take seconds to load, and the parent may die meanwhile.
    from unbounded.experiments.run.run import train_run
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.experiments.run.run_lock import is_begun

    for module in options:
        if not module.startswith("--"):
            importlib.import_module(module)
    # Exclude the loaded modules from garbage collection, which took 6 % of a small training because
    # each step's tensors trigger it.
    gc.freeze()

    folder = RunFolder.of(Path(runs), config)
    try:
        result = train_run(
            config,
            root=Path(runs),
            # A new run does not resume; else the log would contain a notice about it.
            resume=not overwrite and (os.path.lexists(folder) or is_begun(folder)),
            overwrite=overwrite,
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
    """Stop this run with SIGTERM if its parent process is gone, for example killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
