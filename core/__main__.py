"""``python -m core …``: the command line."""

import sys

try:
    from core.cli.app import main

    status = main()
except KeyboardInterrupt:  # while the packages were loading
    print("Interrupted.", file=sys.stderr)
    status = 1
sys.exit(status)
