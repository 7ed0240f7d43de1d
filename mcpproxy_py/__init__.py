"""mcpproxy: one MCP endpoint for IDE agents, with an intent gate and a record of every call."""

__version__ = "0.1.0"
