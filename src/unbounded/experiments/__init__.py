"""Experiments from a config to a table: config/, run/, trials/, tables/, and the papers' data."""
