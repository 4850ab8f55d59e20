"""`unbounded bench`: compare the times of a layer with and without its memory."""
