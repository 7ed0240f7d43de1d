"""The programs that agents live in: where each keeps its MCP servers, and how such a file is read and edited."""
