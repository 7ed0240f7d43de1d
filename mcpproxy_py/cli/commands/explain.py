"""`mcpproxy explain`: the gate's decision, run dry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.inputs import json_text
from mcpproxy_py.cli.output import say, table
from mcpproxy_py.errors import EXIT_OK, EXIT_REFUSED

app = group("Dry run of the gate's decision.")


@command(app, "explain")
def explain(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="SERVER:TOOL")],
    variant: Annotated[
        Literal["read", "write", "destructive"] | None,
        typer.Option(
            "--variant",
            metavar="read|write|destructive",
            help="The variant to call. [default: the one that `call_with` names]",
        ),
    ] = None,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="The arguments: a JSON object, @file, or - (stdin).")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit 3 if the call would be refused.")] = False,
) -> int:
    """Show what the gate would decide, rung by rung.

    Nothing is called and nothing is recorded.
    """
    body: dict[str, Any] = {"name": name}
    if variant is not None:
        body |= {"variant": variant, "intent": {"operation_type": variant}}
    if args is not None:
        body["args_json"] = json_text(args, "--args")
    answer = session.client.post("explain", body=body)
    session.show(answer, _print_rungs)
    return EXIT_REFUSED if check and _refused(answer) else EXIT_OK


def _refused(answer: Mapping[str, Any]) -> bool:
    """Anything but a clear yes counts as a refusal: `--check` guards scripts."""
    outcomes = [rung.get("outcome") for rung in answer.get("rungs", [])]
    return answer.get("refusal") is not None or set(outcomes) != {"passed"}


def _print_rungs(answer: Mapping[str, Any]) -> None:
    rows = [[rung.get(key) for key in ("number", "rule", "outcome", "message")] for rung in answer.get("rungs", [])]
    table(("#", "rule", "outcome", "message"), rows, empty="The gateway returned no rungs.")
    door = answer.get("variant") or "the call"
    if not _refused(answer):
        say(f"{door} would be allowed.")
        return
    refusal = answer.get("refusal") or {}
    say(f"{door} would be refused: {refusal.get('code')}.")
    if refusal.get("remedy"):
        say(f"  {refusal['remedy']}")
