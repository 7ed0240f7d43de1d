"""Tools of your own, served through the gate. Everything an author of a provider needs is exported here."""

from mcpproxy_py.providers.asking import Accept, Asking, Cancel, Decline, InputRequired, Live, Replay
from mcpproxy_py.providers.context import Context
from mcpproxy_py.providers.loading import Loader, installed, load
from mcpproxy_py.providers.results import Error, Link, Raw, Structured, Text, ToolError
from mcpproxy_py.providers.served import Served
from mcpproxy_py.providers.spec import ProviderError, ToolProvider, ToolSpec

__all__ = [
    "Accept",
    "Asking",
    "Cancel",
    "Context",
    "Decline",
    "Error",
    "InputRequired",
    "Link",
    "Live",
    "Loader",
    "ProviderError",
    "Raw",
    "Replay",
    "Served",
    "Structured",
    "Text",
    "ToolError",
    "ToolProvider",
    "ToolSpec",
    "installed",
    "load",
]
