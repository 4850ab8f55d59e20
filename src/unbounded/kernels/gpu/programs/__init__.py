"""What runs on the device, in Triton: phases of a step, and the two programs made of them."""
