"""Whether traces are wanted, by OpenTelemetry's own variables; its SDK reads the rest of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from mcpproxy_py.errors import Code, GatewayError

DISABLED: Final = "OTEL_SDK_DISABLED"
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN: Final = "http/protobuf"


def exports_traces(environ: Mapping[str, str] | None = None) -> bool:
    """Raises `GatewayError(CONFIG_INVALID)` for an exporter that there is not."""
    environ = os.environ if environ is None else environ
    chosen, endpoint = _said(environ, EXPORTER).lower(), _first(environ, ENDPOINTS)
    if _said(environ, DISABLED).lower() == "true" or chosen == "none" or not (chosen or endpoint):
        return False
    if chosen not in ("", "otlp"):
        raise _wrong(f"{EXPORTER} is {chosen!r}, and traces can be exported by otlp only: set it to otlp, or to none")
    if (protocol := _first(environ, PROTOCOLS)) not in ("", SPOKEN):
        raise _wrong(f"{PROTOCOLS[1]} is {protocol!r}, and only {SPOKEN} is supported (port 4318, as a rule)")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise _wrong(f"{ENDPOINTS[1]} has to begin with http:// or https://")  # not shown: it may hold a password
    return True


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next(filter(None, (_said(environ, name) for name in names)), "")


def _said(environ: Mapping[str, str], name: str) -> str:
    """An empty variable counts as unset, as the standard says."""
    return environ.get(name, "").strip()


def _wrong(message: str) -> GatewayError:
    return GatewayError(Code.CONFIG_INVALID, message)
