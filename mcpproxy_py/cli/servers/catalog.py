"""`mcpproxy catalog search` and `add`: servers of the shipped catalog and of registries, found and added."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mcpproxy_py.cli.common import CommandContext, Yes, command, confirmed, key_values
from mcpproxy_py.cli.completion import addable_slugs
from mcpproxy_py.cli.output import listing, note
from mcpproxy_py.cli.servers import entry as entries
from mcpproxy_py.cli.servers.add import added
from mcpproxy_py.cli.servers.changes import DryRun
from mcpproxy_py.cli.servers.settle import WAIT_SECONDS, NoWait, WaitFor
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.core.catalog.model import ServerEntry

MOST_WORDS: Final = 200
MASKED: Final = "***"
_REFERENCE: Final = re.compile(r"\$\{(?:env|file|keyring):[^}]*\}")


def register(app: typer.Typer) -> None:
    """Put the commands into the group `catalog`."""
    command(app, "search")(search)
    command(app, "add")(add)


def search(
    session: CommandContext,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Words of its name or of what it is for.")],
) -> None:
    """Search the shipped catalog, and the registries of `catalog.registries` where there are any. Each line says where
    it is from.

    For example: mcpproxy catalog search weather
    """
    asked = " ".join(" ".join(words).split())
    if not asked or len(asked) > MOST_WORDS or not asked.isprintable():
        raise typer.BadParameter(f"1 to {MOST_WORDS} characters that can be printed", param_hint="WORDS")
    answer = _at_gateway(session, asked) if session.where.is_named else _here(session, asked)
    session.show(answer, lambda shown: _print_found(shown, asked))


def _at_gateway(session: CommandContext, asked: str) -> dict[str, Any]:
    """What a gateway elsewhere has, and knows of its registries: it goes nowhere because of this."""
    found = session.client.get("catalog", limit=200, query=asked)
    return {"servers": found["servers"], "registries": found["registries"]}


def _here(session: CommandContext, asked: str) -> dict[str, Any]:
    from mcpproxy_py.cli.servers import from_catalog, registries
    from mcpproxy_py.providers.catalog.choosing import matching, shown
    from mcpproxy_py.providers.registry.known import as_json, fresh

    known = from_catalog.servers(session)
    heard = registries.asked(session, asked, known)
    rows = [shown(entry) for entry in [*matching(known.values(), asked), *fresh(heard, known, asked)]]
    return {"servers": rows, "registries": [as_json(each) for each in heard]}


def _print_found(answer: Mapping[str, Any], asked: str) -> None:
    from mcpproxy_py.cli.servers import registries

    rows = answer["servers"]
    listing(
        ("slug", "from", "needs", "description"),
        [[row["slug"], row["source"].removeprefix("registry:"), row["needs"], _about(row)] for row in rows],
        empty=f"Nothing is about '{asked}'.", spare=("needs", "from"),
    )  # fmt: skip
    for each in answer["registries"]:
        registries.tell(each)
    usable = next((row for row in rows if row["refused"] is None), None)
    if usable is not None:
        note(f"Add one with `mcpproxy catalog add {usable['slug']}`.")
    elif not rows and not answer["registries"]:
        note("Only the shipped catalog was searched. To ask a registry too, name it in the configuration:")
        note('  "catalog": {"registries": ["https://registry.modelcontextprotocol.io"]}')
    elif not rows:
        note("Try one word of its name, or add it by its command: `mcpproxy upstream add NAME -- COMMAND`.")


def _about(row: Mapping[str, Any]) -> str:
    if row["refused"] is not None:
        return f"(cannot be added: {row['refused']}) {row['description']}"
    return f"(deprecated) {row['description']}" if row["lifecycle"] == "deprecated" else row["description"]


def add(
    session: CommandContext,
    slug: Annotated[
        str,
        typer.Argument(
            metavar="SLUG", help="As `mcpproxy catalog search` shows it: SLUG, or NAMESPACE/NAME of a registry.",
            autocompletion=addable_slugs,
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Its name here. [default: the end of its slug]")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="Another version that its registry has.")
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="K=V", help="The answer to one of its questions; repeatable. ${env:NAME} works."),
    ] = None,
    transport: entries.Transport = None,
    env: entries.Env = None,
    header: entries.Header = None,
    arg: entries.MoreArgs = None,
    lazy: entries.Lazy = False,
    trust: entries.Trust = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an upstream of this name.")] = False,
    no_check: entries.NoCheck = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    no_wait: NoWait = False,
    wait_for: WaitFor = WAIT_SECONDS,
) -> int:  # fmt: skip
    """Add a server that was found: show what it runs and what it needs, ask for that, and then for a yes. It is checked
    and recorded like one of `mcpproxy upstream add`. Without a terminal, --set answers and --yes says yes.

    For example: mcpproxy catalog add fetch --yes
    """
    from mcpproxy_py.cli.servers import from_catalog

    known = from_catalog.servers(session)
    found = _found(session, slug, version, known)
    here = entries.checked_name(name or _name_for(found.slug))
    said = key_values(answers, "--set")
    given = entries.from_flags(None, None, transport, env, header, lazy, None, None, None, None, None, trust)
    _introduce(found)
    hidden: set[str] = set()
    config = from_catalog.entry_for(found, given, arg or (), name=here, said=said, hidden=hidden)
    _show_entry(here, config, hidden)
    if not dry_run:
        verb = "Replace" if replace else "Add"
        confirmed(f"{verb} the upstream {here}, as shown above?", yes)
    return added(
        session, here, config, replace=replace, check=not no_check, dry_run=dry_run, wait=not no_wait,
        seconds=wait_for, may_log_in="url" in config,
    )  # fmt: skip


def _found(
    session: CommandContext, slug: str, version: str | None, known: Mapping[str, ServerEntry]
) -> ServerEntry:  # fmt: skip
    """What is shipped, or one's own, goes before everything that a registry says."""
    from mcpproxy_py.cli.servers import from_catalog, registries

    if slug in known or "/" not in slug:
        if version is not None:
            raise typer.BadParameter("only a registry has other versions", param_hint="--version")
        try:
            return from_catalog.found(session, slug)
        except GatewayError as error:
            raise _with_registries(session, slug, error) from None
    same = next((entry for entry in known.values() if entry.name == slug), None)
    if same is not None and version is None:
        return same
    found = registries.looked_up(session, slug, version, known)
    if found.lifecycle == "deleted":
        where = found.source.partition(":")[2]
        raise GatewayError(
            Code.NOT_FOUND, f"The registry {where} has deleted {slug}, so it is not added",
            details={"remedy": "`mcpproxy catalog search WORDS` finds others."},
        )  # fmt: skip
    return found


