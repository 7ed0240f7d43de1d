"""`mcpproxy catalog bench`: how well the catalog's tools are found and used, against the targets.

`mcpproxy catalog`: the data behind the built-in capability catalog, checked and measured. Needs no gateway.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcpproxy_py.cli.common import CommandContext, command, group
from mcpproxy_py.cli.output import note, say, table, waiting
from mcpproxy_py.cli.servers import catalog as catalog_servers
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, Code, GatewayError

if TYPE_CHECKING:
    from mcpproxy_py.bench.suite import BenchTarget, Run

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="API:NAME", help="Ask this model too; API is anthropic, openai or gemini. Can be repeated."
    ),
]
Through = Annotated[bool, typer.Option("--gateway", help="Measure the catalog of the running gateway.")]


def register(app: typer.Typer) -> None:
    """Put the command into the group `catalog`."""
    command(app, "bench")(bench)


def bench(session: CommandContext, model: Models = None, gateway: Through = False) -> int:
    """Measure how well the catalog's tools are found and used: offline, and with the models you name.

    Keys come from ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY. The prompts are sent to those APIs.

    For example: mcpproxy catalog bench --gateway
    """
    from mcpproxy_py.bench import report

    server = _through_the_gate(session) if gateway else _in_process()
    runs, failed = asyncio.run(_measured(server, _named(model or [])))
    unmeasured = {**failed, **_not_asked(runs, failed)}
    session.show(report.as_json(runs, unmeasured), lambda _: _print_all(runs, unmeasured))
    return EXIT_FAILED if failed else EXIT_OK


def _in_process() -> BenchTarget:
    from mcpproxy_py.bench import offline

    return offline.catalog()


def _through_the_gate(session: CommandContext) -> BenchTarget:
    """The same tools as agents reach them: each call is decided and recorded like any other."""
    from mcpproxy_py.bench import offline
    from mcpproxy_py.bench import suite as bench_suite
    from mcpproxy_py.cli.gateway.client import every_page

    listed = every_page(session.client, "tools", items="tools", server="catalog")["tools"]
    tools = [{**tool, "name": tool["name"].removeprefix("catalog:")} for tool in listed if tool["class"] == "read"]
    if not tools:
        raise GatewayError(Code.NOT_FOUND, "The running gateway has no tools of the catalog")

    async def call(tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
        intent = {"operation_type": "read", "reason": "benchmark of the catalog"}
        body = {"variant": "read", "name": f"catalog:{tool}", "args": arguments, "intent": intent}
        try:
            return session.client.post("call", body=body, patient=True)["result"]
        except GatewayError as refused:
            if refused.code is Code.NOT_REACHABLE:
                raise
            return {"content": [{"type": "text", "text": refused.message}], "isError": True}

    return bench_suite.BenchTarget(tools, call, offline.raw_data())


def _named(models: list[str]) -> list[tuple[str, str]]:
    """The API and the model's name of each `--model`."""
    from mcpproxy_py.bench.models import APIS

    pairs = [tuple(model.split(":", 1)) for model in models]
    for given, pair in zip(models, pairs, strict=True):
        if len(pair) != 2 or pair[0] not in APIS or not pair[1]:
            raise typer.BadParameter(f"'{given}' is not API:NAME with an API of {', '.join(APIS)}")
    return [(api, name) for api, name in pairs]


async def _measured(server: BenchTarget, models: list[tuple[str, str]]) -> tuple[list[Run], dict[str, str]]:
    """A run for the offline router and for each model; and why a model has none."""
    from mcpproxy_py.bench import suite
    from mcpproxy_py.bench import suite as bench_suite
    from mcpproxy_py.bench.models import APIS, DriverError
    from mcpproxy_py.bench.offline import OfflineRouter

    asked, count = suite.shipped(), suite.counter()
    runs, failed = [await bench_suite.run(OfflineRouter(), server, asked, count)], {}
    for api, name in models:
        try:
            driver = APIS[api].driver(name, os.environ)
            with waiting(f"Asking {driver.name}"):
                runs.append(await bench_suite.run(driver, server, asked, count))
            await driver.aclose()
        except DriverError as error:
            failed[f"{api} {name}"] = str(error)
    return runs, failed


