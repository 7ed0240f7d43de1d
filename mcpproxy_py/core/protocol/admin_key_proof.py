"""How a gateway shows that it knows the admin key before anybody tells it that key (SEC-8).

Who asks sends a number used once; the gateway answers with one of its own and an HMAC over both and over the port that
it listens on. The port keeps a process that took another one from passing the question on to the gateway.
"""

from __future__ import annotations

import hmac
from typing import Final

NONCE: Final = r"^[0-9a-f]{32,64}$"
_PURPOSE: Final = "mcpproxy: this gateway knows its admin key, 1"


def proof(key: str, asked: str, answered: str, port: int) -> str:
    text = f"{_PURPOSE}\n{asked}\n{answered}\n{port}"
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def proves(given: str, key: str, asked: str, answered: str, port: int) -> bool:
    return hmac.compare_digest(given.encode(), proof(key, asked, answered, port).encode())
