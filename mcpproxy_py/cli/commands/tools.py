"""`mcpproxy call`: one tool call, through the same gate an agent goes through.

`mcpproxy tools`: what can be called, and how.

`mcpproxy explain`: the gate's decision, run dry.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from mcpproxy_py.cli.common import CommandContext, command, group, json_text, person
from mcpproxy_py.cli.completion import profile_names, server_names, tool_names
from mcpproxy_py.cli.gateway.client import every_page
from mcpproxy_py.cli.output import cell, first_line, listing, note, pairs, pretty, say, table, waiting
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, Code, GatewayError

call_app = group("Call a tool through the intent gate.")

Tool = Annotated[
    str | None,
    typer.Argument(metavar="SERVER:TOOL", help="The tool, as `tools list` names it.", autocompletion=tool_names),
]
ToolName = Annotated[
    str | None,
    typer.Option(
        "--tool-name", metavar="SERVER:TOOL", help="The tool, as an option instead.", autocompletion=tool_names
    ),
]
Arguments = Annotated[
    str | None,
    typer.Option(
        "--json_args", "--json-args", metavar="JSON", help="Its arguments: a JSON object, @file, or - (stdin)."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the record.")]
Sensitivity = Annotated[
    str | None,
    typer.Option("--sensitivity", metavar="LEVEL", help="Of the data: public, internal, private or unknown."),
]


@command(call_app, "tool-read")
def tool_read(
    session: CommandContext, tool: Tool = None, tool_name: ToolName = None, json_args: Arguments = None,
    reason: Reason = None, sensitivity: Sensitivity = None,
) -> int:  # fmt: skip
    """Call a tool that only reads.

    For example: mcpproxy call tool-read time:get_current_time --json_args '{"timezone": "Europe/Berlin"}'
    """
    return _call(session, "read", _named(tool, tool_name), json_args, reason, sensitivity)


@command(call_app, "tool-write")
def tool_write(
    session: CommandContext, tool: Tool = None, tool_name: ToolName = None, json_args: Arguments = None,
    reason: Reason = None, sensitivity: Sensitivity = None,
) -> int:  # fmt: skip
    """Call a tool that changes something.

    For example: mcpproxy call tool-write git:git_add --json_args @files.json --reason 'prepare the release'
    """
    return _call(session, "write", _named(tool, tool_name), json_args, reason, sensitivity)


@command(call_app, "tool-destructive")
def tool_destructive(
    session: CommandContext, tool: Tool = None, tool_name: ToolName = None, json_args: Arguments = None,
    reason: Reason = None, sensitivity: Sensitivity = None,
) -> int:  # fmt: skip
    """Call a tool that deletes or overwrites.

    For example: mcpproxy call tool-destructive files:delete_file --json_args '{"path": "old.txt"}'
    """
    return _call(session, "destructive", _named(tool, tool_name), json_args, reason, sensitivity)


def _named(tool: str | None, tool_name: str | None) -> str:
    """The tool by either way of saying it. Two that differ are a mistake, and none of them is called."""
    if tool is None and tool_name is None:
        raise typer.BadParameter("name the tool, as `mcpproxy tools list` names it", param_hint="SERVER:TOOL")
    if tool is not None and tool_name is not None and tool != tool_name:
        raise typer.BadParameter("the argument names another tool", param_hint="--tool-name")
    return tool or tool_name or ""


def _call(
    session: CommandContext, variant: str, name: str, args: str | None, reason: str | None, level: str | None
) -> int:
    """The command is the variant and the declaration both, so the two keys of the gate agree."""
    intent = {"operation_type": variant, "data_sensitivity": level, "reason": reason}
    body: dict[str, Any] = {
        "variant": variant,
        "name": name,
        "intent": {key: value for key, value in intent.items() if value is not None},
    }
    if args is not None:
        # As text, so that no number is rounded on its way through this process.
        body["args_json"] = json_text(args, "--json_args")
    try:
        if (said := _asked_person(session, body)) is not None:
            body["confirmation"] = said
        with waiting(f"Calling {name}"):
            answer = session.client.post("call", body=body, patient=True)
    except GatewayError as error:
        if not session.human:
            raise
        from mcpproxy_py.cli.refusals import for_person

        raise for_person(error, name, variant) from None
    session.show(answer, lambda shown: _print_answer(name, shown))
    return EXIT_FAILED if _result(answer).get("isError") else EXIT_OK


def _asked_person(session: CommandContext, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the person at this terminal says to the gateway's question; `None` where there is none, or nobody to ask.
    Their yes cannot be given by an option."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    try:
        asked = session.client.post("call", "question", body=body)
    except GatewayError as error:
        if error.code in (Code.NOT_FOUND, Code.METHOD_NOT_ALLOWED):  # an older gateway
            return None
        raise
    if not asked.get("question"):
        return None
    note(f"{asked['question']}\n")
    try:
        allowed = typer.confirm("Allow it?", default=False, err=True)
    except (typer.Abort, OSError):  # interrupted, or the terminal is gone
        allowed = False
    return {"token": asked["token"], "allow": allowed, "terminal": True, "name": person()}


def _result(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    result = answer.get("result")
    return result if isinstance(result, dict) else {}


def _print_answer(name: str, answer: Mapping[str, Any]) -> None:
    if answer.get("warning"):
        note(f"Warning: {answer['warning']}")
    result = _result(answer)
    text = _content_text(result)
    if result.get("isError"):
        note(f"Error from {name}: {text}")
    elif text:
        say(text)


def _content_text(result: Mapping[str, Any]) -> str:
    """The content as text; the structured form where there is no other."""
    content = result.get("content")
    blocks = [_block_text(block) for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if blocks or "structuredContent" not in result:
        return "\n".join(blocks)
    return pretty(result["structuredContent"])


def _block_text(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block.get("text", ""))
    if block.get("type") == "resource_link":
        return f"[{block.get('name', 'resource')}: {block.get('uri', '')}]"
    inner = block.get("resource")
    if isinstance(inner, dict):
        return str(inner["text"]) if "text" in inner else f"[{inner.get('uri', 'resource')}: {_size(inner, 'blob')}]"
    return f"[{block.get('type', 'content')}: {_size(block, 'data')}]"


def _size(block: Mapping[str, Any], key: str) -> str:
    octets = len(str(block.get(key, ""))) * 3 // 4
    return f"{block.get('mimeType', 'no type given')}, about {octets} bytes; -o json shows them"


tools_app = group("The tools behind the gateway.")

ServerFilter = Annotated[
    str | None, typer.Option("--server", metavar="NAME", help="Only this server's tools.", autocompletion=server_names)
]


@command(tools_app, "list")
def list_tools(session: CommandContext, server: ServerFilter = None) -> None:
    """Every tool, with its class and the variant to call it with.

    For example: mcpproxy tools list --server git
    """
    session.show(every_page(session.client, "tools", items="tools", server=server), _print_tools)


@command(tools_app, "search")
def search(
    session: CommandContext,
    query: Annotated[str, typer.Argument(help="What you need, in plain words.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="Maximum number of results.")] = 5,
    detail: Annotated[
        Literal["full", "compact", "auto"],
        typer.Option("--detail", metavar="full|compact|auto", help="compact: signatures instead of schemas."),
    ] = "full",
    server: ServerFilter = None,
    read_only_only: Annotated[bool, typer.Option("--read-only-only", help="Only read-only tools.")] = False,
    exclude_destructive: Annotated[bool, typer.Option("--exclude-destructive", help="No destructive tools.")] = False,
) -> None:
    """Find tools as an agent finds them, by `retrieve_tools`.

    For example: mcpproxy tools search 'read a file'
    """
    flags = {"read_only_only": read_only_only or None, "exclude_destructive": exclude_destructive or None}
    found = session.client.get("tools", "search", query=query, limit=limit, detail=detail, server=server, **flags)
    session.show(found, _print_hits)


@command(tools_app, "show")
def show(
    session: CommandContext, name: Annotated[str, typer.Argument(metavar="SERVER:TOOL", autocompletion=tool_names)]
) -> None:
    """One tool: its class, its description and its input schema.

    For example: mcpproxy tools show git:git_status
    """
    session.show(session.client.get("tools", name), _print_tool)


def _print_tools(answer: Mapping[str, Any]) -> None:
    tools = answer.get("tools", [])
    rows = [[tool.get("name"), tool.get("class"), tool.get("call_with"), _availability(tool),
             first_line(tool.get("description"))] for tool in tools]  # fmt: skip
    # A class but `unknown` names its variant, and "yes" in each line says nothing.
    spare = ("callable", "call with") if all(tool.get("callable", True) for tool in tools) else ("call with",)
    listing(("name", "class", "call with", "callable", "description"), rows, empty="No tools.", spare=spare)


def _availability(tool: Mapping[str, Any]) -> str:
    return "yes" if tool.get("callable", True) else str(tool.get("unavailable_reason") or "no")


def _print_hits(answer: Mapping[str, Any]) -> None:
    rows = [[hit.get("score"), hit.get("name"), hit.get("call_with"), _gist(hit)] for hit in answer.get("tools", [])]
    listing(("score", "name", "call with", "description"), rows, empty="No matching tool.")
    if rows and answer.get("fits") is False:
        note("None of these fits well; they are only the nearest.")
    left_out = answer.get("unavailable")
    if left_out:
        note("Not callable now, left out: " + ", ".join(f"{count} {why}" for why, count in left_out.items()))


def _gist(hit: Mapping[str, Any]) -> str:
    return str(hit.get("signature") or first_line(hit.get("description")))


def _print_tool(tool: Mapping[str, Any]) -> None:
    brief = {key: value for key, value in tool.items() if key not in ("description", "inputSchema", "outputSchema")}
    pairs(brief)
    if tool.get("description"):
        say(f"\n{str(tool['description']).strip()}")
    say(f"\nInput schema:\n{pretty(tool.get('inputSchema', {}))}")


explain_app = group("Dry run of the gate's decision.")


@command(explain_app, "explain")
def explain(
    session: CommandContext,
    name: Annotated[str, typer.Argument(metavar="SERVER:TOOL", autocompletion=tool_names)],
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
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="As it is in this profile.", autocompletion=profile_names),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit 3 if the call would be refused.")] = False,
) -> int:
    """Show what the gate would decide, rung by rung.

    Nothing is called and nothing is recorded.

    For example: mcpproxy explain git:git_reset --variant read
    """
    body: dict[str, Any] = {"name": name}
    if variant is not None:
        body |= {"variant": variant, "intent": {"operation_type": variant}}
    if args is not None:
        body["args_json"] = json_text(args, "--args")
    if profile is not None:
        body["profile"] = profile
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
        say(f"  {cell(refusal['remedy'])}")
