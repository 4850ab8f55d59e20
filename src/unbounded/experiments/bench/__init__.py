"""`unbounded bench`: the time of a layer with a memory, compared with its controller alone."""
