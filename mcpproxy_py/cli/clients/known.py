"""The clients that are known: for each a row of data, looked up in its own documentation and source.

A path begins with `~`, with `{config}` (`$XDG_CONFIG_HOME`, `~/.config`; on Windows `%APPDATA%`), with `{app}` (the
same, but `~/Library/Application Support` on macOS), or with a variable that the client itself honours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mcpproxy_py.cli.clients.documents import Syntax

KeyPath = tuple[str, ...]
READ_TOOLS: Final = ("retrieve_tools", "request_capability", "call_tool_read", "read_result")
ASK_TOOLS: Final = ("call_tool_write", "call_tool_destructive")


class Slot(StrEnum):
    """What stands in an entry for what differs. Read backwards, it says under which key an entry has it."""

    COMMAND = "<command>"
    ARGS = "<args>"
    COMMAND_AND_ARGS = "<command and args>"
    URL = "<url>"
    HEADERS = "<headers>"
    TOKEN_VARIABLE = "<name of the variable with the token>"
    TOKEN_VARIABLES = "<list with the name of that variable>"
    NAME = "<name>"


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a file may be. One that begins with a variable of the client's is the place as soon as that is set."""

    path: str
    on: str | None = None
    """`linux`, `macos` or `windows`; everywhere if not said."""


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One rule for each tool: `{server}` and `{tool}` are filled in. With `item` it is added to the list at `path`,
    with `value` it is set there."""

    path: KeyPath
    item: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Permissions:
    """How the client is told what to run without asking. Without any of it, a person has to click."""

    reads: ToolRule | None = None
    asks: ToolRule | None = None
    user: tuple[FilePlace, ...] = ()
    """The file of the rules, where it is not that of the servers."""
    project: tuple[str, ...] = ()
    syntax: Syntax = Syntax.JSON
    in_entry: Mapping[str, Any] = field(default_factory=dict)
    """Rules that stand in the server's own entry."""
    whole_file: str | None = None
    """A file that holds our rules and nothing else."""
    by_hand: str = ""
    """What remains for a person to do."""


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A program that agents live in, and how its servers are configured."""

    name: str
    title: str
    syntax: Syntax
    servers: KeyPath
    """Where the entries are, by name."""
    user: tuple[FilePlace, ...]
    """The file of the person: the first that is there, else the first."""
    stdio: Mapping[str, Any]
    """An entry for a command, with a `Slot` for what differs."""
    http: Mapping[str, Any] | None = None
    project: tuple[str, ...] = ()
    """The file of a project, from its root."""
    more_servers: tuple[KeyPath, ...] = ()
    """Where else entries may be; `*` stands for any key."""
    variable: str | None = None
    """How an entry refers to an environment variable called `NAME`; `None`: not at all."""
    token_input: bool = False
    """Whether it asks for secrets itself and keeps them, by `inputs` (VS Code)."""
    permissions: Permissions = Permissions()
    programs: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    """Applications of macOS."""
    next_step: str = ""


_STDIO: Final = {"command": Slot.COMMAND, "args": Slot.ARGS}
_TYPED_STDIO: Final = {"type": "stdio", **_STDIO}
_TYPED_HTTP: Final = {"type": "http", "url": Slot.URL, "headers": Slot.HEADERS}
_HTTP: Final = {"url": Slot.URL, "headers": Slot.HEADERS}
_BY_HAND: Final = (
    "It asks when a tool is first used: choose to always allow retrieve_tools, request_capability, call_tool_read and "
    "read_result, and never the other two."
)

_GEMINI_POLICY: Final = """\
[[rule]]
mcpName = "{server}"
toolName = ["retrieve_tools", "request_capability", "call_tool_read", "read_result"]
decision = "allow"
priority = 100

