"""What keeps a gateway from working, and how to mend it (USE-3). Looks, and changes nothing."""

from mcpproxy_py.doctor.examined import examined
from mcpproxy_py.doctor.identity import identity_provider
from mcpproxy_py.doctor.machine import before_start, folder
from mcpproxy_py.doctor.running import CheckResult, gateway_at_work, servers_at_work
from mcpproxy_py.doctor.servers import commands, within_reach

__all__ = [
    "CheckResult",
    "before_start",
    "commands",
    "examined",
    "folder",
    "gateway_at_work",
    "identity_provider",
    "servers_at_work",
    "within_reach",
]
