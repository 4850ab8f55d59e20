"""`python -m unbounded.cli`."""

import sys

from unbounded.__main__ import start

sys.exit(start())
