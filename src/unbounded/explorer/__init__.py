"""The explorer: one HTML file that runs a trained network and shows its memory.

The page runs the network itself. Its source is explorer/ in TypeScript, built as template.html in
this folder. `run_data` converts a model and its task to the page's data; `page.html` writes one or
several runs. docs/explorer.md describes the format.

This module imports nothing, so the page of built-in networks needs no torch.
"""
