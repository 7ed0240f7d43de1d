"""What every command has: the shared options, one place that turns failures into exit statuses, and output."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpproxy_py.cli.locate import Where
from mcpproxy_py.cli.output import Format, complain, dump
from mcpproxy_py.errors import FACTS, GatewayError


def _listen(*names: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(
            *names,
            envvar="MCPPROXY_LISTEN",
            metavar="HOST:PORT",
            help="Where the gateway listens; a URL works too. [default: 127.0.0.1:8080]",
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


@dataclass(frozen=True)
class Session:
    """One run of one command: which gateway it is about, and how to print."""

    where: Where
    format: Format

    @functools.cached_property
    def client(self) -> Any:
        from mcpproxy_py.cli.client import Client

        return Client(self.where)

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
    return with_shared_options(app.command(name, **options), prints=prints)


def with_shared_options(register: Callable[..., Any], *, prints: bool = True) -> Callable[..., Any]:
    """Give a function the shared options without each command spelling them out."""
    shared = [name for name in SHARED if prints or name != "output"]

    def decorate(function: Callable[..., int | None]) -> Callable[..., int | None]:
        @functools.wraps(function)
        def run(ctx: typer.Context, **values: Any) -> None:
            session = _session(ctx)
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


def _session(ctx: typer.Context) -> Session:
    chosen = {name: _chosen(ctx, name) for name in SHARED}
    data_dir, config, listen, form = (value for value, _ in chosen.values())
    typed = frozenset(name for name, (_, by_flag) in chosen.items() if by_flag and name != "output")
    return Session(Where(_absolute(data_dir), _absolute(config), listen, typed), form or Format.TABLE)


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
