"""Neural networks with external memory for PyTorch."""

__version__ = "0.1.0"
