"""The servers of the matrix, and what each offers of each kind of interaction.

Everything foreign is installed under `.cache` at versions that are locked by hash in this folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.node import environment, node, packages, script
from tests.wire.foreign import npm_everything_on_a_pipe, python_server_folder, python_with

HERE = Path(__file__).parent
Arguments = Mapping[str, Any]
Tools = Mapping[str, tuple[str, Arguments]]
"""By kind of interaction: the tool, and its arguments."""


@dataclass(frozen=True)
class Stranger:
    """A command with `{port}` in it for HTTP, one for stdio, and the names of what it offers."""

    name: str
    tools: Tools
    http: tuple[str, ...] | None = None
    stdio: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    resource: str = ""
    template: str = ""
    """A URI that a template of its stands for."""
    prompt: tuple[str, Arguments] | None = None
    completes: str = ""
    """The argument of its prompt that it completes."""
    cwd: Path | None = None
    stateless: bool = True
    """Whether it speaks the stateless revision too. If not, a stateless client at the gateway is compared with a
    session-based one straight at the server."""

    @property
    def transports(self) -> list[str]:
        return [kind for kind, command in (("http", self.http), ("stdio", self.stdio)) if command]


OURS: Tools = {
    "call": ("echo", {"text": "hello"}),
    "error": ("fail", {}),
    "structured result": ("structured", {"number": 7}),
    "progress": ("progress", {}),
    "log": ("log", {}),
    "elicitation, form": ("elicit_form", {}),
    "elicitation, url": ("elicit_url", {}),
    "sampling": ("sample", {}),
    "roots": ("roots", {}),
    "cancellation": ("slow", {}),
    "list_changed": ("grow", {}),
}
TASKS: Tools = {"tool that can be a task": ("crunch", {"number": 3}),
                "tool that is a task": ("crunch_later", {"number": 3}),
                "task that the client follows": ("crunch_later", {"number": 4})}  # fmt: skip


def fastmcp(*flags: str) -> Stranger:
    command = (python_with(HERE), str(HERE / "fastmcp_server.py"), *flags)
    return Stranger(
        "fastmcp-tasks" if flags else "fastmcp", {**OURS, **(TASKS if flags else {})}, (*command, "--http", "{port}"),
        command, resource="note://one", template="note://by/ann", prompt=("greet", {"name": "Ann"}),
    )  # fmt: skip


def typescript_2() -> Stranger:
    command = (node(), str(script(HERE, "typescript_2.mjs")))
    return Stranger(
        "typescript-2", OURS, (*command, "--http", "{port}"), command, environment(), "note://one", "note://by/ann",
        ("greet", {"name": "Ann"}), "name",
    )  # fmt: skip


def typescript_1() -> list[Stranger]:
    """The examples that the package of the SDK's first version brings along."""
    examples = packages(HERE) / "@modelcontextprotocol" / "sdk" / "dist" / "esm" / "examples" / "server"
    simple: Tools = {
        "call": ("greet", {"name": "Ann"}),
        "log": ("multi-greet", {"name": "Ann"}),
        "elicitation, form": ("collect-user-info", {"infoType": "contact"}),
        "structured result": ("list-files", {}),
    }
    return [
        Stranger(
            "typescript-1-simple", simple, (node(), str(examples / "simpleStreamableHttp.js")), None,
            {**environment(), "MCP_PORT": "{port}"}, "https://example.com/greetings/default", "",
            ("greeting-template", {"name": "Ann"}), stateless=False,
        ),
        Stranger(
            "typescript-1-forms", {"elicitation, form": ("register_user", {})},
            (node(), str(examples / "elicitationFormExample.js")), None, {**environment(), "PORT": "{port}"},
            stateless=False,
        ),
        Stranger("typescript-1-sampling", {"sampling": ("summarize", {"text": "long"})}, None,
                 (node(), str(examples / "toolWithSampleServer.js")), environment(), stateless=False),
        Stranger("typescript-1-progress", {"progress": ("count", {"n": 3})}, None,
                 (node(), str(examples / "progressExample.js")), environment(), stateless=False),
    ]  # fmt: skip


def python_sdk() -> Stranger:
    """The server with which the Python SDK runs the conformance suite: both protocol revisions."""
    tools: Tools = {
        "call": ("test_simple_text", {}),
        "error": ("test_error_handling", {}),
        "progress": ("test_tool_with_progress", {}),
        "log": ("test_tool_with_logging", {}),
        "elicitation, form": ("test_elicitation", {"message": "Who?"}),
        "sampling": ("test_sampling", {"prompt": "hello"}),
    }
    return Stranger(
        "python-sdk", tools, (sys.executable, "-m", "mcp_everything_server", "--port", "{port}"), None,
        resource="test://static-text", template="test://template/123/data",
        prompt=("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}), completes="arg1", cwd=python_server_folder(),
    )  # fmt: skip


def everything() -> Stranger:
    """The reference server that people try MCP with; session-based only."""
    given = npm_everything_on_a_pipe()
    launcher = (given["command"], given["args"][0])
    tools: Tools = {
        "call": ("echo", {"message": "hello"}),
        "structured result": ("get-structured-content", {"location": "New York"}),
        "progress": ("trigger-long-running-operation", {"duration": 1, "steps": 2}),
        "elicitation, form": ("trigger-elicitation-request", {}),
        "sampling": ("trigger-sampling-request", {"prompt": "hello", "maxTokens": 5}),
        "roots": ("get-roots-list", {}),
        "cancellation": ("trigger-long-running-operation", {"duration": 600, "steps": 6000}),
    }
    return Stranger(
        "npm-everything", tools, (*launcher, "streamableHttp"), (*launcher, "stdio"),
        {**environment(), "PORT": "{port}"}, "demo://resource/static/document/features.md",
        "", ("args-prompt", {"city": "Bern"}), stateless=False,
    )  # fmt: skip


def all_of_them() -> list[Stranger]:
    return [fastmcp(), fastmcp("--tasks"), python_sdk(), typescript_2(), *typescript_1(), everything()]
