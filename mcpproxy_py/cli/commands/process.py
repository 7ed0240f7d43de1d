"""`mcpproxy stop`, `restart` and `logs`: the gateway of a data directory as a process on this machine."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py import __version__
from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.completion import server_names
from mcpproxy_py.cli.gateway.locate import NoGatewayError, announcement, is_alive
from mcpproxy_py.cli.gateway.running import GatewayProcess, in_use, running, waited_for
from mcpproxy_py.cli.output import Format, cell, note, say, waiting
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, Code, GatewayError

app = group("The gateway's process.")

LOG: Final = "gateway.log"
POLL_SECONDS: Final = 0.3
MOST_LINES: Final = 5000

Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.0, help="How long to wait for it.", show_default=True)
]


@command(app, "stop")
def stop(session: CommandContext, timeout: Timeout = 60.0) -> int:
    """Stop the gateway, and wait until it has ended.

    New calls are refused at once, and calls in flight may finish, for as long as `shutdown_timeout` allows. If none
    runs there is nothing to do. Only the gateway of this data directory is stopped, after its private socket has
    proved which process that is.

    For example: mcpproxy stop
    """
    found = _here(session, "stop")
    data_dir = session.where.home()
    if found is None and not in_use(data_dir):
        session.show({"stopped": False, "pid": None}, lambda _: say("No gateway is running."))
        return EXIT_OK
    if found is None:
        note("A gateway is just starting or ending there; waiting for it.")
        waited_for(lambda: running(data_dir) is not None or not in_use(data_dir), timeout)
        found = running(data_dir)
    if found is not None:
        note(f"Stopping the gateway (pid {found.pid}){_in_flight(session)}")
        found.tell(signal.SIGTERM)
    with waiting("Waiting for calls in flight and for the record to be written"):
        ended = waited_for(lambda: not in_use(data_dir), timeout)
    pid = found.pid if found else None
    if not ended:
        note(f"It has not ended after {timeout:g} s, and goes on ending. See `mcpproxy logs`.")
        return EXIT_FAILED
    session.show({"stopped": True, "pid": pid}, lambda _: say("Stopped."))
    return EXIT_OK


@command(app, "restart")
def restart(session: CommandContext, timeout: Timeout = 60.0) -> int:
    """Restart the gateway in place.

    It runs the same command again, with the same environment and terminal, so it does not matter who started it: a
    terminal, an IDE, systemd or launchd. Calls in flight may finish first. With a configuration that cannot be used
    it goes on as it is. After an upgrade the new version starts.

    For example: mcpproxy restart
    """
    found, data_dir = _here(session, "restart"), session.where.home()
    if found is None:
        raise NoGatewayError("No gateway is running; start one with `mcpproxy serve`")
    if not found.restarts:
        remedy = {"remedy": "Run `mcpproxy stop`, then start it again."}
        raise GatewayError(Code.CONFLICT, "The running gateway is of a version that cannot restart", details=remedy)
    note(f"Restarting the gateway (pid {found.pid}){_in_flight(session)}")
    found.tell(signal.SIGUSR2)
    fresh, wrong = found, None

    def is_over() -> bool:
        nonlocal fresh, wrong
        fresh = running(data_dir) or fresh
        if fresh.started == found.started and is_alive(found.pid):
            wrong = _config_error(session)
        return fresh.started > found.started or wrong is not None or not is_alive(found.pid)

    with waiting("Waiting for it to be back"):
        waited_for(is_over, timeout)
    if fresh.started <= found.started:
        if wrong is not None:
            raise GatewayError(Code.CONFIG_INVALID, f"It goes on as it is, since it could not start again: {wrong}")
        note(f"It is not back after {timeout:g} s." if is_alive(found.pid) else "It ended, and did not start again.")
        note("  See `mcpproxy logs`.")
        return EXIT_FAILED
    answer = {"restarted": True, "pid": fresh.pid, "url": fresh.url}
    session.show(answer, lambda shown: say(f"Restarted; it listens at {shown['url']}."))
    return EXIT_OK


def _here(session: CommandContext, verb: str) -> GatewayProcess | None:
    if session.where.is_named:
        raise GatewayError(
            Code.BAD_REQUEST,
            f"`mcpproxy {verb}` is for the gateway of a data directory on this machine; name that with --data-dir",
        )
    return running(session.where.home())


def _in_flight(session: CommandContext) -> str:
    """How many calls it is at, where it says so."""
    with suppress(GatewayError):
        count = session.client.get("status").get("in_flight")
        if isinstance(count, int) and count > 0:
            return f"; {count} call{'s' if count > 1 else ''} in flight may finish first"
    return ""


def _config_error(session: CommandContext) -> str | None:
    with suppress(GatewayError):
        return session.client.get("status").get("config_error")
    return None


@command(app, "version")
def version(session: CommandContext) -> None:
    """The version of this program, and of the gateway that runs.

    For example: mcpproxy version
    """
    said = announcement(session.where.home()) or {}
    answer = {"version": __version__, "python": sys.version.split()[0], "gateway": said.get("version")}
    session.show(answer, _print_version)


def _print_version(answer: Any) -> None:
    say(f"mcpproxy {answer['version']} (Python {answer['python']})")
    if answer["gateway"] not in (None, answer["version"]):
        note(f"The running gateway is {cell(answer['gateway'])}; to change over: mcpproxy restart")


@command(app, "logs")
def logs(
    session: CommandContext,
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="[SERVER]", help="What this upstream wrote to its stderr instead.", autocompletion=server_names
        ),
    ] = None,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=1, max=MOST_LINES, help="Number of lines, from the end.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new lines, until Ctrl-C.")] = False,
) -> None:
    """The gateway's own log, or that of one upstream.

    A gateway that has ended left its log behind. It is the file gateway.log in the data directory, of at most 5
    MiB, and the one before it, gateway.log.1. A gateway in the foreground writes to its terminal as well.

    For example: mcpproxy logs -f
    """
    if server is not None:
        from mcpproxy_py.cli.commands import upstream

        upstream.logs(session, server, lines, follow)
        return
    if session.where.is_named:
        raise GatewayError(Code.BAD_REQUEST, "The gateway's log is read on its own machine; name its --data-dir")
    if follow and session.format is Format.YAML:
        raise GatewayError(Code.BAD_REQUEST, "--follow prints lines; use it with -o table or json")
    path = session.where.home() / LOG
    if not follow:
        session.show({"file": str(path), "lines": _tail(path, lines)}, _print_tail)
        return
    with suppress(KeyboardInterrupt):
        for line in _followed(path, lines):
            say(line) if session.human else print(json.dumps(line))
            sys.stdout.flush()


def _tail(path: Path, lines: int) -> list[str]:
    """The last so many lines, of the file before it too where this one is still short."""
    last: deque[str] = deque(maxlen=lines)
    for each in (path.with_name(f"{path.name}.1"), path):
        with suppress(FileNotFoundError), _opened(each) as file:
            last.extend(line.rstrip("\n") for line in file)
    return list(last)


def _print_tail(answer: Any) -> None:
    if answer["lines"]:
        say("\n".join(answer["lines"]))
    else:
        note(f"There is no log at {answer['file']} yet.")


def _followed(path: Path, lines: int) -> Iterator[str]:
    """The last lines, then new ones. A file that takes this one's place is read from its beginning."""
    yield from _tail(path, lines)
    file, rest = _at_its_end(path), ""
    while True:
        if file is not None:
            while chunk := file.readline():
                rest += chunk
                if rest.endswith("\n"):
                    yield rest.rstrip("\n")
                    rest = ""
        if file is None or _replaced(path, file):
            with suppress(FileNotFoundError):
                file, rest = _opened(path), ""
                continue
        time.sleep(POLL_SECONDS)


def _at_its_end(path: Path) -> Any:
    with suppress(FileNotFoundError):
        file = _opened(path)
        file.seek(0, 2)
        return file
    return None


def _opened(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8", errors="backslashreplace")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise GatewayError(Code.NOT_FOUND, f"{path} cannot be read: {error.strerror}") from None


def _replaced(path: Path, file: Any) -> bool:
    try:
        now, ours = path.stat(), os.fstat(file.fileno())
    except OSError:
        return False
    return now.st_ino != ours.st_ino or now.st_size < file.tell()
