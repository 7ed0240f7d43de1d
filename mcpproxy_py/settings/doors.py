"""What would stand open, or not exist, is no configuration to start with (SEC-1, SURF-4)."""

from __future__ import annotations

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.settings.models import Settings


def check_doors(settings: Settings) -> None:
    """Raises `GatewayError` with the way out."""
    if settings.mcp_token is None and settings.listens_publicly:
        raise GatewayError(
            Code.CONFIG_INVALID,
            f"{settings.listen} can be reached from outside, and no agent token is set. Set one first:\n"
            f'  export MCPPROXY_MCP_TOKEN="$(openssl rand -hex 32)"',
        )
    if settings.mcp_token is None and settings.require_mcp_auth:
        raise GatewayError(Code.CONFIG_INVALID, "require_mcp_auth is set, but mcp_token is not")
