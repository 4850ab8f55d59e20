"""Studies and restarts: many runs, each in a separate process."""
