"""Builds the image of the Dockerfile without Docker, and starts servers in it.

    python -m tests.journeys.image            as root, on Debian, with debootstrap; some minutes
    python -m tests.journeys.image --keep DIR keep what was built

Each instruction of the Dockerfile is carried out in a Debian chroot, and then what `docker run` and `docker exec`
would start is started there: as the image's user, with the image's environment, in a process namespace of its own.
What differs from a real build: the base is Debian's own Python (3.11) instead of the image that FROM names, and there
are no layers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.gateway import until

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "image"
PORT = "18081"
TRUST = {
    name: os.environ[name]
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "HTTP_PROXY", "PIP_CERT")
    if name in os.environ
}
"""Where packages come through a proxy with a certificate of its own."""
SERVERS = {
    "time": "uvx mcp-server-time",
    "context7": "npx -y @upstash/context7-mcp",
    "playwright": "npx -y @playwright/mcp",
    "chrome-devtools": "npx -y chrome-devtools-mcp",
}


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(instruction, arguments), continuation lines joined and comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        name, arguments = line.split(maxsplit=1)
        yield name, arguments


@dataclass
class Stage:
    """One FROM, and what was made of it."""

    root: Path
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    )
    cwd: str = "/"
    user: str = "root"
    said: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> None:
        self._chroot(["/bin/sh", "-c", command], {**self.environment, **TRUST}, check=True)

    def _chroot(self, command: list[str], environment: Mapping[str, str], check: bool) -> int:
        inside = f"cd {shlex.quote(self.cwd)} && exec {shlex.join(command)}"
        found = subprocess.run(
            ["chroot", f"--userspec={self.user}", str(self.root), "/bin/sh", "-c", inside], env=dict(environment)
        )
        if check and found.returncode:
            sys.exit(f"failed with {found.returncode}: {shlex.join(command)}")
        return found.returncode

    def copy(self, arguments: str, stages: Mapping[str, Stage]) -> None:
        words = shlex.split(arguments)
        source_root = ROOT
        if words[0].startswith("--from="):
            source_root = stages[words.pop(0).removeprefix("--from=")].root
        *sources, target = words
        there = self.root / os.path.normpath(os.path.join(self.cwd, target)).lstrip("/")
        for source in sources:
            path = source_root / source.lstrip("/")
            into = there / path.name if target.endswith("/") or len(sources) > 1 else there
            into.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", f"{path}/." if path.is_dir() else str(path), str(into)], check=True)


@contextmanager
def mounted(root: Path) -> Iterator[None]:
    """The kernel's own file systems, as a container has them."""
    names = ("proc", "dev")
    for name in names:
        subprocess.run(["mount", "--rbind", f"/{name}", str(root / name)], check=True)
        subprocess.run(["mount", "--make-rslave", str(root / name)], check=True)
    try:
        yield
    finally:
        for name in names:
            subprocess.run(["umount", "--recursive", "--lazy", str(root / name)], check=False)


