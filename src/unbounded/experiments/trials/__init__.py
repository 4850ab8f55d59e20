"""Studies and restarts, which train many runs in separate processes."""
