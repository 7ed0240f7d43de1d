"""What a start loads, since loading is nearly all that a start does (PERF-6)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway import clean_environment

LATER: dict[str, str] = {
    "alembic": "an empty SQLite file is filled by `migrations/head.sql`, and a current one needs nothing",
    "sqlalchemy.dialects.postgresql": "only for `activity.database_url`",
    "psycopg": "only for `activity.database_url`",
    "sqlalchemy.orm": "the store is SQLAlchemy Core",
    "mcp": "both sides of the wire are our own",
    "mcp_types": "both sides of the wire are our own",
    "mcpproxy_py.serve.rest.app": "with the first request for it, or a moment after the start",
    "mcpproxy_py.core.pins.text_scan": "with the first listing that is not approved yet",
    "mcpproxy_py.providers.registry.asking": "with the first search in a registry that is configured",
    "mcpproxy_py.core.oauth.values": "with the first server that may need a login",
    "mcpproxy_py.upstream.oauth.runner": "with the first server that may need a login",
    "mcpproxy_py.upstream.oauth.blocks": "with the first server that needs a login",
    "mcpproxy_py.serve.http.identity": "only for `auth.jwt`",
    "jwt": "for `auth.jwt`, and with the first login of a machine that signs",
    "cryptography": "for `auth.jwt`, and with the first login that is kept",
    "httpx2": "with the first server over HTTP",
    "httpx": "that is how commands talk to a gateway",
    "docstring_parser": "with the operator's first function",
    "keyring": "with the first `${keyring:NAME}`",
    "prometheus_client": "with the first scrape",
    "opentelemetry": "only where telemetry is configured",
    "rich": "for what people read",
    "yaml": "for `-o yaml`",
}
"""What a gateway with no servers has no use for, and when, if ever, it has."""


@pytest.mark.proves("PERF-6")
def test_a_first_and_a_later_start_load_nothing_that_only_some_gateways_need(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "mcpproxy_py", "serve", "--idle-exit", "0"]
    where = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    for _ in ("first", "later"):
        done = subprocess.run(
            [*command, *where], env=clean_environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert "is ready" in done.stderr
        loaded = {
            line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")
        }
        assert "mcpproxy_py.app.compose" in loaded
        assert {name: why for name, why in LATER.items() if name in loaded} == {}
