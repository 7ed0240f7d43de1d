"""A server of the shipped catalog: looked up, asked for what it needs, and turned into an entry."""

from __future__ import annotations

import os
import re
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
    if "/" in slug:
        raise GatewayError(
            Code.NOT_FOUND, f"The shipped catalog has no server '{clean(slug)}'",
            details={"remedy": "A server of a registry is added with `mcpproxy catalog add NAMESPACE/NAME`."},
        )  # fmt: skip
    near = [each.slug for each in matching(known.values(), slug)][:5] or _nearest(slug, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise GatewayError(
        Code.NOT_FOUND, f"The catalog has no server '{clean(slug)}'{hint}",
        details={"nearest": near, "remedy": "`mcpproxy catalog servers` lists all, and searches for a word."},
    )  # fmt: skip


def _nearest(slug: str, known: Iterable[str]) -> list[str]:
    from mcpproxy_py.core.search.tokens import nearest

    return list(nearest(slug, known))


def entry_for(
    entry: ServerEntry, given: Mapping[str, Any], args: Sequence[str], *, name: str,
    said: Mapping[str, str] | None = None, hidden: set[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The configuration of a catalog's server. `given` are the entry's keys that flags gave, `args` the arguments that
    a person has to choose, `said` answers by name. What is still needed is asked on a terminal, and named where there
    is none. `hidden` gets the answers that are not to be shown."""
    from mcpproxy_py.providers.catalog.recipe import filled, recipe

    plan = recipe(entry, given.get("transport"))
    if plan is None:
        raise _unusable(entry, name, given.get("transport"))
    for line in plan.notes:
        note(f"Note: {line}")
    flags = {"env": dict(given.get("env", {})), "headers": dict(given.get("headers", {}))}
    answers = _answers_by_name(plan.questions, said or {})
    words = list(args)
    waiting: list[CatalogQuestion] = []
    for each in plan.questions:
        if each.name in answers or _flagged(each, flags):
            continue
        if each.kind == "arg" and words:
            answers[each.name] = _chosen(each, words.pop(0))
        else:
            waiting.append(each)
    if not sys.stdin.isatty():
        _refuse(entry, name, [each for each in waiting if each.required and each.default is None])
        waiting = []
    for each in waiting:
        value = ask(each, name)
        if value is not None:
            answers[each.name] = value
    config = filled(plan, answers)
    if hidden is not None:
        hidden |= {answers[each.name] for each in plan.questions if each.secret and each.name in answers}
        hidden |= {value for values in flags.values() for value in values.values()}
    if words:
        config["args"] = [*config.get("args", ()), *words]
    for key, values in flags.items():
        if values:
            lower = {one.lower() for one in values} if key == "headers" else set(values)
            kept = {one: text for one, text in config.get(key, {}).items()
                    if (one.lower() if key == "headers" else one) not in lower}  # fmt: skip
            config[key] = {**kept, **values}
    return {**config, **{key: value for key, value in given.items() if key not in ("env", "headers", "transport")}}


def _unusable(entry: ServerEntry, name: str, transport: str | None) -> GatewayError:
    from mcpproxy_py.providers.catalog.recipe import why_not

    where = entry.wire.get("websiteUrl") or entry.wire.get("repository", {}).get("url")
    by_hand = f"`mcpproxy upstream add {name} -- COMMAND`"
    why = why_not(entry, transport) if entry.of_registry else None
    message = f"The catalog knows no package or address of {entry.slug} that can be used"
    return GatewayError(
        Code.NOT_FOUND, f"{message}: {why}" if why else message,
        details={"remedy": f"See {where}, and use {by_hand}." if where else f"Use {by_hand}."},
    )  # fmt: skip


def _answers_by_name(questions: Sequence[CatalogQuestion], said: Mapping[str, str]) -> dict[str, str]:
    known = {each.name: each for each in questions}
    if strange := [each for each in said if each not in known]:
        asks = f"it asks for {', '.join(known)}" if known else "it asks for nothing"
        raise typer.BadParameter(f"there is no question {strange[0]}; {asks}", param_hint="--set")
    return {each: _chosen(known[each], value) for each, value in said.items()}


def _chosen(question: CatalogQuestion, value: str) -> str:
    if question.choices and value not in question.choices:
        raise typer.BadParameter(f"{question.name} is one of {', '.join(question.choices)}")
    return value


def _flagged(question: CatalogQuestion, flags: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a variable or a header that was given as a whole stands where its answer would go."""
    key = {"env": "env", "header": "headers"}.get(question.kind)
    places = [(place.key, str(place.at)) for place in question.fills] or ([(key, question.name)] if key else [])
    return bool(places) and all(
        any(at.lower() == given.lower() for given in flags.get(str(kind), ())) for kind, at in places
    )


def _refuse(entry: ServerEntry, name: str, missing: Sequence[CatalogQuestion]) -> None:
    if not missing:
        return
    told = ", ".join(f"{each.name}{f' ({each.about})' if each.about else ''}" for each in missing)
    if entry.of_registry:
        options = " ".join(f"--set {shlex.quote(f'{each.name}={_reference(each)}')}" for each in missing)
        line, hint = f"mcpproxy catalog add {entry.slug} {options}", "SLUG"
    else:
        options = " ".join(_option(each) for each in missing)
        line, hint = f"mcpproxy upstream add {name} --from-catalog {entry.slug} {options}", "--from-catalog"
    raise typer.BadParameter(clean(f"{entry.slug} needs {told}. Give it, for example:\n  {line}"), param_hint=hint)


def _reference(question: CatalogQuestion) -> str:
    if not question.secret:
        return question.choices[0] if question.choices else "VALUE"
    return f"${{env:{_variable_name(question.name)}}}"


def _variable_name(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "TOKEN"


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
    label = clean(question.name + (f" ({question.about})" if question.about else ""))
    if question.secret:
        return _ask_for_secret(question, label, name)
    if question.choices:
        label += f", one of {', '.join(question.choices)}"
    while True:
        hint = "" if question.required or question.default else " [leave empty for none]"
        shown = bool(question.default)
        value = typer.prompt(f"{label}{hint}", default=question.default or "", show_default=shown, err=True).strip()
        if value and question.choices and value not in question.choices:
            note(f"It has to be one of {', '.join(question.choices)}.")
            continue
        if value and question.kind == "arg" and question.name.endswith(PATHS):
            return str(Path(value).expanduser().absolute())
        if value or not question.required:
            return value or None


def _ask_for_secret(question: CatalogQuestion, label: str, name: str) -> str | None:
    """Where it is, rather than what it is: a reference keeps it out of the configuration."""
    variable = question.name if question.kind == "env" and not question.fills else "TOKEN"
    if question.fills or question.kind in ("arg", "url"):
        variable = _variable_name(question.name)
    prefix = "Bearer " if question.kind == "header" and question.name.lower() == "authorization" else ""
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
