"""What every command has: the shared options, one place that turns failures into exit statuses, and output.

What people type, taken apart: JSON, pairs and times. Wrong input is wrong usage, exit status 2.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.gateway.locate import Where
from mcpproxy_py.cli.output import Format, clean, complain, dump
from mcpproxy_py.core import json_values
from mcpproxy_py.errors import FACTS, GatewayError


def _listen(*names: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(
            *names,
            envvar="MCPPROXY_LISTEN",
            metavar="HOST:PORT",
            help="Where the gateway listens; a port alone, or a URL, works too. [default: 127.0.0.1:8080]",
        ),
    ]


# For the one command whose own `--url` means something else.
LISTEN_ALONE: Final = _listen("--listen")
SHARED: Final[dict[str, tuple[Any, Any]]] = {
    "data_dir": (
        Annotated[
            Path | None,
            typer.Option(
                "--data-dir",
                envvar="MCPPROXY_DATA_DIR",
                metavar="DIR",
                help="Where the gateway keeps its state. [default: ~/.mcpproxy]",
            ),
        ],
        None,
    ),
    "config": (
        Annotated[
            Path | None,
            typer.Option(
                "--config",
                envvar="MCPPROXY_CONFIG",
                metavar="FILE",
                help="The configuration file. [default: mcp_config.json in the data directory]",
            ),
        ],
        None,
    ),
    "listen": (_listen("--listen", "--url"), None),
    "output": (
        Annotated[
            Format,
            typer.Option("--output", "-o", metavar="table|json|yaml", help="How to print data.", case_sensitive=False),
        ],
        Format.TABLE,
    ),
}

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer every question with yes.")]


@dataclass(frozen=True)
class CommandContext:
    """One run of one command: which gateway it is about, and how to print."""

    where: Where
    format: Format

    @functools.cached_property
    def client(self) -> Any:
        from mcpproxy_py.cli.gateway.client import RestClient

        return RestClient(self.where)

    @property
    def human(self) -> bool:
        return self.format is Format.TABLE

    def show(self, answer: Any, view: Callable[[Any], None]) -> None:
        """The answer as it came for programs, or through `view` for people."""
        if self.human:
            view(answer)
        else:
            dump(answer, self.format)


def group(about: str, **options: Any) -> typer.Typer:
    """A Typer app in the house style: help as plain text, so that asking for it does not import Rich."""
    settings: dict[str, Any] = {"add_completion": False, "no_args_is_help": True, **options}
    return typer.Typer(help=about, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


def command(app: typer.Typer, name: str, *, prints: bool = True, **options: Any) -> Callable[..., Any]:
    """Register a command that takes a `Session` first. It may return an exit status."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        # Its first sentence, whole: the list of a group wraps it, and would cut a text that it has to find itself.
        about = " ".join((function.__doc__ or "").partition("\n\n")[0].split()).partition(". ")[0]
        return app.command(name, **{"short_help": f"{about.removesuffix('.')}." if about else None, **options})(
            function
        )

    return with_shared_options(register, prints=prints)


def with_shared_options(register: Callable[..., Any], *, prints: bool = True) -> Callable[..., Any]:
    """Give a function the shared options without each command spelling them out."""
    shared = [name for name in SHARED if prints or name != "output"]

    def decorate(function: Callable[..., int | None]) -> Callable[..., int | None]:
        @functools.wraps(function)
        def run(ctx: typer.Context, **values: Any) -> None:
            session = session_of(ctx)
            own = {name: value for name, value in values.items() if name not in shared}
            with _failures_reported(session.format):
                status = function(session, **own)
                sys.stdout.flush()
            if status:
                raise typer.Exit(status)

        _sign(run, function, shared)
        register(run)
        return function

    return decorate


def _sign(run: Any, function: Callable[..., Any], shared: list[str]) -> None:
    """Typer reads options off the signature, so the wrapper has to carry the joined one."""
    kind = inspect.Parameter.KEYWORD_ONLY
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    clashes = "url" in inspect.signature(function).parameters
    common = [
        inspect.Parameter(
            name,
            kind,
            annotation=LISTEN_ALONE if clashes and name == "listen" else SHARED[name][0],
            default=SHARED[name][1],
        )
        for name in shared
    ]
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(parameter.replace(kind=kind) for parameter in own),
        *common,
    ]
    run.__signature__ = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__


def session_of(ctx: typer.Context) -> CommandContext:
    """What the shared options say, before the command and after it."""
    chosen = {name: _chosen(ctx, name) for name in SHARED}
    data_dir, config, listen, form = (value for value, _ in chosen.values())
    typed = frozenset(name for name, (_, by_flag) in chosen.items() if by_flag and name != "output")
    return CommandContext(Where(_absolute(data_dir), _absolute(config), listen, typed), form or Format.TABLE)


def _absolute(path: Path | None) -> Path | None:
    return path.expanduser().absolute() if path else None


def _chosen(ctx: typer.Context, name: str) -> tuple[Any, bool]:
    """The value of a shared option and whether a person typed it: after the command, before it, or not at all."""
    for level in (ctx, ctx.find_root()):
        source = level.get_parameter_source(name)
        if isinstance(source, Enum) and source.name == "COMMANDLINE":
            return level.params.get(name), True
    return ctx.params.get(name), False


@contextmanager
def _failures_reported(form: Format) -> Iterator[None]:
    try:
        yield
    except GatewayError as error:
        complain(error.as_json(), form)
        raise typer.Exit(FACTS[error.code].exit) from None
    except BrokenPipeError:
        # `| head` had enough: not a failure. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def confirmed(question: str, yes: bool) -> None:
    """Goes on after a person's yes. Where there is no terminal to ask on, `--yes` has to say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to confirm on; add --yes", param_hint="--yes")
    typer.confirm(clean(question), abort=True, err=True)


def person() -> str | None:
    """Who this system says is typing. The gateway knows only that they had the admin key."""
    import getpass

    try:
        return getpass.getuser()[:128] or None
    except (OSError, KeyError):  # a container's user without a name
        return None


def json_text(given: str, option: str) -> str:
    """The text itself, that of a file (`@file`), or that of stdin (`-`), of a JSON object that can be sent on."""
    text = _read(given, option)
    _decoded(text, option)
    return text


def json_object(given: str, option: str) -> dict[str, Any]:
    """Like `json_text`, decoded."""
    return _decoded(_read(given, option), option)


def one_line(given: str, option: str) -> str:
    """The text itself, that of a file (`@file`), or that of stdin (`-`)."""
    return _read(given, option).strip()


def _read(given: str, option: str) -> str:
    try:
        if given == "-":
            return sys.stdin.read()
        if given.startswith("@"):
            return Path(given[1:]).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"cannot read {given}: {why}", param_hint=option) from None
    return given


def _decoded(text: str, option: str) -> dict[str, Any]:
    try:
        value = json_values.decode(text)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint=option) from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"must be a JSON object, not {json_values.kind(value)}", param_hint=option)
    if flaw := json_values.flaw(value):
        raise typer.BadParameter(f"cannot be sent on: {flaw}", param_hint=option)
    return value


def key_values(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """`K=V` pairs. What is none is not repeated in the message: it may be a secret."""
    found: dict[str, str] = {}
    for item in given or ():
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise typer.BadParameter("expected K=V", param_hint=option)
        found[key] = value
    return found
