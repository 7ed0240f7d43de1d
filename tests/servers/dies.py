"""Ends at once with status 7, after a last word on stderr."""

from __future__ import annotations

import sys

print("first I thought I could", file=sys.stderr)
print("cannot go on: no database", file=sys.stderr)
sys.exit(7)