def _not_asked(runs: list[Run], failed: Mapping[str, str]) -> dict[str, str]:
    from mcpproxy_py.bench.models import APIS

    asked = {run.driver.split()[0] for run in runs} | {name.split()[0] for name in failed}
    return {
        name: f"no model was named; set {api.keys[0]} and add --model {name}:NAME"
        for name, api in APIS.items()
        if name not in asked
    }


def _print_all(runs: list[Run], unmeasured: Mapping[str, str]) -> None:
    for run in runs:
        _print_run(run)
    for name, reason in unmeasured.items():
        note(f"Not measured: {name}: {reason}")


def _print_run(run: Run) -> None:
    from mcpproxy_py.bench import report

    say(run.driver if run.is_model else f"{run.driver} (no model: it does not show how a model would choose)")
    for head, rows in (
        (report.FIGURE_HEAD, report.figure_rows(run)),
        (report.SCENARIO_HEAD, report.scenario_rows(run)),
        (("Prompt", "Called", "Expected"), report.missed(run)),
    ):
        if rows:
            say("")
            table(head, rows, empty="")
    say("")


app = group("Servers to add, and the data of the capability catalog.")
catalog_servers.register(app)
register(app)


@command(app, "servers")
def list_servers(
    session: CommandContext,
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="Words of its name or of what it is for.")
    ] = None,
) -> None:
    """The well-known servers of the shipped catalog, and what each needs. `mcpproxy catalog search` asks registries
    too.

    For example: mcpproxy catalog servers database
    """
    rows = _asked(session, query) if session.where.is_named else _shipped(session, query or "")
    session.show({"servers": rows}, lambda answer: _print_found(answer["servers"], query))


def _asked(session: CommandContext, query: str | None) -> list[dict[str, Any]]:
    """A gateway elsewhere may have data of its own."""
    return session.client.get("catalog", limit=200, **({"query": query} if query else {}))["servers"]


def _shipped(session: CommandContext, query: str) -> list[dict[str, Any]]:
    from mcpproxy_py.cli.servers import from_catalog
    from mcpproxy_py.providers.catalog.choosing import matching, shown

    return [shown(entry) for entry in matching(from_catalog.servers(session).values(), query)]


def _print_found(rows: list[Mapping[str, Any]], query: str | None) -> None:
    keys = ("slug", "needs", "description")
    table(keys, [[row[key] for key in keys] for row in rows], empty=f"No server of the catalog is about '{query}'.")
    if rows:
        note(f"Add one with `mcpproxy upstream add --from-catalog {rows[0]['slug']}`.")


@command(app, "validate")
def validate(
    session: CommandContext,
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Your own data. [default: catalog in the data directory, if it is there]"),
    ] = None,
) -> int:
    """Check the shipped data together with your own: schema, coverage, and age of the facts.

    For example: mcpproxy catalog validate
    """
    from datetime import date

    from mcpproxy_py.providers.catalog.validate import validate as check

    own = _own(session, directory)
    findings = check(own, date.today())
    wrong = any(finding.level == "error" for finding in findings)
    answer = {
        "directory": str(own) if own else None,
        "valid": not wrong,
        "findings": [finding.as_json() for finding in findings],
    }
    session.show(answer, _print_findings)
    return EXIT_FAILED if wrong else EXIT_OK


def _own(session: CommandContext, chosen: Path | None) -> Path | None:
    if chosen is not None and not chosen.is_dir():
        raise GatewayError(Code.NOT_FOUND, f"There is no directory {chosen}")
    default = session.where.home() / "catalog"
    return chosen or (default if default.is_dir() else None)


def _print_findings(answer: Mapping[str, Any]) -> None:
    for finding in answer["findings"]:
        note(f"{finding['level'].capitalize()}: {finding['where']}: {finding['message']}")
    if answer["valid"]:
        own = f" with your data from {answer['directory']}" if answer["directory"] else ""
        say(f"The catalog's data{own} is valid.")
