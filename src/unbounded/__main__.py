"""`python -m unbounded`."""

import sys

from unbounded.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