def _with_registries(session: CommandContext, slug: str, error: GatewayError) -> GatewayError:
    """A short name says nothing of who made it: those that end so are named, and none is chosen."""
    from mcpproxy_py.cli.completion import kept_names

    near = [each for each in kept_names(session.where) if each.partition("/")[2] == slug][:5]
    if not near or error.code is not Code.NOT_FOUND:
        return error
    remedy = f"Registries have {', '.join(near)}; give the whole name of the one that you mean."
    return GatewayError(Code.NOT_FOUND, error.message, details={**error.details, "nearest": near, "remedy": remedy})


def _name_for(slug: str) -> str:
    last = slug.rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:32].strip("-") or "server"


def _introduce(found: ServerEntry) -> None:
    """Who says that it is what: a registry vouches for nothing of it."""
    where = {"shipped": "the shipped catalog", "own": "your own catalog"}.get(
        found.source, f"the registry {found.source.partition(':')[2]}"
    )
    version = f" {found.wire['version']}" if found.of_registry and found.wire.get("version") else ""
    note(f"{found.slug}{version}, of {where}: {found.title}")
    if found.description:
        note(f"  {found.description}")
    if found.wire.get("websiteUrl"):
        note(f"  {found.wire['websiteUrl']}")


def _show_entry(name: str, config: Mapping[str, Any], hidden: set[str]) -> None:
    """All that a yes is said to. What a person typed as a secret is not on the screen again."""
    secrets = sorted((each for each in hidden if len(each) > 2 and not _REFERENCE.search(each)), key=len, reverse=True)

    def shown(text: str) -> str:
        for each in secrets:
            text = text.replace(each, MASKED)
        return text

    if "url" in config:
        note(f"{name} will be reached at {shown(config['url'])}")
    else:
        line = " ".join(shlex.quote(shown(word)) for word in (config["command"], *config.get("args", ())))
        note(f"{name} will run, as the user of the gateway: {line}")
    for key, what in (("env", "variable"), ("headers", "header")):
        for each, value in config.get(key, {}).items():
            note(f"  with the {what} {each}: {shown(value)}")
