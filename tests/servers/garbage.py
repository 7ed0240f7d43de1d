"""`plain.py`, after printing things that are no JSON on stdout."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from plain import made, options, serve

if __name__ == "__main__":
    sys.stdout.buffer.write(b"Welcome to my server!\n\n{oops\n\xff\xfe\n[]\nnull\n")
    sys.stdout.buffer.flush()
    serve(made(options().parse_args()))
