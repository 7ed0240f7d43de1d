"""A real keyring of the system: GNOME's daemon behind a D-Bus of its own, with the packages that speak to it.

They are no part of the environment of the tests: there, every gateway would put its keys into the keyring of whoever
runs them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.gateway import clean_environment, until

ROOT = Path(__file__).parents[2]
NEEDED = ("dbus-daemon", "gnome-keyring-daemon")
BUS = "DBUS_SESSION_BUS_ADDRESS"
PASSWORD = b"of-the-person-41c7\n"
WAIT = 60.0
HAS = "import secretstorage as s; c = s.dbus_init(); print(s.get_default_collection(c).is_locked())"


def missing() -> str | None:
    """Why there can be none here."""
    gone = [each for each in NEEDED if shutil.which(each) is None]
    return f"not installed: {', '.join(gone)}" if gone else None


def packages(folder: Path) -> Path | None:
    """Where what `requirements/keyring.txt` locks is; `None` where it is not to be had."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--require-hashes", "--target", str(folder)]
    done = subprocess.run([*command, "-r", "requirements/keyring.txt"], cwd=ROOT, timeout=600, check=False)
    return folder if done.returncode == 0 else None


@dataclass
class SystemKeyring:
    """`env` is for whoever is to use it."""

    folder: Path
    env: dict[str, str]
    daemon: subprocess.Popen[bytes] | None = None

    def unlock(self) -> None:
        """As a login to the desktop does. A daemon that has not opened its keyring after a while is started anew."""
        for patience in (20.0, 20.0, WAIT):
            self.take_away()
            self.daemon = daemon = subprocess.Popen(
                ["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"], env=self.environment,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            assert daemon.stdin is not None
            daemon.stdin.write(PASSWORD)
            daemon.stdin.close()
            try:
                until(lambda: self.run("-c", HAS) == "False", timeout=patience, what="an open keyring")
                return
            except AssertionError:
                if patience == WAIT:
                    raise

    def take_away(self) -> None:
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(WAIT)
            self.daemon = None

    def read(self, name: str) -> str:
        return self.run("-c", "import sys, keyring; print(keyring.get_password('mcpproxy', sys.argv[1]))", name)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        return done.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(**self.env)


@contextlib.contextmanager
def system_keyring(folder: Path, packages: Path) -> Iterator[SystemKeyring]:
    folder.mkdir(mode=0o700, parents=True)
    bus = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", f"--address=unix:path={folder}/bus", "--print-address=1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert bus.stdout is not None
    address = bus.stdout.readline().decode().strip()
    own = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    path = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
    found = SystemKeyring(folder, {BUS: address, "PYTHONPATH": path, **own})
    try:
        found.unlock()
        yield found
    finally:
        found.take_away()
        bus.terminate()
        bus.wait(WAIT)
        bus.stdout.close()
