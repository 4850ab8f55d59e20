"""Tables of published and measured values, from the reports of runs."""
