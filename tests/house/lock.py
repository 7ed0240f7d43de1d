"""Makes the lock files anew: `python -m tests.house.lock` (needs `uv`, which is in requirements/tools.txt).

Each holds everything that one place installs, with exact versions and hashes, for every Python and platform that we
support. `--upgrade` takes the newest of everything; without it, what is locked stays where it still fits.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / "requirements"
BUILD: Final = "requirements/build.in"
LOCKS: Final = {
    "dev": ("pyproject.toml", BUILD, "--extra", "dev", "--extra", "postgres", "--extra", "patterns"),
    "runtime": ("pyproject.toml", "-c", "requirements/dev.txt"),
    "image": (
        "pyproject.toml", "requirements/image.in", "--extra", "postgres", "--extra", "patterns", "--extra", "otel",
        "-c", "requirements/dev.txt",
    ),
    "build": (BUILD, "-c", "requirements/dev.txt"),
    "keyring": ("requirements/keyring.in", "-c", "requirements/dev.txt"),
    "tools": ("requirements/tools.in",),
}  # fmt: skip
"""The file, and what goes into it. The first decides for the others, so that what is tested is what is shipped."""


def main(arguments: list[str]) -> int:
    uv = shutil.which("uv")
    if uv is None:
        print("uv is not on the path: pip install --require-hashes -r requirements/tools.txt", file=sys.stderr)
        return 1
    for name, sources in LOCKS.items():
        command = [uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--python-version", "3.11"]
        command += ["--custom-compile-command", "python -m tests.house.lock", *arguments, *sources]
        subprocess.run([*command, "--output-file", f"requirements/{name}.txt"], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
