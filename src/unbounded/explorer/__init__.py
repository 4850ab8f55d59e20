"""The explorer: one HTML file that runs a trained network and shows its memory.

The page runs the network itself. The source of the page is in explorer/, in TypeScript. The source
is built as template.html in this folder. `run_data` converts a model and its task to the page's
data. `page.html` writes one or several runs. The format is described in docs/explorer.md.

This module imports nothing, so the page of built-in networks needs no torch.
"""
