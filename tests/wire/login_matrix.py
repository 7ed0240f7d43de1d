"""Other people's clients log in at the gateway with a certified OpenID provider.

    python -m tests.wire.login_matrix [--write] [--client NAME] [--provider NAME] [--attempt NAME]

Five clients (the Python SDK 1 and 2, the TypeScript SDK 1 and 2, fastmcp's) with npm's `oidc-provider`: once as it
comes (strict: a client may only ask for scopes that it registered with), and once lenient. Each client is installed
from a lock into an environment of its own under `.cache`. Prints a table; `--write` puts what was tried into
the one in `docs/explanation/login-matrix.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

from tests.support.gateway import Running, clean_environment, gateway, python_server, until
from tests.support.node import CACHE, alone, environment, node, script
from tests.support.ports import kept_port

HERE: Final = Path(__file__).parent / "logins"
DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "explanation" / "login-matrix.md"
CLIENTS: Final[Mapping[str, str]] = {
    "python-1": "Python SDK 1", "python-2": "Python SDK 2", "typescript-1": "TypeScript SDK 1",
    "typescript-2": "TypeScript SDK 2", "fastmcp": "fastmcp",
}  # fmt: skip
PROVIDERS: Final = ("strict", "lenient")
SCOPES: Final = {"mcp:read": "read", "mcp:write": ["read", "write"], "mcp:all": "destructive"}
PATHS: Final = {"gate": "/mcp", "direct": "/mcp/direct", "passthrough": "/mcp/s/sdk"}
KEPT: Final = CACHE.parent / "login-matrix.json"
"""What runs with `--write` found, cell by cell, so that a run of a part replaces that part of the table."""
LIVES: Final = 3
"""Seconds of a token that is to end."""
PATIENCE: Final = 90.0
MOST_HOPS: Final = 20
MOST_LOGINS: Final = 4
"""Of a client that asks for scopes again and again and is never given them."""


class Lines:
    """A program that says and is told JSON, line by line."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=dict(env)
        )
        self._said: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put("")

    def tell(self, what: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def next(self) -> dict[str, Any]:
        line = self._said.get(timeout=PATIENCE)
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"it ended: {self._log.read()[-800:]}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(10)
        self._log.close()


@dataclass
class Login:
    """One client with an address, and what it did to log in."""

    lines: Lines
    surface: str
    asked: list[str] = field(default_factory=list[str])
    """The scopes that it asked for, login by login."""

    def call(self, tool: str) -> str | None:
        """None, or why that failed."""
        self.lines.tell({"call": _call(self.surface, tool)})
        while "visit" in (said := self.lines.next()):
            self.asked.append(" ".join(parse_qs(urlsplit(said["visit"]).query).get("scope", [""])))
            self.lines.tell({"arrived": visit(said["visit"])})
        return str(said["text"]).strip() or "no reason" if said["failed"] else None


def _call(surface: str, tool: str) -> dict[str, Any]:
    arguments = {"text": "hallo"} if tool == "echo" else {"name": "x"}
    if surface == "direct":
        return {"name": f"sdk__{tool}", "arguments": arguments}
    if surface == "passthrough":
        return {"name": tool, "arguments": arguments}
    operation = "read" if tool == "echo" else "destructive"
    given = {"name": f"sdk:{tool}", "args": arguments, "intent": {"operation_type": operation}}
    return {"name": f"call_tool_{operation}", "arguments": given}


def visit(address: str) -> str:
    """The person's browser, with its cookies: where the provider sends it back to, which it does not open."""
    home = parse_qs(urlsplit(address).query)["redirect_uri"][0]
    with httpx.Client(trust_env=False, timeout=30) as browser:
        for _ in range(MOST_HOPS):
            answer = browser.get(address)
            if answer.status_code not in (302, 303):
                return f"{home}?error=page&error_description={answer.status_code}"
            address = urljoin(address, answer.headers["location"])
            if address.startswith(home):
                return address
    raise AssertionError("the provider sends the browser around in circles")


# What runs.


def python_of(name: str) -> str:
    """The interpreter of an environment that has what the lock says, made once."""
    lock = HERE / f"{name}.txt"
    target = CACHE.parent / "login-clients" / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    with alone(target):
        if not (target / "installed").exists():
            uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
            subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, target / "venv"], check=True)
            python = str(target / "venv" / "bin" / "python")
            command = [uv, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", str(lock)]
            subprocess.run(command, check=True, timeout=600)
            (target / "installed").touch()
    return str(target / "venv" / "bin" / "python")


@contextlib.contextmanager
def client(kind: str, surface: str, url: str) -> Iterator[Login]:
    if kind.startswith("typescript"):
        era = "legacy" if kind.endswith("1") else "auto"
        command, env = [node(), str(script(HERE, "client.mjs")), f"v{kind[-1]}", era, url], environment()
    else:
        command, env = [python_of(kind), str(HERE / "client.py"), kind, url], dict(os.environ)
    lines = Lines(command, clean_environment(**env))
    try:
        yield Login(lines, surface)
    finally:
        lines.close()


@dataclass
class Site:
    """A provider, and two gateways that take its tokens: one asks for all scopes at first, one for the least."""

    provider: Lines
    all_scopes: Running
    least: Running

    def tell(self, **changes: Any) -> None:
        self.provider.tell(changes)
        self.provider.next()


@contextlib.contextmanager
def site(kind: str, folder: Path) -> Iterator[Site]:
    provider = Lines([node(), str(script(HERE, "provider.mjs")), kind], environment())
    try:
        issuer = provider.next()["issuer"]
        with (
            _gateway(issuer, folder / "all") as every,
            _gateway(issuer, folder / "least", login_scopes=["mcp:read"]) as least,
        ):
            yield Site(provider, every, least)
    finally:
        provider.close()


@contextlib.contextmanager
def _gateway(issuer: str, folder: Path, **more: Any) -> Iterator[Running]:
    with kept_port() as port:
        audience = [f"http://127.0.0.1:{port}{path}" for path in PATHS.values()]
        jwt = {"issuer": issuer, "audience": audience, "operations": SCOPES, "leeway": 0, **more}
        servers = {"sdk": python_server("sdk.py")}
        config = {"surfaces": list(PATHS), "mcpServers": servers, "auth": {"jwt": jwt}}
        with gateway(folder, config, port=port) as running:
            yield running


# What is tried. Each gives None, or why it does not hold.

Attempt = Callable[[str, Site], str | None]


def first_login(kind: str, there: Site) -> str | None:
    with client(kind, "gate", there.all_scopes.mcp) as login:
        problem = login.call("echo") or login.call("delete")
        return problem or _asked(login, [" ".join(SCOPES)])


def step_up(surface: str) -> Attempt:
    """The first login asks for all, and the person may only read; when that changes, the client asks again."""

    def attempt(kind: str, there: Site) -> str | None:
        with client(kind, surface, there.all_scopes.url + PATHS[surface]) as login:
            there.tell(may=["mcp:read"])
            if problem := login.call("echo"):
                return problem
            there.tell(may=list(SCOPES))
            return login.call("delete") or _asked(login, [" ".join(SCOPES), "mcp:all"])

    return attempt


def step_up_without_refresh_token(kind: str, there: Site) -> str | None:
    there.tell(renews=False)
    return step_up("gate")(kind, there)


def step_up_from_the_least(kind: str, there: Site) -> str | None:
    """The first login asks for `login_scopes` only."""
    with client(kind, "gate", there.least.mcp) as login:
        problem = login.call("echo") or login.call("delete")
        return problem or _asked(login, ["mcp:read", "mcp:all"])


def not_given(kind: str, there: Site) -> str | None:
    """The person may only read, and that stays so: what they may do goes on, and nothing else is done."""
    with client(kind, "gate", there.all_scopes.mcp) as login:
        there.tell(may=["mcp:read"])
        before = len(there.all_scopes.activities(status="success", tool="delete"))
        if problem := login.call("echo"):
            return problem
        login.call("delete")
        if len(there.all_scopes.activities(status="success", tool="delete")) > before:
            return "a call above the person's scopes reached the server"
        return f"{len(login.asked)} logins" if len(login.asked) > MOST_LOGINS else login.call("echo")


def renewal(kind: str, there: Site) -> str | None:
    there.tell(lives=LIVES)
    return _after_its_end(kind, there, lambda: None, logins=1)


def expiry(kind: str, there: Site) -> str | None:
    there.tell(lives=LIVES, renews=False)
    return _after_its_end(kind, there, lambda: None, logins=2)


def revocation(kind: str, there: Site) -> str | None:
    there.tell(lives=LIVES)
    return _after_its_end(kind, there, lambda: there.tell(revoke=True), logins=2)


def _after_its_end(kind: str, there: Site, before: Callable[[], None], logins: int) -> str | None:
    with client(kind, "gate", there.all_scopes.mcp) as login:
        if problem := login.call("echo"):
            return problem
        over = time.time() + LIVES + 1
        before()
        until(lambda: time.time() > over, what="the token's end")
        there.tell(lives=600)  # so that the next one does not end in mid-call
        problem = login.call("echo")
        return problem or _asked(login, [" ".join(SCOPES)] * logins, at_most=2 * logins - 1)


def _asked(login: Login, expected: list[str], *, at_most: int = 0) -> str | None:
    """Login by login at least these: clients add `openid`, `offline_access` and what they asked for before. There are
    `at_most` so many logins where the client's own stream may ask beside the call."""
    are = len(expected) <= len(login.asked) <= max(at_most, len(expected))
    if are and all(set(want.split()) <= set(asked.split()) for want, asked in zip(expected, login.asked, strict=False)):
        return None
    return f"asked for {login.asked}"


ATTEMPTS: Final[Mapping[str, Attempt]] = {
    "first login": first_login, "step-up, gate": step_up("gate"), "step-up, direct": step_up("direct"),
    "step-up, passthrough": step_up("passthrough"),
    "step-up without refresh token": step_up_without_refresh_token,
    "step-up from `login_scopes`": step_up_from_the_least,
    "scopes not given": not_given, "renewal": renewal, "expiry": expiry, "revocation": revocation,
}  # fmt: skip


def run(kind: str, what: str, there: Site) -> str | None:
    there.tell(may=list(SCOPES), lives=600, renews=True)
    try:
        return ATTEMPTS[what](kind, there)
    except (RuntimeError, AssertionError, queue.Empty) as error:
        return f"{type(error).__name__}: {error}"


Results = dict[tuple[str, str, str], str | None]


def table(results: Results) -> Iterator[str]:
    """One for each provider, and why what does not hold does not."""
    for provider in PROVIDERS:
        yield f"\n## With the {provider} provider\n"
        yield f"| | {' | '.join(CLIENTS.values())} |"
        yield f"|---|{'---|' * len(CLIENTS)}"
        for what in ATTEMPTS:
            cells = [_cell(results, provider, what, kind) for kind in CLIENTS]
            yield f"| {what} | {' | '.join(cells)} |"
    problems = sorted({problem for problem in results.values() if problem})
    if problems:
        yield "\n## What does not hold\n"
        yield from (f"{number}. `{problem[:300]}`" for number, problem in enumerate(problems, 1))


def _cell(results: Results, provider: str, what: str, kind: str) -> str:
    if (provider, what, kind) not in results:
        return "not run"
    problem = results[provider, what, kind]
    if problem is None:
        return "yes"
    return f"no ({sorted({each for each in results.values() if each}).index(problem) + 1})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--provider", choices=PROVIDERS, action="append")
    parser.add_argument("--attempt", choices=ATTEMPTS, action="append")
    parser.add_argument("--write", action="store_true", help=f"the table into {DOCUMENT.name}")
    chosen = parser.parse_args()
    results: Results = {}
    for provider in chosen.provider or PROVIDERS:
        with tempfile.TemporaryDirectory() as folder, site(provider, Path(folder)) as there:
            for kind in chosen.client or CLIENTS:
                for what in chosen.attempt or ATTEMPTS:
                    problem = results[provider, what, kind] = run(kind, what, there)
                    print(f"{provider:8} {kind:13} {what:22} {problem or 'yes'}"[:400], flush=True)
    print("\n".join(table(results)))
    if chosen.write:
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        kept |= {"/".join(cell): problem for cell, problem in results.items()}
        KEPT.write_text(json.dumps(kept, indent=1))
        whole: Results = {(provider, what, kind): problem for provider, what, kind, problem in _cells(kept)}
        head = DOCUMENT.read_text("utf-8").partition("\n## With the ")[0]
        DOCUMENT.write_text("\n".join([head.rstrip(), *table(whole), ""]), "utf-8")


def _cells(kept: Mapping[str, str | None]) -> Iterator[tuple[str, str, str, str | None]]:
    for cell, problem in kept.items():
        provider, what, kind = cell.split("/")
        if provider in PROVIDERS and what in ATTEMPTS and kind in CLIENTS:
            yield provider, what, kind, problem


if __name__ == "__main__":
    main()
