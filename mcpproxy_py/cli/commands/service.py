"""`mcpproxy service`: the gateway as a service of yours, started at login: a systemd user unit, or a launchd agent."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, group
from mcpproxy_py.cli.output import note, pairs, say
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, Code, GatewayError

app = group("The gateway as a service of yours, started at login.")

MARK: Final = "Written by `mcpproxy service install`"
Manager = Literal["systemd", "launchd"]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Of the service, where there are several.")]
Which = Annotated[
    Manager | None,
    typer.Option("--manager", metavar="systemd|launchd", help="Which kind. [default: what this system has]"),
]


@dataclass(frozen=True, slots=True)
class Service:
    """What is to be run, and where everything about it lies. Every path is absolute."""

    manager: Manager
    name: str
    command: Sequence[str]
    data_dir: Path

    @property
    def file(self) -> Path:
        if self.manager == "launchd":
            return Path.home() / "Library" / "LaunchAgents" / f"{self.label}.plist"
        config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(config).absolute() / "systemd" / "user" / f"{self.name}.service"

    @property
    def label(self) -> str:
        return f"{self.name}.gateway" if self.manager == "launchd" else f"{self.name}.service"

    @property
    def text(self) -> str:
        return _WRITTEN[self.manager](self)

    @property
    def starts(self) -> list[list[str]]:
        if self.manager == "launchd":
            return [["launchctl", "bootstrap", f"gui/{os.getuid()}", str(self.file)]]
        return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", self.label]]

    @property
    def stops(self) -> list[list[str]]:
        if self.manager == "launchd":
            return [["launchctl", "bootout", f"gui/{os.getuid()}/{self.label}"]]
        return [["systemctl", "--user", "disable", "--now", self.label]]


def systemd_unit(service: Service) -> str:
    """SIGTERM goes to the gateway alone, so that its servers live until calls in flight are over. A mistake in the
    configuration, exit status 2, is not tried again and again."""
    variables = str(service.data_dir / "service.env").replace("%", "%%")
    return f"""\
# {MARK}; `mcpproxy service uninstall` removes it.
[Unit]
Description=mcpproxy: one MCP endpoint for IDE agents
After=network.target

[Service]
Type=exec
ExecStart={" ".join(map(_systemd_word, service.command))}
Environment={_systemd_word(f"PATH={_path()}", variables=False)}
# Variables that the configuration refers to, one NAME=value a line. Keep it readable by you alone.
EnvironmentFile=-{variables}
UMask=0077
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
KillMode=mixed
TimeoutStopSec=90