[[rule]]
mcpName = "{server}"
toolName = ["call_tool_write", "call_tool_destructive"]
decision = "ask_user"
priority = 100
"""

_ALL: Final = (
    KnownClient(
        name="claude-code",
        title="Claude Code",
        syntax=Syntax.JSON,
        servers=("mcpServers",),
        user=(FilePlace("$CLAUDE_CONFIG_DIR/.claude.json"), FilePlace("~/.claude.json")),
        project=(".mcp.json",),
        more_servers=(("projects", "*", "mcpServers"),),
        stdio=_TYPED_STDIO,
        http=_TYPED_HTTP,
        variable="${NAME}",
        permissions=Permissions(
            reads=ToolRule(("permissions", "allow"), item="mcp__{server}__{tool}"),
            asks=ToolRule(("permissions", "ask"), item="mcp__{server}__{tool}"),
            user=(FilePlace("$CLAUDE_CONFIG_DIR/settings.json"), FilePlace("~/.claude/settings.json")),
            project=(".claude/settings.json",),
        ),
        programs=("claude",),
        next_step="Start a new session of Claude Code; `claude mcp list` shows the connection.",
    ),
    KnownClient(
        name="claude-desktop",
        title="Claude Desktop",
        syntax=Syntax.JSON,
        servers=("mcpServers",),
        user=(FilePlace("{app}/Claude/claude_desktop_config.json"),),
        stdio=_STDIO,
        permissions=Permissions(by_hand=_BY_HAND),
        apps=("Claude.app",),
        next_step="Quit Claude Desktop, not only its window, and start it again.",
    ),
    KnownClient(
        name="cursor",
        title="Cursor",
        syntax=Syntax.JSON,
        servers=("mcpServers",),
        user=(FilePlace("~/.cursor/mcp.json"),),
        project=(".cursor/mcp.json",),
        stdio=_STDIO,
        http=_HTTP,
        variable="${env:NAME}",
        permissions=Permissions(
            reads=ToolRule(("mcpAllowlist",), item="{server}:{tool}"),
            user=(FilePlace("~/.cursor/permissions.json"),),
            by_hand="The list counts where auto-run is set to use the allowlist; all else is asked about.",
        ),
        programs=("cursor", "cursor-agent"),
        apps=("Cursor.app",),
        next_step="Open Settings, Tools & MCP in Cursor and switch the server on if it is off.",
    ),
    KnownClient(
        name="vscode",
        title="VS Code",
        syntax=Syntax.JSON,
        servers=("servers",),
        user=(
            FilePlace("{app}/Code/User/mcp.json"),
            FilePlace("{app}/Code - Insiders/User/mcp.json"),
            FilePlace("{app}/VSCodium/User/mcp.json"),
        ),
        project=(".vscode/mcp.json",),
        stdio=_TYPED_STDIO,
        http=_TYPED_HTTP,
        variable="${env:NAME}",
        token_input=True,
        permissions=Permissions(by_hand=_BY_HAND),
        programs=("code", "code-insiders", "codium"),
        apps=("Visual Studio Code.app",),
        next_step='Run "MCP: List Servers" from the command palette of VS Code and start the server.',
    ),
    KnownClient(
        name="windsurf",
        title="Windsurf",
        syntax=Syntax.JSON,
        servers=("mcpServers",),
        user=(FilePlace("~/.codeium/windsurf/mcp_config.json"), FilePlace("~/.codeium/mcp_config.json")),
        stdio=_STDIO,
        http={"serverUrl": Slot.URL, "headers": Slot.HEADERS},
        variable="${env:NAME}",
        permissions=Permissions(by_hand=_BY_HAND),
        programs=("windsurf",),
        apps=("Windsurf.app",),
        next_step="Press Refresh in the MCP panel of Cascade.",
    ),
    KnownClient(
        name="gemini-cli",
        title="Gemini CLI",
        syntax=Syntax.JSON,
        servers=("mcpServers",),
        user=(FilePlace("$GEMINI_CLI_HOME/.gemini/settings.json"), FilePlace("~/.gemini/settings.json")),
        project=(".gemini/settings.json",),
        stdio=_STDIO,
        http={"httpUrl": Slot.URL, "headers": Slot.HEADERS},
        variable="${NAME}",
        permissions=Permissions(
            user=(
                FilePlace("$GEMINI_CLI_HOME/.gemini/policies/{server}.toml"),
                FilePlace("~/.gemini/policies/{server}.toml"),
            ),
            syntax=Syntax.TOML,
            whole_file=_GEMINI_POLICY,
        ),
        programs=("gemini",),
        next_step="Start a new session of Gemini CLI in a folder that it trusts; `gemini mcp list` shows the server.",
    ),
    KnownClient(
        name="codex",
        title="Codex",
        syntax=Syntax.TOML,
        servers=("mcp_servers",),
        user=(FilePlace("$CODEX_HOME/config.toml"), FilePlace("~/.codex/config.toml")),
        project=(".codex/config.toml",),
        stdio=_STDIO,
        http={"url": Slot.URL, "bearer_token_env_var": Slot.TOKEN_VARIABLE},
        permissions=Permissions(
            in_entry={
                "default_tools_approval_mode": "prompt",
                "tools": {tool: {"approval_mode": "approve"} for tool in READ_TOOLS},
            }
        ),
        programs=("codex",),
        next_step="Start a new session of Codex; `codex mcp list` shows the server.",
    ),
    KnownClient(
        name="opencode",
        title="OpenCode",
        syntax=Syntax.JSON,
        servers=("mcp",),
        user=(FilePlace("{config}/opencode/opencode.jsonc"), FilePlace("{config}/opencode/opencode.json")),
        project=("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        stdio={"type": "local", "command": Slot.COMMAND_AND_ARGS, "enabled": True},
        http={"type": "remote", "url": Slot.URL, "enabled": True, "headers": Slot.HEADERS},
        variable="{env:NAME}",
        permissions=Permissions(
            reads=ToolRule(("permission", "{server}_{tool}"), value="allow"),
            asks=ToolRule(("permission", "{server}_{tool}"), value="ask"),
        ),
        programs=("opencode",),
        next_step="Start a new session of OpenCode; `opencode mcp list` shows the connection.",
    ),
    KnownClient(
        name="zed",
        title="Zed",
        syntax=Syntax.JSON,
        servers=("context_servers",),
        user=(FilePlace("{config}/zed/settings.json"),),
        project=(".zed/settings.json",),
        stdio=_STDIO,
        http=_HTTP,
        permissions=Permissions(
            reads=ToolRule(("agent", "tool_permissions", "tools", "mcp:{server}:{tool}", "default"), value="allow"),
            asks=ToolRule(("agent", "tool_permissions", "tools", "mcp:{server}:{tool}", "default"), value="confirm"),
        ),
        programs=("zed", "zeditor"),
        apps=("Zed.app",),
        next_step="Zed reads its settings at once; a green dot in the Agent Panel's settings shows the connection.",
    ),
    KnownClient(
        name="cline",
        title="Cline",
        syntax=Syntax.JSON,
        servers=("mcpServers",),
        user=(
            FilePlace("$CLINE_MCP_SETTINGS_PATH"),
            FilePlace("$CLINE_DATA_DIR/settings/cline_mcp_settings.json"),
            FilePlace("$CLINE_DIR/data/settings/cline_mcp_settings.json"),
            FilePlace("~/.cline/data/settings/cline_mcp_settings.json"),
            FilePlace("{app}/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ),
        stdio=_TYPED_STDIO,
        http={"type": "streamableHttp", "url": Slot.URL, "headers": Slot.HEADERS},
        permissions=Permissions(in_entry={"autoApprove": list(READ_TOOLS)}),
        programs=("cline",),
        next_step="Open the MCP servers of Cline and restart the server if it is not connected.",
    ),
    KnownClient(
        name="goose",
        title="Goose",
        syntax=Syntax.YAML,
        servers=("extensions",),
        user=(
            FilePlace("$GOOSE_PATH_ROOT/config/config.yaml"),
            FilePlace("{config}/Block/goose/config/config.yaml", on="windows"),
            FilePlace("{config}/goose/config.yaml"),
        ),
        stdio={
            "enabled": True,
            "type": "stdio",
            "name": Slot.NAME,
            "cmd": Slot.COMMAND,
            "args": Slot.ARGS,
            "timeout": 300,
        },
        http={
            "enabled": True,
            "type": "streamable_http",
            "name": Slot.NAME,
            "uri": Slot.URL,
            "env_keys": Slot.TOKEN_VARIABLES,
            "headers": Slot.HEADERS,
            "timeout": 300,
        },
        variable="${NAME}",
        permissions=Permissions(
            reads=ToolRule(("user", "always_allow"), item="{server}__{tool}"),
            asks=ToolRule(("user", "ask_before"), item="{server}__{tool}"),
            user=(
                FilePlace("$GOOSE_PATH_ROOT/config/permission.yaml"),
                FilePlace("{config}/Block/goose/config/permission.yaml", on="windows"),
                FilePlace("{config}/goose/permission.yaml"),
            ),
            syntax=Syntax.YAML,
            by_hand="Goose asks in its modes approve and smart_approve only (GOOSE_MODE).",
        ),
        programs=("goose",),
        next_step="Start a new session of Goose.",
    ),
)

CLIENTS: Final[Mapping[str, KnownClient]] = {client.name: client for client in _ALL}
"""By name, in the order in which they are shown."""
