"""`unbounded bench`: what a memory costs beside its controller, measured side by side."""
