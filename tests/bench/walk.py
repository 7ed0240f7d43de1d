"""The way of one warm call through our modules and functions: `python -m tests.bench.walk` (PERF-3).

A gateway is started as `serve` starts it, in a process whose event loop thread is watched by `sys.setprofile`; a client
in another thread of that process makes each kind of call in `kinds.py` over real sockets, to a real server
on a pipe and one over HTTP. Nothing here knows the name of a module of ours: ours is what lies in the package's folder.

What counts, from the bytes of the request until the loop has nothing more to do for it:

- A **call** is an entry into one of our functions: called, or resumed after an `await`. A function that is six
  coroutines deep when it waits is entered six times more when the answer comes, and that is a part of the way;
  `resumed` says how many of the calls are such. What callbacks and tasks do on behalf of the call is in it.
- A **module** is a file with at least one such call. What `dataclass` generates belongs to the file of its class.
- A **change** is an entry into another module than the entry before. Returning is not counted beside it: who does
  something with what came back enters the next function.
- Comprehensions and generator expressions are a part of the function that they stand in (since Python 3.12 the
  interpreter says so too); a lambda is a function. Libraries, C and other threads are not counted.

A call is made many times before it is watched, and then watched until three ways have the same figures, so that timers
and other background work that fell into one of them do not matter. `--draw KIND` prints the way of one as a tree, `~`
for what is resumed. `--against CHECKOUT` does the same for another version beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from opcode import opmap
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import uvloop

from tests.bench import instructions, kinds
from tests.bench.clients import Call
from tests.bench.kinds import KINDS, TITLES
from tests.bench.measure import report
from tests.support.gateway import clean_environment

HERE = Path(__file__).parents[2]
PACKAGE = "mcpproxy_py"
WARM, ALIKE, MOST_ROUNDS = 20, 3, 15
APART = 0.03
"""Seconds before each watched call, in which the timers of the one before it may ring."""
QUIET = 0.005
ENDED_WITHIN, QUICKLY = 120.0, 2.0
NOT_FUNCTIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
WATCH, WATCHED = signal.SIGUSR1, "--watched"


class Step(NamedTuple):
    """One entry: how deep below other functions of ours, whether resumed, and what."""

    depth: int
    resumed: bool
    module: str
    function: str


@dataclass(frozen=True)
class Walk:
    steps: tuple[Step, ...]

    @cached_property
    def modules(self) -> int:
        return len({step.module for step in self.steps})

    @cached_property
    def changes(self) -> int:
        names = [step.module for step in self.steps]
        return sum(name != before for name, before in zip(names, ["", *names], strict=False))

    @property
    def calls(self) -> int:
        return len(self.steps)

    @cached_property
    def resumed(self) -> int:
        return sum(step.resumed for step in self.steps)

    @cached_property
    def functions(self) -> int:
        return len({(step.module, step.function) for step in self.steps})

    @property
    def figures(self) -> dict[str, int]:
        names = ("modules", "changes", "calls", "resumed", "functions")
        return {name: getattr(self, name) for name in names}

    def drawn(self) -> str:
        return "\n".join(
            f"{'  ' * step.depth}{'~ ' if step.resumed else ''}{step.module}.{step.function}" for step in self.steps
        )


# In the process that is watched.


class Seen(NamedTuple):
    """What the interpreter says of a frame, kept as it is; what it means is found out afterwards."""

    event: str
    code: CodeType
    at: int
    file: str | None


class Watched:
    """Everything that is entered and left on the thread that calls `begin`."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.began = threading.Event()

    def begin(self, *_: object) -> None:
        sys.setprofile(self._note)
        self.began.set()

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "return"):
            self.seen.append(Seen(event, frame.f_code, frame.f_lasti, frame.f_globals.get("__file__")))

    async def quiet(self) -> None:
        """Until nothing was entered for a while."""
        before = -1
        while before != len(self.seen):
            before = len(self.seen)
            await asyncio.sleep(QUIET)

    def walk(self, root: Path) -> Walk:
        steps, depth, prefix = list[Step](), 0, f"{root}{os.sep}"
        for event, code, at, file in self.seen:
            if file is None or not file.startswith(prefix) or code.co_name in NOT_FUNCTIONS:
                continue
            if event == "return":
                depth = max(0, depth - 1)
                continue
            module = Path(file).relative_to(root).with_suffix("").as_posix().replace("/", ".")
            name = code.co_qualname.replace(".<locals>", "") if code.co_filename == file else code.co_name
            steps.append(Step(depth, not _begins(code, at), module, name))
            depth += 1
        return Walk(tuple(steps))


def _begins(code: CodeType, at: int) -> bool:
    """Whether a frame that is entered at this instruction is new: its RESUME says where it goes on."""
    return code.co_code[at] == opmap["RESUME"] and code.co_code[at + 1] & 3 == 0


async def _one(watched: Watched, root: Path, call: Call) -> Walk:
    await asyncio.sleep(APART)
    await watched.quiet()
    watched.seen.clear()
    await call(0)
    await watched.quiet()
    return watched.walk(root)


async def _usual(watched: Watched, root: Path, call: Call) -> Walk:
    """The first of which there are enough alike; if there are not, the most common one, and of several the shortest."""
    await call(0)
    found: dict[tuple[int, ...], list[Walk]] = {}
    for _ in range(MOST_ROUNDS):
        walk = await _one(watched, root, call)
        alike = found.setdefault(tuple(walk.figures.values()), [])
        alike.append(walk)
        if len(alike) == ALIKE:
            return walk
    return min(found.values(), key=lambda alike: (-len(alike), alike[0].calls))[0]


