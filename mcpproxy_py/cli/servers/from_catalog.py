"""A server of the shipped catalog: looked up, asked for what it needs, and turned into an entry."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext
from mcpproxy_py.cli.output import clean, note
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.core.catalog.model import ServerEntry
    from mcpproxy_py.providers.catalog.recipe import CatalogQuestion

PATHS: Final = ("directory", "path", "file", "folder")


def servers(session: CommandContext) -> dict[str, ServerEntry]:
    """Those that are shipped, with the person's own over them."""
    from mcpproxy_py.providers.catalog.data_files import DataError
    from mcpproxy_py.providers.catalog.load import load_servers

    try:
        own = session.where.home() / "catalog"
    except GatewayError:
        own = None  # a broken configuration is nothing to what is shipped
    try:
        return load_servers(own if own is not None and own.is_dir() else None)
    except DataError as error:
        raise GatewayError(Code.CONFIG_INVALID, str(error)) from None


def found(session: CommandContext, slug: str) -> ServerEntry:
    """The entry of this slug. Raises `NOT_FOUND` with the nearest."""
    from mcpproxy_py.providers.catalog.choosing import matching

    known = servers(session)
    if slug in known:
        return known[slug]
    near = [each.slug for each in matching(known.values(), slug)][:5] or _nearest(slug, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise GatewayError(
        Code.NOT_FOUND, f"The catalog has no server '{clean(slug)}'{hint}",
        details={"nearest": near, "remedy": "`mcpproxy catalog servers` lists all, and searches for a word."},
    )  # fmt: skip


def _nearest(slug: str, known: Iterable[str]) -> list[str]:
    from mcpproxy_py.core.search.tokens import nearest

    return list(nearest(slug, known))


def entry_for(entry: ServerEntry, given: Mapping[str, Any], args: Sequence[str], *, name: str) -> dict[str, Any]:
    """The configuration of a catalog's server. `given` are the entry's keys that flags gave, `args` the arguments that
    a person has to choose. What is still needed is asked on a terminal, and named where there is none."""
    from mcpproxy_py.providers.catalog.recipe import recipe

    plan = recipe(entry, given.get("transport"))
    if plan is None:
        where = entry.wire.get("websiteUrl") or entry.wire.get("repository", {}).get("url")
        raise GatewayError(
            Code.NOT_FOUND, f"The catalog knows no package or address of {entry.slug} that can be used",
            details={"remedy": f"See {where}, and use `mcpproxy upstream add {name} -- COMMAND`." if where else
                     f"Use `mcpproxy upstream add {name} -- COMMAND`."},
        )  # fmt: skip
    for line in plan.notes:
        note(f"Note: {line}")
    answers: dict[str, dict[str, str]] = {"env": dict(given.get("env", {})), "header": dict(given.get("headers", {}))}
    words = list(args)
    waiting = [each for each in plan.questions if not _answered(each, answers, words)]
    more = list(args[sum(each.kind == "arg" for each in plan.questions) :])
    chosen = list(args[: len(args) - len(more)])
    if waiting and not sys.stdin.isatty():
        _refuse(entry.slug, name, [each for each in waiting if each.required])
    for each in waiting if sys.stdin.isatty() else ():
        value = ask(each, name)
        if value is None:
            continue
        if each.kind == "arg":
            chosen.append(value)
        else:
            answers[each.kind][each.name] = value
    config = dict(plan.config)
    if chosen or more:
        config["args"] = [*config.get("args", ()), *chosen, *more]
    extra = {key: value for key, value in given.items() if key not in ("env", "headers", "transport")}
    joined = {**({"env": answers["env"]} if answers["env"] else {}), **({"headers": answers["header"]}
              if answers["header"] else {})}  # fmt: skip
    return {**config, **joined, **extra}


def _answered(question: CatalogQuestion, answers: Mapping[str, Mapping[str, str]], words: list[str]) -> bool:
    if question.kind != "arg":
        return any(question.name.lower() == key.lower() for key in answers[question.kind])
    if words:
        words.pop(0)
        return True
    return False


def _refuse(slug: str, name: str, missing: Sequence[CatalogQuestion]) -> None:
    if not missing:
        return
    told = ", ".join(f"{each.name}{f' ({each.about})' if each.about else ''}" for each in missing)
    options = " ".join(_option(each) for each in missing)
    raise typer.BadParameter(
        f"{slug} needs {told}. Give it, for example:\n  mcpproxy upstream add {name} --from-catalog {slug} {options}",
        param_hint="--from-catalog",
    )


def _option(question: CatalogQuestion) -> str:
    reference = f"${{env:{question.name}}}" if question.secret else "VALUE"
    match question.kind:
        case "env":
            return f"--env {shlex.quote(f'{question.name}={reference}')}"
        case "header":
            return f"--header {shlex.quote(f'{question.name}: Bearer ${{env:TOKEN}}')}"
        case _:
            return f"--arg {question.name.upper()}"


def ask(question: CatalogQuestion, name: str) -> str | None:
    """What a person answers; `None` where they leave it out, which only what is not required can be."""
    label = question.name + (f" ({question.about})" if question.about else "")
    if question.secret:
        return _ask_for_secret(question, label, name)
    while True:
        hint = "" if question.required else " [leave empty for none]"
        value = typer.prompt(f"{label}{hint}", default="", show_default=False, err=True).strip()
        if value and question.kind == "arg" and question.name.endswith(PATHS):
            return str(Path(value).expanduser().absolute())
        if value or not question.required:
            return value or None


def _ask_for_secret(question: CatalogQuestion, label: str, name: str) -> str | None:
    """Where it is, rather than what it is: a reference keeps it out of the configuration."""
    variable = question.name if question.kind == "env" else "TOKEN"
    prefix = "Bearer " if question.kind == "header" else ""
    keyring = _keyring()
    ways = {"e": f"a variable of the gateway's environment, as ${{env:{variable}}}"
                 + (" (is set here)" if os.environ.get(variable) else "")}  # fmt: skip
    if keyring is not None:
        ways["k"] = "the system's keyring; type it now, and it is kept there"
    ways["v"] = "type it now, and it is written into the configuration file as it is"
    if not question.required:
        ways["n"] = "none"
    note(f"{label} is a secret. Where is it?")
    for key, about in ways.items():
        note(f"  {key}  {about}")
    while True:
        way = typer.prompt("Choose", default="e", err=True).strip().lower()[:1]
        if way == "e":
            chosen = typer.prompt("Name of the variable", default=variable, err=True).strip()
            return f"{prefix}${{env:{chosen}}}"
        if way == "n" and not question.required:
            return None
        if way in ("k", "v") and way in ways:
            value = typer.prompt(label, hide_input=True, err=True).strip()
            return prefix + (value.removeprefix(prefix) if way == "v" else _kept(keyring, f"{name}.{variable}", value))


def _keyring() -> Any:
    try:
        return import_module("keyring")
    except ImportError:
        return None


def _kept(keyring: Any, key: str, value: str) -> str:
    from mcpproxy_py.settings.secret_references import KEYRING_SERVICE

    try:
        keyring.set_password(KEYRING_SERVICE, key, value)
    except Exception as error:  # backends raise what they like
        message = f"the system's keyring did not take it ({type(error).__name__}); unlock it, or choose another way"
        raise GatewayError(Code.CONFIG_INVALID, message) from None
    return f"${{keyring:{key}}}"
