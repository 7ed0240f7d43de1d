"""What `mcpproxy serve` says once it can be reached."""

from __future__ import annotations

import sys

from mcpproxy_py import __version__
from mcpproxy_py.settings import Settings


def greet(settings: Settings, url: str) -> None:
    mode = "strict" if settings.intent_declaration.strict_server_validation else "permissive"
    many = len(settings.servers)
    servers = f"{many} server{'' if many == 1 else 's'} configured"
    next_step = "mcpproxy upstream add, or mcpproxy import" if not many else "mcpproxy status"
    print(
        f"mcpproxy {__version__} is ready: {mode}, {servers}\n"
        f"  MCP endpoint  {url}/mcp\n"
        f"  clients       mcpproxy connect\n"
        f"  servers       {next_step}\n"
        f"  data          {settings.data_dir}",
        file=sys.stderr,
        flush=True,
    )
