"""mcpproxy: one MCP endpoint for IDE agents, with an intent gate and a record of who meant what."""

__version__ = "0.1.0"
