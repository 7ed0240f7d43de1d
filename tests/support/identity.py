"""An identity provider for tests: real HTTP, real keys. It logs everybody in who asks.

It has metadata (RFC 8414), a JWK set, registration (RFC 7591), authorization with a code and PKCE, and tokens for the
resource that was asked for (RFC 8707). What it answers at a path can be replaced, by something that hangs too.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import itertools
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

METADATA = "/.well-known/oauth-authorization-server"
JWKS = "/keys"
WAIT = 60.0


class SigningPair:
    """A private key, and what is published of it."""

    def __init__(self, key_id: str, algorithm: str = "RS256", private: Any = None, **published: Any) -> None:
        self.key_id = key_id
        self.algorithm = algorithm
        self.private = private or _made(algorithm)
        public = jwt.get_algorithm_by_name(algorithm).to_jwk(self.private.public_key(), as_dict=True)
        self.jwk = {**public, "kid": key_id, "use": "sig", "alg": algorithm, **published}


_RSA: list[Any] = []
_TURNS = itertools.count()
MOST_RSA = 6
"""Making one takes half a second. Of six in turn, two that meet in a test differ."""


def _made(algorithm: str) -> Any:
    if algorithm.startswith("ES"):
        return ec.generate_private_key(
            {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}[algorithm]()
        )
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    turn = next(_TURNS) % MOST_RSA
    if turn == len(_RSA):
        _RSA.append(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    return _RSA[turn]


@functools.cache
def _foreign_key() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def foreign(key_id: str) -> SigningPair:
    """A key that is no provider's, whatever it is called."""
    return SigningPair(key_id, private=_foreign_key())


class IdentityServer:
    """`user` and `grants` are who logs in, and the scopes that this person may give."""

    def __init__(self, audience: str = "https://gate.example/mcp") -> None:
        self.audience = audience
        self.keys = [SigningPair("first")]
        self.user = "alice"
        self.grants: frozenset[str] | None = None
        self.lives = 600.0
        self.asked: Counter[str] = Counter()
        """How often each path was asked for."""
        self.granted: list[str] = []
        """The scopes of each token, in turn."""
        self.resources: list[str] = []
        self.instead: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.released = threading.Event()
        """What hangs goes on when this is set."""
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Answers(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                provider._answer(self, "GET", {})

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                text = self.rfile.read(length).decode()
                is_json = "json" in self.headers.get("content-type", "")
                provider._answer(self, "POST", json.loads(text) if is_json else _one_each(text))

            def do_OPTIONS(self) -> None:
                reply(self, {})

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self._server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT)

    # Tokens.

    def claims(self, **more: Any) -> dict[str, Any]:
        """`None` leaves a claim out."""
        now = int(time.time())
        found = {
            "iss": self.issuer,
            "aud": self.audience,
            "sub": self.user,
            "iat": now,
            "exp": now + self.lives,
            **more,
        }
        return {name: value for name, value in found.items() if value is not None}

    def token(self, key: SigningPair | None = None, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        key = key or self.keys[0]
        head = {"kid": key.key_id, "typ": "at+jwt", **(header or {})}
        return jwt.encode(self.claims(**claims), key.private, key.algorithm, headers=head)

    # What it answers.

    def _answer(self, request: BaseHTTPRequestHandler, method: str, said: dict[str, Any]) -> None:
        path = urlsplit(request.path).path
        self.asked[path] += 1
        if (other := self.instead.get(path)) is not None:
            other(request)
        elif path == METADATA:
            reply(request, self.metadata)
        elif path == JWKS:
            reply(request, {"keys": [key.jwk for key in self.keys]})
        elif path == "/register":
            reply(request, {**said, "client_id": secrets.token_hex(8), "client_id_issued_at": int(time.time())}, 201)
        elif path == "/authorize":
            self._authorize(request, _one_each(urlsplit(request.path).query))
        elif path == "/token":
            self._give(request, said)
        else:
            reply(request, {"error": "not_found"}, 404)

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer, "jwks_uri": self.issuer + JWKS, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token", "registration_endpoint": f"{self.issuer}/register",
            "response_types_supported": ["code"], "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }  # fmt: skip

    def _authorize(self, request: BaseHTTPRequestHandler, said: dict[str, str]) -> None:
        if said.get("response_type") != "code" or said.get("code_challenge_method") != "S256":
            reply(request, {"error": "invalid_request"}, 400)
            return
        code = secrets.token_urlsafe(16)
        self._codes[code] = said
        back = {"code": code, "iss": self.issuer, **({"state": said["state"]} if "state" in said else {})}
        request.send_response(302)
        request.send_header("location", f"{said['redirect_uri']}?{urlencode(back)}")
        request.send_header("content-length", "0")
        request.end_headers()

    def _give(self, request: BaseHTTPRequestHandler, said: dict[str, str]) -> None:
        asked = self._codes.pop(said.get("code", ""), None)
        proof = base64.urlsafe_b64encode(hashlib.sha256(said.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if asked is None or asked["code_challenge"] != proof.decode() or asked.get("resource") != said.get("resource"):
            reply(request, {"error": "invalid_grant"}, 400)
            return
        wanted = asked.get("scope", "").split()
        scope = " ".join(each for each in wanted if self.grants is None or each in self.grants)
        self.granted.append(scope)
        self.resources.append(said.get("resource", ""))
        token = self.token(scope=scope, aud=said.get("resource") or self.audience)
        reply(request, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lives), "scope": scope})


def _one_each(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


def reply(request: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    request.send_response(status)
    request.send_header("content-type", "application/json")
    request.send_header("content-length", str(len(body)))
    request.end_headers()
    with contextlib.suppress(OSError):
        request.wfile.write(body)


@contextlib.contextmanager
def identity_server(audience: str = "https://gate.example/mcp") -> Iterator[IdentityServer]:
    found = IdentityServer(audience)
    found.start()
    try:
        yield found
    finally:
        found.stop()
