"""The shell blocks of the documents, run word for word, page by page, each in a home where nobody has been.

    python -m tests.journeys.documents            what is run, what is not and why, counted
    python -m tests.journeys.documents --run PAGE run one page, and print what a person would have seen

A page is read from top to bottom. A comment directly before a block, which readers do not see, says what the
block alone does not:

    <!-- not run: REASON -->              it cannot run here
    <!-- first: COMMANDS -->              what has to be there before it
    <!-- file: PATH -->                   the block is the text of this file
    <!-- fails: 3 -->                     the exit statuses of the commands that are meant to fail, in their order
    <!-- answers: y -->                  what a person types meanwhile
    <!-- TEXT stands for: COMMANDS -->    an example value, and where the real one comes from
    <!-- runs until Ctrl-C: TEXT -->      each line has a terminal of its own, until this text is there
    <!-- meanwhile: COMMANDS -->          typed beside it, again and again, until it shows its text
    <!-- no gateway -->                   before the first block: the page starts its own, or needs none

A block of `mcpproxy serve` has a terminal of its own too; the next blocks wait until the gateway is ready. Unless a
page starts a gateway, one is started for it. What a page leaves running is found, ended, and counts as wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.house.markdown import PAGES, ROOT, SHELL, Fence, Page, simple_commands
from tests.support import node
from tests.support.gateway import SERVERS, clean_environment
from tests.support.ports import kept_port
from tests.support.shell import Ran, Terminal

COMMAND_TIMEOUT = 240.0
"""A package comes from a registry."""
TURN_TIMEOUT = 900.0
"""As long as the other pages with this port may take."""
CLIENTS = {"claude": "@anthropic-ai/claude-code-*/claude", "codex": "@openai/codex-*/vendor/*/bin/codex"}
ENDS_WITHIN = 20.0
AS_OF = "2026-11-18"
"""Packages that came later do not decide a test."""
READY = "is ready"
_STANDS_FOR = re.compile(r"(.+) stands for: (.+)", re.DOTALL)


def pages() -> list[Page]:
    """README, tutorials and how-tos that have something to type."""
    wanted = [page for page in PAGES if str(page) == "README.md" or page.path.parent.name in ("tutorial", "howto")]
    return [page for page in wanted if any(fence.language in SHELL for fence in page.fences)]


def why_not(fence: Fence) -> str | None:
    return next((note.partition(":")[2].strip() for note in fence.notes if note.startswith("not run:")), None)


def script(fence: Fence) -> str:
    """What a person would type of it: all of a `bash` block, the lines after `$` of a `console` one."""
    if fence.language != "console":
        return fence.text
    return "\n".join(line[2:] for line in fence.text.splitlines() if line.startswith("$ "))


def serves(fence: Fence) -> bool:
    return any(words[0].endswith("mcpproxy") and words[1:2] == ["serve"] for words in simple_commands(script(fence)))


@dataclass
class Step:
    """One block, run."""

    block: str
    output: str
    seconds: float
    wrong: str = ""


@dataclass
class Reader:
    """Somebody who reads a page and types what it says."""

    page: Page
    home: Path
    environment: dict[str, str]
    checkout: Path
    steps: list[Step] = field(default_factory=list)
    terminals: list[Terminal] = field(default_factory=list)

    def read(self) -> list[Step]:
        shell = [fence for fence in self.page.fences if fence.language in SHELL and why_not(fence) is None]
        needs_one = not any(serves(fence) or "no gateway" in fence.notes for fence in shell)
        try:
            if needs_one and shell:
                self._serve("mcpproxy serve")
            typing = self._open()
            for fence in self.page.fences:
                self._do(typing, fence)
        finally:
            for opened in reversed(self.terminals):
                opened.close()
            left = end_processes_of(self.home)
        if left:
            self.steps.append(Step("when all was closed", "\n".join(left), 0, "it left processes running"))
        return self.steps

    def _open(self) -> Terminal:
        opened = Terminal(self.home, self.checkout, self.environment)
        self.terminals.append(opened)
        return opened

    def _do(self, typing: Terminal, fence: Fence) -> None:
        notes = dict(_split(note) for note in fence.notes)
        if why_not(fence) is not None or (fence.language not in SHELL and "file" not in notes):
            return
        if "first" in notes:
            self._typed(typing, notes["first"], "before: ")
        if "file" in notes:
            path = self.checkout / notes["file"].replace("~", str(self.home), 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fence.text)
            return
        text = self._filled(typing, script(fence), fence)
        if serves(fence):
            self._serve(text)
        elif "runs until Ctrl-C" in notes:
            for line in text.splitlines():
                self._watched(typing, line, notes["runs until Ctrl-C"], notes.get("meanwhile", ":"))
        else:
            self._typed(typing, text, "", notes.get("fails", ""), notes.get("answers", ""))

    def _filled(self, typing: Terminal, text: str, fence: Fence) -> str:
        for note in fence.notes:
            if found := _STANDS_FOR.fullmatch(note):
                real = typing.run(found[2], timeout=COMMAND_TIMEOUT).output.strip()
                if found[1] not in text or not real:
                    raise AssertionError(f"{self.page}: nothing for {found[1]!r}, or it is not in the block: {real!r}")
                text = text.replace(found[1], real)
        return text

    def _watched(self, typing: Terminal, line: str, said: str, meanwhile: str) -> None:
        began, wrong = time.monotonic(), ""
        opened = self._open()
        opened.begin(line)
        while said not in (seen := opened.seen()):
            if time.monotonic() - began > COMMAND_TIMEOUT:
                wrong = f"it did not show {said!r}"
                break
            typing.run(meanwhile, timeout=COMMAND_TIMEOUT)
            with contextlib.suppress(TimeoutError):
                opened.until(said, 1)
        opened.close()
        self.steps.append(Step(line, seen, time.monotonic() - began, wrong))

    def _serve(self, text: str) -> None:
        began = time.monotonic()
        opened = self._open()
        opened.begin(text)
        try:
            seen, wrong = opened.until(READY, COMMAND_TIMEOUT), ""
        except (TimeoutError, EOFError, OSError) as error:
            seen, wrong = str(error), "the gateway did not become ready"
        self.steps.append(Step(text, seen, time.monotonic() - began, wrong))

    def _typed(self, typing: Terminal, text: str, what: str, fails: str = "", answers: str = "") -> None:
        began = time.monotonic()
        meant = tuple(int(status) for status in fails.split())
        try:
            ran = typing.run(text, timeout=COMMAND_TIMEOUT, answers=answers)
            wrong = "" if ran.failed == meant else f"failed with {ran.failed}, meant were {meant}"
        except TimeoutError as error:
            ran, wrong = Ran(str(error), ()), "it did not end"
            typing.interrupt()
        self.steps.append(Step(what + text, ran.output, time.monotonic() - began, wrong))


def _split(note: str) -> tuple[str, str]:
    name, _, value = note.partition(":")
    return name, value.strip()


@contextlib.contextmanager
def reader(page: Page, scratch: Path) -> Iterator[Reader]:
    """A fresh home beside a clean copy of this checkout. Where the page says port 8080 it has that one."""
    home, checkout = scratch / "home", scratch / "mcpproxy"
    scratch.mkdir(exist_ok=True)
    copy(checkout)
    typed = "".join(fence.text for fence in page.fences if fence.language in SHELL and why_not(fence) is None)
    environment = fresh_environment(scratch)
    fresh_home(home)
    for name in {words[0] for words in simple_commands(typed)} & set(CLIENTS):
        packages = node.packages(ROOT / "tests" / "journeys" / "npm_clients")
        (scratch / "programs" / name).symlink_to(next(packages.glob(CLIENTS[name])))
    with contextlib.ExitStack() as held:
        if "8080" in typed:
            held.enter_context(alone_on_the_default_port())
        else:
            with kept_port() as port:
                environment["MCPPROXY_LISTEN"] = f"127.0.0.1:{port}"
        yield Reader(page, home, environment, checkout)


def fresh_environment(scratch: Path) -> dict[str, str]:
    """As after a login: nothing set for a gateway, `mcpproxy` and the servers of the test environment on the path, and
    packages at the versions that this repository locks."""
    left_out = ("PIP_NO_INDEX", "PIP_FIND_LINKS", "VIRTUAL_ENV", "PYTHON", "PYTEST", "CI", "XDG_", "CLAUDE", "CODEX",
                "UV_", "npm_")  # fmt: skip
    kept = {name: value for name, value in clean_environment().items() if not name.startswith(left_out)}
    pins = scratch / "constraints.txt"
    locked = re.findall(r"^([\w.-]+==[\w.+!-]+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    pins.write_text("\n".join(locked) + "\n")
    programs = node.programs(scratch / "programs")
    path = os.pathsep.join((str(Path(sys.executable).parent), str(programs), kept.get("PATH", "")))
    return {
        **kept, "PATH": path, "SERVERS": str(SERVERS), "PAGER": "cat", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_CONSTRAINT": str(pins), "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(_caches() / "pip")),
    }  # fmt: skip


def fresh_home(home: Path) -> None:
    """Nothing in it but where npm and uv keep what they fetched. A server gets no variable that would say it."""
    (home / ".config" / "uv").mkdir(parents=True)
    uv = os.environ.get("UV_CACHE_DIR", str(_caches() / "uv"))
    (home / ".config" / "uv" / "uv.toml").write_text(f'cache-dir = "{uv}"\nexclude-newer = "{AS_OF}T00:00:00Z"\n')
    npm = ROOT / ".cache" / "npm-cache"
    (home / ".npmrc").write_text(f"cache={npm}\nbefore={AS_OF}\nupdate-notifier=false\nprefer-offline=true\n")


def _caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def copy(target: Path) -> None:
    """What git knows of this checkout, as it is now."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    target.mkdir()
    packed = subprocess.run(
        ["tar", "-c", "--null", "--ignore-failed-read", "-T", "-"],
        cwd=ROOT,
        input=names,
        check=True,
        capture_output=True,
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(target)], input=packed, check=True)


