"""From the reports of runs to tables, published values beside measured ones."""
