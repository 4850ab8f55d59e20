"""`python -m unbounded.cli`."""

import sys

from unbounded.cli.main import main

sys.exit(main())
