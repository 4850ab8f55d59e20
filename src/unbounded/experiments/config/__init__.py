"""A run as typed data: presets, how they are put together, and what is wrong with them."""
