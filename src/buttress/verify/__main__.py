"""The command as a module: ``python -m buttress.verify``, or of a copy of the folder ``python -m verify``."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
