"""Many runs: studies and restarts, each trial a process of its own."""
