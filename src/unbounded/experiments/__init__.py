"""From a config to a table: config/, run/, trials/, tables/, and what the papers print as data."""
