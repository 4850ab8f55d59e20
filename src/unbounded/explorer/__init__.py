"""The explorer: a trained network in one HTML file, in which it can be watched at work.

The page (explorer/ beside src/, in TypeScript; built, template.html in this folder) runs the
network itself. What is written into it is made here: `run_data` of a model and its task,
`page.html` of one run or several. docs/explorer.md describes the format.

Nothing is imported here, so that the page of built-in machines needs no torch.
"""
