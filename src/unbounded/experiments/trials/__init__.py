"""Many runs: tiers and restarts, each trial a process of its own."""