class Driver(threading.Thread):
    """The client, beside the gateway in the main thread."""

    def __init__(self, root: Path, data: Path, names: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.root, self.data, self.names = root, data, names
        self.configured = threading.Event()
        self.found: dict[str, Walk] = {}
        self.watched = Watched()

    def run(self) -> None:
        try:
            asyncio.run(self._drive())
        finally:
            self.configured.set()
            os.kill(os.getpid(), signal.SIGTERM)

    async def _drive(self) -> None:
        async with kinds.http_server() as port:
            kinds.configure(self.data, port)
            self.configured.set()
            calls = await kinds.begin(await kinds.ready(self.data, ENDED_WITHIN), self.names)
            for call in calls.values():
                for _ in range(WARM):
                    await call(0)
            signal.pthread_kill(threading.main_thread().ident or 0, WATCH)
            await asyncio.to_thread(self.watched.began.wait, ENDED_WITHIN)
            for name, call in calls.items():
                self.found[name] = await _usual(self.watched, self.root, call)


def watch(checkout: Path, names: Sequence[str]) -> None:
    """The whole life of the process that is watched; what was found goes to stdout."""
    sys.path.insert(0, str(checkout))
    root = checkout / PACKAGE
    assert Path(importlib.import_module(PACKAGE).__file__ or "").parent == root, f"no {PACKAGE} in {checkout}"
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        driver = Driver(root, data, names)
        signal.signal(WATCH, driver.watched.begin)
        driver.start()
        driver.configured.wait(ENDED_WITHIN)
        sys.argv = [PACKAGE, "serve", "--data-dir", str(data), "--listen", "127.0.0.1:0"]
        try:
            runpy.run_module(PACKAGE, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            print(f"the gateway ended: {ended.code}", file=sys.stderr)
        finally:
            sys.setprofile(None)
        driver.join(QUICKLY)  # it ended the gateway, or the gateway ended and it waits in vain
    json.dump({name: walk.steps for name, walk in driver.found.items()}, sys.stdout)


# In the process that asks for it.


def walks(names: Iterable[str] = KINDS, *, checkout: Path = HERE) -> dict[str, Walk]:
    """The way of each of these kinds of call, through the package of this checkout."""
    wanted = list(names)
    command = [sys.executable, "-m", "tests.bench.walk", WATCHED, str(checkout), *wanted]
    environ = clean_environment(PYTHONPATH=str(checkout), PYTHONHASHSEED="0")
    done = subprocess.run(
        command, cwd=HERE, env=environ, capture_output=True, text=True, timeout=2 * ENDED_WITHIN, check=False
    )
    found = json.loads(done.stdout or "{}")
    if set(found) != set(wanted):
        raise RuntimeError(f"the gateway of {checkout} could not be watched:\n{done.stderr}")
    return {name: Walk(tuple(Step(*step) for step in found[name])) for name in wanted}


def counted(checkout: Path, names: Iterable[str]) -> dict[str, float]:
    """Thousands of instructions for one call of each kind; minutes for each of them."""
    return {name: round(uvloop.run(instructions.per_call(checkout, name)), 1) for name in names}


def table(found: dict[str, dict[str, Walk]], thousands: dict[str, dict[str, float]]) -> str:
    """A row for each kind; beside it the same of the other checkout, if there is one."""
    columns = ("modules", "changes", "calls", "resumed")
    head = "".join(f"{name:>9}" for name in (*columns, *(["k instr."] if thousands else [])))
    lines = [
        f"{'':<46}" + "   ".join(f"{name:>{len(head)}}" for name in found),
        f"{'':<46}" + "   ".join([head] * len(found)),
    ]
    for name in found["here"]:
        cells = []
        for where, walked in found.items():
            numbers = [f"{walked[name].figures[column]:>9}" for column in columns]
            numbers += [f"{thousands[where].get(name, '-'):>9}"] if thousands else []
            cells.append("".join(numbers))
        lines.append(f"{TITLES[name]:<46}" + "   ".join(cells))
    return "\n".join(lines)


def main() -> None:
    if sys.argv[1:2] == [WATCHED]:
        watch(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--draw", choices=KINDS, help="the way of this one, as a tree")
    parser.add_argument("--against", type=Path, help="another checkout of mcpproxy")
    parser.add_argument("--instructions", choices=KINDS, nargs="*", help="of these, with valgrind; none is `read`")
    wanted = parser.parse_args()
    checkouts = {"here": HERE} | ({"against": wanted.against.resolve()} if wanted.against else {})
    if wanted.draw:
        for name, checkout in checkouts.items():
            print(f"{TITLES[wanted.draw]}, {name}\n")
            print(walks([wanted.draw], checkout=checkout)[wanted.draw].drawn())
        return
    found = {name: walks(wanted.only, checkout=checkout) for name, checkout in checkouts.items()}
    thousands: dict[str, dict[str, float]] = {}
    if wanted.instructions is not None and shutil.which("valgrind") is None:
        print("instructions are not counted: there is no valgrind on this machine", file=sys.stderr)
    elif wanted.instructions is not None:
        names = wanted.instructions or ["read"]
        thousands = {name: counted(checkout, names) for name, checkout in checkouts.items()}
    print(table(found, thousands))
    shown = {where: {name: walk.figures for name, walk in walked.items()} for where, walked in found.items()}
    report("walk", {"found": shown, "thousand_instructions": thousands})


if __name__ == "__main__":
    main()
