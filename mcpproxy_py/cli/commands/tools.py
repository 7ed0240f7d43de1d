"""`mcpproxy call`: one tool call, through the same gate an agent goes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.inputs import json_text
from mcpproxy_py.cli.output import note, pretty, say, waiting
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK

app = group("Call a tool through the intent gate.")

ToolName = Annotated[
    str, typer.Option("--tool-name", metavar="SERVER:TOOL", help="The tool, as `tools list` names it.")
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


@command(app, "tool-read")
def tool_read(
    session: Session, tool_name: ToolName, json_args: Arguments = None,
    reason: Reason = None, sensitivity: Sensitivity = None,
) -> int:  # fmt: skip
    """Call a tool that only reads."""
    return _call(session, "read", tool_name, json_args, reason, sensitivity)


@command(app, "tool-write")
def tool_write(
    session: Session, tool_name: ToolName, json_args: Arguments = None,
    reason: Reason = None, sensitivity: Sensitivity = None,
) -> int:  # fmt: skip
    """Call a tool that changes something."""
    return _call(session, "write", tool_name, json_args, reason, sensitivity)


@command(app, "tool-destructive")
def tool_destructive(
    session: Session, tool_name: ToolName, json_args: Arguments = None,
    reason: Reason = None, sensitivity: Sensitivity = None,
) -> int:  # fmt: skip
    """Call a tool that deletes or overwrites."""
    return _call(session, "destructive", tool_name, json_args, reason, sensitivity)


def _call(session: Session, variant: str, name: str, args: str | None, reason: str | None, level: str | None) -> int:
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
    with waiting(f"Calling {name}"):
        answer = session.client.post("call", body=body, patient=True)
    session.show(answer, lambda shown: _print_answer(name, shown))
    return EXIT_FAILED if _result(answer).get("isError") else EXIT_OK


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