def base() -> Path:
    """A Debian with Python, as the base images are; made once."""
    made = CACHE / "bookworm"
    if not (made / "usr/local/bin/python").exists():
        shutil.rmtree(made, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        wanted = "--include=python3,python3-venv,python3-pip,ca-certificates"
        subprocess.run(["debootstrap", "--variant=minbase", wanted, "bookworm", str(made)], check=True)
        for marker in made.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        (made / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    return made


def build(where: Path, arguments: Mapping[str, str]) -> Stage:
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    where.mkdir(parents=True, exist_ok=True)
    for number, (name, rest) in enumerate(instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))):
        print(f"-- {name} {rest[:140]}", flush=True)
        began = time.monotonic()
        if name == "FROM":
            root = where / f"stage{len(stages)}"
            subprocess.run(["cp", "-a", str(base()), str(root)], check=True)
            shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
            shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs/ca-certificates.crt")
            stage = Stage(root)
            stages[rest.partition(" AS ")[2] or str(number)] = stage
            continue
        assert stage is not None
        if name == "RUN":
            with mounted(stage.root):
                stage.run(rest)
        elif name == "COPY":
            stage.copy(rest, stages)
        elif name == "WORKDIR":
            stage.cwd = os.path.join(stage.cwd, rest)
            (stage.root / stage.cwd.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "ENV":
            for pair in shlex.split(rest):
                key, _, value = pair.partition("=")
                stage.environment[key] = value.replace("$PATH", stage.environment["PATH"])
        elif name == "ARG":
            key, _, value = rest.partition("=")
            stage.environment[key] = arguments.get(key, value.strip('"'))
        elif name == "USER":
            stage.user = rest
        else:
            stage.said[name] = rest
        print(f"   {time.monotonic() - began:.1f} s", flush=True)
    assert stage is not None
    return stage


class Container:
    """`docker run` of what was built, with `docker exec`."""

    def __init__(self, image: Stage) -> None:
        self._image = image
        self._environment = {
            **image.environment, **TRUST,
            "MCPPROXY_MCP_TOKEN": secrets.token_hex(32), "MCPPROXY_LISTEN": f"0.0.0.0:{PORT}",
        }  # fmt: skip
        entry, command = (json.loads(image.said[name]) for name in ("ENTRYPOINT", "CMD"))
        inside = (
            f"mount -t proc proc /proc && cd {image.cwd} && exec setpriv --reuid={image.user} --regid={image.user} "
        )
        inside += f"--clear-groups --no-new-privs {shlex.join([*entry, *command])}"
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        self._process = subprocess.Popen(
            [*alone, "chroot", str(image.root), "/bin/sh", "-c", inside],
            env=self._environment,
        )  # fmt: skip

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        inside = f"cd {self._image.cwd} && {shlex.join(command)}"
        return subprocess.run(
            ["chroot", f"--userspec={self._image.user}", str(self._image.root), "/bin/sh", "-c", inside],
            env=self._environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    def healthy(self) -> bool:
        command = json.loads(self._image.said["HEALTHCHECK"].partition("CMD ")[2])
        return self.execute(*command).returncode == 0

    def stop(self) -> int:
        """As `docker stop`: a signal to process 1, which is the child of `unshare`."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), 15)
        return self._process.wait(30)


def servers(container: Container) -> dict[str, str]:
    """Each server's state, once none of them is connecting any more."""

    def settled() -> dict[str, str] | None:
        found = json.loads(container.execute("mcpproxy", "upstream", "list", "-o", "json").stdout)["servers"]
        states = {row["name"]: row["state"] for row in found}
        return states if "connecting" not in states.values() else None

    return until(settled, 300, "the servers to connect")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, metavar="DIR", help="build here, and leave it there")
    parser.add_argument("--packages", default="", help="the build argument PACKAGES, such as chromium")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=CACHE.parent if CACHE.parent.exists() else None) as scratch:
        began = time.monotonic()
        image = build(chosen.keep or Path(scratch), {"PACKAGES": chosen.packages})
        size = subprocess.run(
            ["du", "-sm", str(image.root)], check=True, capture_output=True, text=True
        ).stdout.split()[0]
        print(f"== built in {time.monotonic() - began:.0f} s, {size} MB with Debian and Python")
        with mounted(image.root):
            for turn in ("a new volume", "the volume of before"):
                container = Container(image)
                try:
                    until(container.healthy, 60, "the health check")
                    print(f"== {turn}: healthy; node {container.execute('node', '--version').stdout.strip()}")
                    for name, command in SERVERS.items():
                        began = time.monotonic()
                        if turn == "a new volume":
                            added = container.execute("mcpproxy", "upstream", "add", name, "--", *command.split())
                            print(f"   added: {(added.stdout + added.stderr).strip().splitlines()[-1:]}")
                        states = servers(container)
                        print(f"   {name}: {states.get(name)} after {time.monotonic() - began:.1f} s")
                        if states.get(name) != "connected":
                            print(container.execute("mcpproxy", "upstream", "logs", name).stdout[-2000:])
                    found = container.execute(
                        "mcpproxy", "call", "tool-read", "--tool-name", "time:get_current_time",
                        "--json_args", '{"timezone": "UTC"}',
                    )  # fmt: skip
                    print(f"   a call: {found.returncode} {' '.join(found.stdout.split())}")
                finally:
                    print(f"   stopped with {container.stop()}")


if __name__ == "__main__":
    main()
