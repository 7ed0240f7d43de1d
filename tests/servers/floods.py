"""`plain.py`, after writing some megabytes to stderr; takes the same options, and `--megabytes N` first."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from plain import made, options, serve

if __name__ == "__main__":
    parser = options()
    parser.add_argument("--megabytes", type=int, default=8)
    args = parser.parse_args()
    for _ in range(args.megabytes * 1024):
        sys.stderr.write("x" * 1023 + "\n")
    serve(made(args))