@contextlib.contextmanager
def alone_on_the_default_port() -> Iterator[None]:
    """Pages of which each has to have this port take turns. Raises `TimeoutError`."""
    deadline = time.monotonic() + TURN_TIMEOUT
    with (Path(tempfile.gettempdir()) / f"mcpproxy-documents.{os.getuid()}.lock").open("w") as file:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > deadline:
                raise TimeoutError("another page has the port 8080")
            time.sleep(0.2)
        yield


def end_processes_of(home: Path, patience: float = ENDS_WITHIN) -> list[str]:
    """What still runs with this home after some seconds: it is ended and named. Only Linux lets us see it."""
    deadline = time.monotonic() + patience
    while (left := list(_with_home(home))) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid, _ in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"{pid}: {command}" for pid, command in left]


def _with_home(home: Path) -> Iterator[tuple[int, str]]:
    mark = b"\0HOME=%s\0" % os.fsencode(home)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in b"\0" + (process / "environ").read_bytes() + b"\0":
                yield int(process.name), (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", metavar="PAGE", help="run the blocks of this page, such as docs/howto/freeze.md")
    wanted = parser.parse_args().run
    for page in pages():
        blocks = [fence for fence in page.fences if fence.language in SHELL]
        if wanted is None:
            left = [why for fence in blocks if (why := why_not(fence)) is not None]
            print(f"{page}: {len(blocks) - len(left)} run, {len(left)} not")
            for why in dict.fromkeys(left):
                print(f"    {left.count(why)} not: {why}")
        elif str(page) == wanted:
            with tempfile.TemporaryDirectory() as scratch, reader(page, Path(scratch)) as somebody:
                for step in somebody.read():
                    print(
                        f"\n=== {step.seconds:.1f} s {step.wrong}\n{step.block.rstrip()}\n---\n{step.output.rstrip()}"
                    )


if __name__ == "__main__":
    main()