[Install]
WantedBy=default.target
"""


def _systemd_word(word: str, *, variables: bool = True) -> str:
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if variables else text}"'


def launchd_agent(service: Service) -> str:
    """Its stderr is the gateway's own log file, which the gateway keeps bounded."""
    log = str(service.data_dir / "gateway.log")
    agent = {
        "Label": service.label,
        "ProgramArguments": list(service.command),
        "EnvironmentVariables": {"PATH": _path()},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 90,
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    head, _, rest = plistlib.dumps(agent, sort_keys=False).decode().partition("\n")
    return f"{head}\n<!-- {MARK}; `mcpproxy service uninstall` removes it. -->\n{rest}"


_WRITTEN: Final[Mapping[Manager, Callable[[Service], str]]] = {"systemd": systemd_unit, "launchd": launchd_agent}


def _path() -> str:
    """Where servers' commands are found; a service gets little else of a shell."""
    return ":".join(part for part in os.environ.get("PATH", os.defpath).split(":") if part.startswith("/"))


@command(app, "install")
def install(
    session: CommandContext,
    name: Name = "mcpproxy",
    manager: Which = None,
    print_only: Annotated[bool, typer.Option("--print", help="Only print what would be written.")] = False,
    yes: Yes = False,
) -> int:
    """Install and start the gateway as a service of yours, with the options given here, after a confirmation.

    It is started at every login, and again if it fails. The service does not have the variables of your shell; secrets
    belong into a file that `${file:PATH}` reads, or into the keyring (`${keyring:NAME}`), never into the unit.

    For example: mcpproxy service install --listen 127.0.0.1:9000 --print
    """
    service = _service(session, name, manager)
    if print_only:
        print(service.text, end="")
        return EXIT_OK
    _refuse_foreign(service)
    _check(session, service)
    note(f"{service.file}:\n")
    note(service.text)
    confirmed(f"{'Replace' if service.file.exists() else 'Write'} {service.file} and start it?", yes)
    if service.file.exists():
        _run(service.stops, quiet=True)
    _write(service)
    started = _run(service.starts)
    session.show({"file": str(service.file), "started": started}, lambda _: _print_installed(service, started))
    return EXIT_OK if started else EXIT_FAILED


def _service(session: CommandContext, name: str, manager: Manager | None) -> Service:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", name):
        raise typer.BadParameter("expected a name of 1 to 40 of `a-z 0-9 -`", param_hint="--name")
    where = session.where
    data_dir = where.home().absolute()
    words = [sys.executable, "-P", "-m", "mcpproxy_py", "serve", "--data-dir", str(data_dir)]
    if where.config is not None:
        words += ["--config", str(where.config)]
    if where.listen:
        if where.is_a_way:
            raise typer.BadParameter("a gateway listens at HOST:PORT, and not at a URL", param_hint="--listen")
        words += ["--listen", where.listen]
    if odd := next((word for word in [*words, _path()] if not word.isprintable()), None):
        raise GatewayError(Code.BAD_REQUEST, f"{odd!r} holds characters that no unit can hold")
    return Service(manager or _manager(), name, words, data_dir)


def _manager() -> Manager:
    if sys.platform == "darwin":
        return "launchd"
    if shutil.which("systemctl"):
        return "systemd"
    raise GatewayError(
        Code.BAD_REQUEST,
        "This system has neither systemd nor launchd",
        details={"remedy": "Have whatever starts your programs run `mcpproxy serve`, or print a unit for another "
                 "machine: mcpproxy service install --manager systemd --print"},
    )  # fmt: skip


def _refuse_foreign(service: Service) -> None:
    try:
        text = service.file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise GatewayError(Code.CONFLICT, f"{service.file} cannot be read: {error.strerror}") from None
    if MARK not in text:
        raise GatewayError(
            Code.CONFLICT,
            f"{service.file} was not written by `mcpproxy service install`",
            details={"remedy": "Remove it yourself, or choose another --name."},
        )


def _check(session: CommandContext, service: Service) -> None:
    """Whether it could start: with this configuration, without the variables of this shell, on a free directory."""
    from mcpproxy_py import settings
    from mcpproxy_py.cli.gateway.running import in_use

    loaded = session.where.loaded()
    settings.ensure_data_dir(service.data_dir)
    if in_use(service.data_dir) and not service.file.exists():
        raise GatewayError(
            Code.CONFLICT,
            f"A gateway uses {service.data_dir}, so the service could not start",
            details={"remedy": "Stop it first: mcpproxy stop"},
        )
    bare = {name: value for name, value in os.environ.items() if name in ("HOME", "PATH", "USER", "LOGNAME", "LANG")}
    try:
        settings.load(config=loaded.path if loaded.exists else None, data_dir=service.data_dir, environ=bare)
    except GatewayError as error:
        note(f"The service does not have the variables of this shell: {error.message}")
        if service.manager == "systemd":
            note(f"  Write them to {service.data_dir / 'service.env'}, one NAME=value a line, and `chmod 600` it.")
    if lost := sorted(name for name in os.environ if name.startswith("MCPPROXY_") and name not in _AS_OPTIONS):
        note(f"The service does not have {', '.join(lost)}: set the same in the configuration file.")


_AS_OPTIONS: Final = ("MCPPROXY_DATA_DIR", "MCPPROXY_CONFIG", "MCPPROXY_LISTEN")


def _write(service: Service) -> None:
    from mcpproxy_py.files import write_private

    service.file.parent.mkdir(parents=True, exist_ok=True)
    write_private(service.file, service.text)


def _run(commands: Sequence[Sequence[str]], *, quiet: bool = False) -> bool:
    """Whether all of them worked. Those that did not are said, to be typed."""
    for number, words in enumerate(commands):
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                  timeout=120, errors="replace")  # fmt: skip
            why = done.stderr.strip() or f"exit status {done.returncode}"
            if done.returncode == 0:
                continue
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if not quiet:
            note(f"`{shlex.join(words)}` failed: {why}")
            left = "\n".join(f"  {shlex.join(each)}" for each in commands[number:])
            note(f"When that is mended, run:\n{left}")
        return False
    return True


def _print_installed(service: Service, started: bool) -> None:
    say(f"Installed {service.file}{' and started it' if started else ''}.")
    if service.manager == "systemd":
        note("It ends when you log out. To have it run without a login: loginctl enable-linger")
    note("See `mcpproxy service status`, and `mcpproxy logs`.")


@command(app, "uninstall")
def uninstall(session: CommandContext, name: Name = "mcpproxy", manager: Which = None, yes: Yes = False) -> int:
    """Stop the service and remove it, after a confirmation. The data directory stays as it is.

    For example: mcpproxy service uninstall
    """
    service = _service(session, name, manager)
    if not service.file.exists():
        raise GatewayError(Code.NOT_FOUND, f"No service is installed: there is no {service.file}")
    _refuse_foreign(service)
    confirmed(f"Stop the service and remove {service.file}?", yes)
    stopped = _run(service.stops)
    service.file.unlink()
    if service.manager == "systemd":
        _run([["systemctl", "--user", "daemon-reload"]], quiet=True)
    answer = {"file": str(service.file), "stopped": stopped}
    session.show(answer, lambda _: say(f"Removed {service.file}. The data in {service.data_dir} is untouched."))
    return EXIT_OK if stopped else EXIT_FAILED


@command(app, "status")
def status(session: CommandContext, name: Name = "mcpproxy", manager: Which = None) -> int:
    """Whether the service is installed and runs. Exits with 1 if it is not installed.

    For example: mcpproxy service status
    """
    from mcpproxy_py.cli.gateway.running import running

    service = _service(session, name, manager)
    installed = service.file.exists()
    found = running(service.data_dir)
    answer: dict[str, Any] = {
        "installed": installed,
        "file": str(service.file),
        "manager": service.manager,
        "state": _state(service) if installed else None,
        "gateway": {"pid": found.pid, "url": found.url} if found else None,
    }
    session.show(answer, pairs)
    return EXIT_OK if installed else EXIT_FAILED


def _state(service: Service) -> str:
    """In the manager's own words."""
    words = (["systemctl", "--user", "is-active", service.label] if service.manager == "systemd"
             else ["launchctl", "print", f"gui/{os.getuid()}/{service.label}"])  # fmt: skip
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    if service.manager == "systemd":
        return done.stdout.strip() or "unknown"
    found = re.search(r"^\s*state = (\w+)", done.stdout, re.MULTILINE)
    return found[1] if found else "not loaded"
