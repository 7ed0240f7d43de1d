"""`mcpproxy catalog`: the data behind the built-in capability catalog, checked and measured. Needs no gateway."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.commands import catalog
from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.output import note, say
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, Code, GatewayError

app = group("The data of the capability catalog.")
catalog.register(app)


@command(app, "validate")
def validate(
    session: Session,
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Your own data. [default: catalog in the data directory, if it is there]"),
    ] = None,
) -> int:
    """Check the shipped data together with your own: schema, coverage, and age of the facts."""
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


def _own(session: Session, chosen: Path | None) -> Path | None:
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
