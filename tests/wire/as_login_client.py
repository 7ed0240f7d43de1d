"""What the suite starts to test a client's logins: `python -m tests.wire.as_login_client URL`.

The gateway gets the suite's server as an upstream, finds out what it wants, and a person logs in by
`mcpproxy upstream login`, as often as the server asks for it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

import httpx

from tests.support.wire import Wire
from tests.wire.as_client import GATEWAY, KEY

DATA_DIR = "MCPPROXY_TEST_DATA_DIR"
MOST_LOGINS = 3
PATIENCE = 60
DOCUMENT = "https://conformance-test.local/client-metadata.json"


def main() -> None:
    rest = httpx.Client(
        base_url=f"{os.environ[GATEWAY]}/api/v1", headers={"X-API-Key": os.environ[KEY]}, timeout=60, trust_env=False
    )
    scenario, url = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    name = f"{scenario.lower().replace('/', '-')[:24]}-{os.getpid() % 100000}"
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    config = {"url": url, **_auth(scenario, url, context)}
    answer = rest.post("/servers", json={"name": name, "config": config, "replace": True})
    assert answer.status_code == 201, answer.text
    try:
        for _ in range(MOST_LOGINS):
            state = _settled(rest, name)
            if state == "connected" and not _wants_login(rest, name):
                break
            if state == "failed":
                break
            print(_log_in(name))
    finally:
        rest.post(f"/servers/{name}/logout", json={})
        rest.delete(f"/servers/{name}")


def _auth(scenario: str, url: str, context: dict[str, Any]) -> dict[str, Any]:
    if scenario.endswith("basic-cimd"):
        return {"auth": {"type": "oauth", "client_metadata_url": DOCUMENT, "redirect_uri": _somewhere()}}
    if "client_id" not in context or "valid_jwt" in context:
        return {}
    known: dict[str, Any] = {"type": "oauth", "client_id": context["client_id"]}
    if "private_key_pem" in context:
        known |= {"private_key": context["private_key_pem"], "signing_algorithm": context["signing_algorithm"]}
    else:
        known["client_secret"] = context["client_secret"]
    if "issuer" in context:
        known["issuer"] = context["issuer"]
    else:  # an operator would know it
        place = url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp"
        known |= {"issuer": httpx.get(place).json()["authorization_servers"][0], "grant": "client_credentials"}
    if "idp_id_token" in context:
        provider = {"issuer": context["idp_issuer"], "client_id": context["idp_client_id"]}
        known |= {
            "grant": "identity_assertion",
            "identity_provider": {**provider, "subject_token": context["idp_id_token"]},
        }
    return {"auth": {**known, "redirect_uri": _somewhere()}}


def _somewhere() -> str:
    """Where such a client is registered to be; other tests wait at the usual port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}/callback"


def _settled(rest: httpx.Client, name: str) -> str:
    give_up = time.monotonic() + PATIENCE
    while True:
        row = next(row for row in rest.get("/servers").json()["servers"] if row["name"] == name)
        if row["state"] not in ("connecting",) or row["error"]:
            print(row["state"], row["error"])
            return "failed" if row["state"] == "connecting" else row["state"]
        assert time.monotonic() < give_up, row
        time.sleep(0.05)


def _wants_login(rest: httpx.Client, name: str) -> bool:
    """Calls every tool; whether one of them was answered that somebody has to log in."""
    gate = Wire(f"{os.environ[GATEWAY]}/mcp")
    tools = [tool["name"] for tool in rest.get("/tools", params={"server": name}).json()["tools"]]
    said = [str(gate.via("destructive", tool, {})) for tool in tools]
    print(said)
    return any("upstream login" in each for each in said)


def _log_in(name: str) -> str:
    browser = f"{sys.executable} -m tests.support.browser %s"
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy_py", "upstream", "login", name, "--data-dir", os.environ[DATA_DIR]],
        env={**os.environ, "BROWSER": browser}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
