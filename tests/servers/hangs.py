"""Reads everything and never answers. `--pid-file FILE` records its pid."""

from __future__ import annotations

import os
import sys

if "--pid-file" in sys.argv:
    with open(sys.argv[sys.argv.index("--pid-file") + 1], "a") as file:
        file.write(f"{os.getpid()}\n")
for _ in sys.stdin:
    pass
