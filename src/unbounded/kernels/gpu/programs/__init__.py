"""The device code in Triton: phases of a step, and the two programs that combine them."""
