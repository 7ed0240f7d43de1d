"""A real authorization server and the MCP server that believes it, for one test: short lives, and faults to order.

Both are one process and two ports. Everything that is asked of them is kept, so that a test can say where a token went.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.threaded import threaded

Answer = tuple[int, dict[str, str], bytes]
TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "change", "inputSchema": {"type": "object"},
     "annotations": {"readOnlyHint": False, "destructiveHint": False}},
]  # fmt: skip


def as_json(value: Any, status: int = 200, **headers: str) -> Answer:
    return status, {"content-type": "application/json", **headers}, json.dumps(value).encode()


def oauth_error(code: str, status: int = 400) -> Answer:
    return as_json({"error": code, "error_description": "said by the test"}, status)


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass
class Site:
    """One port: who answers there, and what was asked."""

    answers: Callable[[Asked], Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def site(answers: Callable[[Asked], Answer]) -> Iterator[Site]:
    found = Site(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
            found.asked.append(asked)
            try:
                status, sent, content = found.answers(asked)
            except ConnectionError:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **sent}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _any

        def log_message(self, format: str, *args: Any) -> None:
            return

    with threaded(Handler) as where:
        found.url = f"http://{where}"
        yield found


class AuthServer:
    """`lives` is how long a token is good for, in seconds. What stands in `faults` under the name of an endpoint is
    answered there instead; what stands in `metadata`, `resource_metadata` and `token` is put over what is said."""

    def __init__(self) -> None:
        self.lives = 3600.0
        self.metadata: dict[str, Any] = {}
        self.resource_metadata: dict[str, Any] = {}
        self.token: dict[str, Any] = {}
        self.faults: dict[str, Callable[[Asked], Answer]] = {}
        self.counts: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.scopes = "read"
        self.needs: dict[str, str] = {}
        """Of a tool, the scope without which it is refused."""
        self.challenge: str | None = None
        self.device_approved = False
        self.redirects_with: dict[str, str] = {}
        self.refresh_takes = 0.0
        self.serve_everybody = False
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._clients: set[str] = set()
        self._codes: dict[str, dict[str, str]] = {}
        self._access: dict[str, tuple[float, str]] = {}
        self._refresh: dict[str, tuple[str, str]] = {}
        self.secrets: list[str] = []
        """All tokens and codes that were ever given."""
        self.issuer: Site
        self.server: Site

    @property
    def url(self) -> str:
        return f"{self.server.url}/mcp"

    @property
    def config(self) -> dict[str, Any]:
        return {"mcpServers": {"guarded": {"url": self.url}}}

    # Faults.

    def forget_clients(self) -> None:
        self._clients.clear()

    def forget_grants(self) -> None:
        self._refresh.clear()
        self._access.clear()

    def end_access(self) -> None:
        """As if the tokens had run out; they can be refreshed."""
        self._access.clear()

    # The authorization server.

    def authorize(self, asked: Asked) -> Answer:
        if (fault := self._fault(asked)) is not None:
            return fault
        match asked.path:
            case "/.well-known/oauth-authorization-server":
                return as_json(self._metadata())
            case "/authorize":
                return self._authorize(asked)
            case "/register":
                self.counts["register"] += 1
                client = f"client-{next(self._numbers)}"
                self._clients.add(client)
                return as_json({**json.loads(asked.body), "client_id": client}, 201)
            case "/token":
                with self._lock:
                    return self._token(asked)
            case "/device":
                self.counts["device"] += 1
                return as_json({"device_code": self._secret("device"), "user_code": "ABCD-EFGH", "interval": 0.2,
                                "verification_uri": f"{self.issuer.url}/enter", "expires_in": 60})  # fmt: skip
            case "/revoke":
                self.counts["revoke"] += 1
                self._refresh.pop(asked.form["token"], None)
                self._access.pop(asked.form["token"], None)
                return as_json({})
        return as_json({}, 404)

    def _fault(self, asked: Asked) -> Answer | None:
        fault = self.faults.get(asked.path)
        return fault(asked) if fault is not None else None

    def _metadata(self) -> dict[str, Any]:
        at = self.issuer.url
        return {
            "issuer": at, "authorization_endpoint": f"{at}/authorize", "token_endpoint": f"{at}/token",
            "registration_endpoint": f"{at}/register", "revocation_endpoint": f"{at}/revoke",
            "device_authorization_endpoint": f"{at}/device", "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
            "scopes_supported": ["read", "write", "offline_access"],
            "authorization_response_iss_parameter_supported": True, **self.metadata,
        }  # fmt: skip

    def _authorize(self, asked: Asked) -> Answer:
        self.counts["authorize"] += 1
        query = asked.query
        if query["client_id"] not in self._clients and not query["client_id"].startswith("known"):
            return as_json({"error": "unknown client"}, 400)
        code = self._secret("code")
        self._codes[code] = query
        sent = {"code": code, "state": query["state"], "iss": self.issuer.url, **self.redirects_with}
        where = f"{query['redirect_uri']}?{urlencode({key: value for key, value in sent.items() if value})}"
        return 302, {"location": where}, b""

    def _token(self, asked: Asked) -> Answer:
        form = asked.form
        grant = form["grant_type"].rpartition(":")[2]
        self.counts[grant] += 1
        if grant in ("client_credentials", "jwt-bearer"):
            return self._granted("known", self.scopes)
        if form.get("client_id") not in self._clients:
            return oauth_error("invalid_client", 401)
        if grant == "refresh_token":
            time.sleep(self.refresh_takes)
            found = self._refresh.pop(form["refresh_token"], None)
            return oauth_error("invalid_grant") if found is None else self._granted(*found)
        if grant == "device_code":
            return (
                self._granted(form["client_id"], "read")
                if self.device_approved
                else oauth_error("authorization_pending")
            )
        query = self._codes.pop(form["code"], None)
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if query is None or digest.decode() != query["code_challenge"] or form["redirect_uri"] != query["redirect_uri"]:
            return oauth_error("invalid_grant")
        return self._granted(form["client_id"], query.get("scope", ""))

    def _granted(self, client: str, scope: str) -> Answer:
        access, refresh = self._secret("access"), self._secret("refresh")
        self._access[access] = (time.time() + self.lives, scope)
        self._refresh[refresh] = (client, scope)
        said = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "scope": scope,
                "expires_in": self.lives, **self.token}  # fmt: skip
        return as_json({key: value for key, value in said.items() if value is not None})

    def _secret(self, kind: str) -> str:
        made = f"{kind}-{next(self._numbers)}-{hashlib.sha256(str(time.time()).encode()).hexdigest()}"
        self.secrets.append(made)
        return made

    # The MCP server.

    def serve(self, asked: Asked) -> Answer:
        if (fault := self._fault(asked)) is not None:
            return fault
        if asked.path == "/.well-known/oauth-protected-resource/mcp":
            said = {"resource": self.url, "authorization_servers": [self.issuer.url], "scopes_supported": ["read"]}
            return as_json({**said, **self.resource_metadata})
        if asked.path != "/mcp" or asked.method != "POST":
            return as_json({}, 405 if asked.path == "/mcp" else 404)
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        ends, scope = self._access.get(token, (0.0, ""))
        if time.time() >= ends and not self.serve_everybody:
            self.counts["401"] += 1
            known = f'Bearer resource_metadata="{self.server.url}/.well-known/oauth-protected-resource/mcp"'
            return as_json({}, 401, **{"www-authenticate": self.challenge or known})
        return self._answered(json.loads(asked.body), scope)

    def _answered(self, message: dict[str, Any], scope: str) -> Answer:
        method, result = message.get("method"), None
        if "id" not in message:
            return 202, {}, b""
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "guarded", "version": "1"}}  # fmt: skip
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            name = message["params"]["name"]
            wanted = self.needs.get(name)
            if wanted is not None and wanted not in scope.split():
                said = f'Bearer error="insufficient_scope", scope="{wanted}"'
                return as_json({}, 403, **{"www-authenticate": said})
            self.calls[name] += 1
            result = {"content": [{"type": "text", "text": f"did {name}"}]}
        if result is None:
            refused = {"code": -32601, "message": "no such method"}
            return as_json({"jsonrpc": "2.0", "id": message["id"], "error": refused})
        return as_json({"jsonrpc": "2.0", "id": message["id"], "result": result})


@contextlib.contextmanager
def auth_server() -> Iterator[AuthServer]:
    found = AuthServer()
    with site(found.authorize) as found.issuer, site(found.serve) as found.server:
        yield found
