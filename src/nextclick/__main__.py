"""`python -m nextclick`: the command line, whichever Python it is installed in."""

import sys

from nextclick.cli import main

if __name__ == "__main__":
    sys.exit(main())
