"""Tools of your own, served through the gate. Everything an author of a provider needs is exported here."""

from mcpproxy_py.core.values import Caller, ClientInfo
from mcpproxy_py.providers.context import Context, Level
from mcpproxy_py.providers.elicitation import Accept, Answer, Asking, Cancel, Decline, InputRequired, Live, Replay
from mcpproxy_py.providers.loader import Loader, installed, load
from mcpproxy_py.providers.results import Error, Link, Raw, Structured, Text, ToolError
from mcpproxy_py.providers.spec import ProviderError, ToolProvider, ToolSpec
from mcpproxy_py.providers.upstream import ProviderUpstream
from mcpproxy_py.providers.upstream import ProviderUpstream as Served

__all__ = [
    "Accept",
    "Answer",
    "Asking",
    "Caller",
    "Cancel",
    "ClientInfo",
    "Context",
    "Decline",
    "Error",
    "InputRequired",
    "Level",
    "Link",
    "Live",
    "Loader",
    "ProviderError",
    "ProviderUpstream",
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
