"""Several gateways as `docs/howto/several-replicas.md` sets them up: that configuration, variables and copied key."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.gateway import Running, gateway

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "config" / "replicas.json"
HOWTO = ROOT / "docs" / "howto" / "several-replicas.md"
TOKEN = "a-token-for-agents"
SEALING_KEYS = ("a-key-that-both-have",)


def documented(**changes: Any) -> dict[str, Any]:
    """The example, but for what is only there to be replaced: the servers, and whatever else a test is about."""
    return {**json.loads(EXAMPLE.read_text(encoding="utf-8")), **changes}


def variables(database_url: str, sealing_keys: Sequence[str]) -> dict[str, str]:
    """Of one of them, as the how-to names them."""
    shared = {
        "MCPPROXY_ACTIVITY__DATABASE_URL": database_url,
        "MCPPROXY_MCP_TOKEN": TOKEN,
        "MCPPROXY_API_KEY": "a-key-for-people",
        "MCPPROXY_SEALING_KEYS": json.dumps(sealing_keys),
    }
    assert all(f"export {name}=" in HOWTO.read_text(encoding="utf-8") for name in shared)
    return shared


@contextlib.contextmanager
def replicas(
    folder: Path,
    database_url: str,
    config: Mapping[str, Any],
    *,
    sealing_keys: Sequence[Sequence[str]] = (SEALING_KEYS,) * 2,
    files: Mapping[str, str] | None = None,
    wait: bool = True,
) -> Iterator[list[Running]]:
    """As many gateways as there are `sealing_keys`; `files` lie beside the configuration of each."""
    with contextlib.ExitStack() as stack:
        running: list[Running] = []
        for number, keys in enumerate(sealing_keys):
            data = folder / f"gateway{number}"
            data.mkdir(mode=0o700)
            for name, text in (files or {}).items():
                (data / name).write_text(text)
            if running:
                shutil.copy(running[0].data_dir / "chain.key", data)
            env = variables(database_url, keys)
            running.append(stack.enter_context(gateway(data, config, env=env, wait=wait)))
        yield running
