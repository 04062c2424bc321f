"""``python -m core …``: the command line."""

import gc
import os
import sys

if sys.getfilesystemencoding() != "utf-8":  # LANG=C: paths and journals have letters that ASCII does not have
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

gc.disable()  # until the command is imported: imports leave no garbage, and looking for it is a tenth of their time
try:
    from core.cli.app import main

    status = main()
except KeyboardInterrupt:  # while the packages were loading
    print("Interrupted.", file=sys.stderr)
    status = 1
sys.exit(status)
