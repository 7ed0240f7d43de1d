"""A second corpus of secrets and of what only looks like one, made anew from templates by a seed (ACT-9).

`data/secret_texts.tsv` and `data/harmless_texts.tsv` have a kind and a text in each line; one that is JSON is taken as
the value it is. What stands between ⟦ and ⟧ is secret. `<hex40>` and its like are filled in here, so that no file holds
anything that a scanner takes for a leak, and ␤ is a line break.

Each template belongs to one of two halves, by a hash of its kind and text, which was done before anything was measured.
Masking is mended by `dev` alone; `report` is what is reported, and nobody looks at its single texts.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.core.corpus import Sample

DATA: Final = Path(__file__).parent / "data"
HALVES: Final = ("dev", "report")
TIMES: Final = 3
"""So many texts of each harmless template that has something to fill in."""
_MARK: Final = re.compile(r"⟦(.*?)⟧(={0,2})", re.DOTALL)
"""With the padding of base64, which belongs to it."""
_FILL: Final = re.compile(r"<([a-z][a-z0-9]*(?:_\d+)?)>")
_ALPHABETS: Final = {
    "hex": "0123456789abcdef",
    "alnum": string.ascii_letters + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "lower": string.ascii_lowercase + string.digits,
    "digits": string.digits,
    "b64_": string.ascii_letters + string.digits + "+/",
    "b64url_": string.ascii_letters + string.digits + "-_",
    "base32_": string.ascii_uppercase + "234567",
}
_SIZED: Final = re.compile(r"(hex|alnum|upper|lower|digits|b64_|b64url_|base32_)(\d+)")
_WEAK: Final = ("winter2024", "sunshine7", "letmein1", "qwerty123", "dragonfly", "iloveyou2", "monkey99", "football1")


def samples() -> list[Sample]:
    """All of it, the same each time."""
    rows = [*_rows("secret_texts.tsv", True), *_rows("harmless_texts.tsv", False)]
    return [Sample(half_of(kind, text), secret, kind, value) for kind, text, secret, value in rows]


def half_of(kind: str, text: str) -> str:
    return HALVES[hashlib.sha256(f"{kind}\t{text}".encode()).digest()[0] & 1]


def _rows(file: str, secret: bool) -> Iterator[tuple[str, str, bool, Any]]:
    for line in (DATA / file).read_text("utf-8").splitlines():
        kind, _, text = line.partition("\t")
        chance = random.Random(f"{kind}\t{text}")
        for _ in range(1 if secret or _FILL.search(text) is None else TIMES):
            yield kind, text, secret, _value(text, chance)


def _value(text: str, chance: random.Random) -> Any:
    """As JSON where it is, and then what is filled in is escaped as JSON wants it."""
    state = chance.getstate()
    try:
        return json.loads(_filled(text, chance, lambda made: json.dumps(made, ensure_ascii=False)[1:-1]))
    except ValueError:
        chance.setstate(state)
        return _filled(text, chance, str).replace("␤", "\n")


def _filled(text: str, chance: random.Random, escaped: Callable[[str], str]) -> str:
    marked = _MARK.sub(lambda found: f"⟦{escaped(_secret(found[1], chance))}{found[2]}⟧", text)
    return _FILL.sub(lambda found: _made(found[1], chance) or found[0], marked)


def _secret(what: str, chance: random.Random) -> str:
    if what.startswith("b64of:"):
        return base64.b64encode(_secret(what.removeprefix("b64of:"), chance).encode()).decode()
    whole = _made(what, chance)
    return whole or _FILL.sub(lambda found: _made(found[1], chance) or found[0], what.replace("␤", "\n"))


def _made(what: str, chance: random.Random) -> str | None:
    if sized := _SIZED.fullmatch(what):
        return _random(sized[1], int(sized[2]), chance)
    maker = _MAKERS.get(what)
    return None if maker is None else maker(chance)


def _random(kind: str, size: int, chance: random.Random) -> str:
    made = "".join(chance.choices(_ALPHABETS[kind], k=size))
    if kind in ("alnum", "b64_", "b64url_") and size >= 16:  # no generator gives sixteen letters of one case
        made = made[:3] + "a7Q" + made[6:]
    return made


def _strong(symbols: str) -> Callable[[random.Random], str]:
    def made(chance: random.Random) -> str:
        body = chance.choices(string.ascii_letters + string.digits, k=chance.randint(7, 13))
        return "".join(["t", *body[:4], chance.choice(symbols), "R", *body[4:], "4"])

    return made


def _jwt(chance: random.Random) -> str:
    return f"eyJ{_random('b64url_', 33, chance)}.eyJ{_random('b64url_', 60, chance)}.{_random('b64url_', 43, chance)}"


def _armoured(what: str, between: str = "\n", end: bool = True) -> Callable[[random.Random], str]:
    def made(chance: random.Random) -> str:
        lines = [f"-----BEGIN {what}-----", *(_random("b64_", 64, chance) for _ in range(4)), f"-----END {what}-----"]
        return between.join(lines if end else lines[:-1])

    return made


def _card(beginning: str, size: int, groups: str, between: str = "") -> Callable[[random.Random], str]:
    """With the check digit of Luhn."""

    def made(chance: random.Random) -> str:
        digits = beginning + "".join(chance.choices(string.digits, k=size - len(beginning) - 1))
        doubled = (sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(reversed(digits)))
        whole = iter(digits + str(-sum(doubled) % 10))
        return between.join("".join(next(whole) for _ in range(int(group))) for group in groups)

    return made


def _uuid(chance: random.Random) -> str:
    return "-".join(_random("hex", size, chance) for size in (8, 4, 4, 4, 12))


_KEY: Final = "PRIVATE " + "KEY"
_MAKERS: Final[dict[str, Callable[[random.Random], str]]] = {
    "strong": _strong("!#%*+-_."),
    "strongurl": _strong("-_.!"),
    "strongcs": _strong("!#*-_"),
    "strong with spaces": lambda chance: f"{_strong('!')(chance)} {_strong('!')(chance)}",
    "weak": lambda chance: chance.choice(_WEAK),
    "jwt": _jwt,
    "uuid": _uuid,
    "pem": _armoured("RSA " + _KEY),
    "pem1line": _armoured(_KEY, "\\n"),
    "pemspaces": _armoured("EC " + _KEY, " "),
    "pemopen": _armoured(_KEY, end=False),
    "sshpem": _armoured("OPENSSH " + _KEY),
    "pgppem": _armoured("PGP " + _KEY + " BLOCK"),
    "visa": _card("4", 16, "4444"),
    "visaspaced": _card("4", 16, "4444", " "),
    "mastercard": _card("53", 16, "4444"),
    "mastercarddashed": _card("53", 16, "4444", "-"),
    "amex": _card("37", 15, "465"),
    "ssn": lambda chance: "-".join(_random("digits", size, chance) for size in (3, 2, 4)),
    "b64userpass": lambda chance: base64.b64encode(f"ann:{_strong('!')(chance)}".encode()).decode(),
}
