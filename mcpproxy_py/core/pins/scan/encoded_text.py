"""Text that is written so that a person does not read it, and a model can.

An id, a digest, an example of base64 are no such thing, so what looks encoded is decoded, and only counts where it
turns out to be a sentence, or where it is much longer than anything that explains something.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple


class EncodedText(NamedTuple):
    start: int
    end: int
    what: str


LONG_BLOB: Final = 400
"""Characters of base64 that is no text; nothing in a description has to show so much."""
FEWEST_WORDS: Final = 2
_MOST_READ: Final = 4096
"""So much of one run is decoded; a sentence shows before that."""

_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_PIECES: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{4,64}=?=?[ ,\n]{1,2}){3,400}[A-Za-z0-9+/_-]{1,64}={0,2}"
)
_BASE32_RUN: Final = re.compile(r"\b[A-Z2-7]{24,}={0,6}")
_HEX_RUN: Final = re.compile(r"(?<![0-9A-Za-z])(?:0x)?([0-9A-Fa-f]{2}(?:[ :]?[0-9A-Fa-f]{2}){11,})(?![0-9A-Za-z])")
_BITS_RUN: Final = re.compile(r"(?<![01])[01]{8}(?:[ ,]?[01]{8}){5,}(?![01])")
_DATA_URI: Final = re.compile(r"data:([a-z]{1,20}/[\w.+-]{1,60})?(?:;[\w=.-]{1,60}){0,4},", re.I)
_ESCAPE_RUNS: Final[tuple[tuple[str, str, re.Pattern[str], Callable[[str], str]], ...]] = (
    ("%", "percent-encoded letters", re.compile(r"(?:%[2-7][0-9A-Fa-f]){8,}"),
     lambda run: bytes.fromhex(run.replace("%", "")).decode("latin-1")),
    ("\\u", "escaped letters", re.compile(r"(?:\\u\{?[0-9A-Fa-f]{4}\}?){6,}"),
     lambda run: "".join(chr(int(code, 16)) for code in re.findall(r"[0-9A-Fa-f]{4}", run))),
    ("\\x", "escaped letters", re.compile(r"(?:\\x[0-9A-Fa-f]{2}){6,}"),
     lambda run: "".join(chr(int(code, 16)) for code in re.findall(r"[0-9A-Fa-f]{2}", run))),
    ("\\", "escaped letters", re.compile(r"(?:\\[01][0-7]{2}){6,}"),
     lambda run: "".join(chr(int(code, 8)) for code in re.findall(r"[0-7]{3}", run))),
    ("&#", "letters as entities", re.compile(r"(?:&#(?:\d{2,7}|x[0-9A-Fa-f]{2,6});){6,}"),
     lambda run: "".join(_entity(code) for code in re.findall(r"&#(x?[0-9A-Fa-f]+);", run))),
)  # fmt: skip
"""What has to be in the text, what it is called, a run of it, and what it says."""
_CODE_LIKE: Final = re.compile(r"\d|[a-z][A-Z]|[A-Z]{2}")
"""In every run of digits and of base64 or base32 that is long enough to be a sentence, and in few plain sentences."""
_TURNED: Final = re.compile(
    r"\b(?:vtaber|qvfertneq|bireevqr|vafgehpgvbaf?|pbairefngvba|jvgubhg gryyvat|gur hfre|cnffjbeq|ncv xrl)\b", re.I
)
"""In ROT13: ignore, disregard, override, instruction, conversation, without telling, the user, password, API key."""
_COMMAND: Final = re.compile(
    r"\b(?:curl|wget|iwr|invoke-webrequest|powershell|nc|ncat|bash|sh|python3?|node|eval|rm|cat|scp|chmod|sudo)\b[ (-]"
    r"[^\n]{0,200}(?:https?:|\||\.ssh|/etc/|-rf|-enc|\+x|/dev/tcp|~/)"
)
_WORDS: Final = re.compile(r"[^\W\d_]{2,}")


def encoded_texts(text: str) -> Iterator[EncodedText]:
    """Soon over for text in which nothing is long enough."""
    if "data:" in text:
        yield from _data_uris(text)
    for mark, what, pattern, decoded in _ESCAPE_RUNS:
        if mark in text:
            for run in pattern.finditer(text):
                if _has_letters(decoded(run[0][:_MOST_READ])):
                    yield EncodedText(run.start(), run.end(), what)
    if len(found := list(_first(_TURNED.finditer(text), 3))) == 3:
        yield EncodedText(found[0].start(), found[-1].end(), "text with its letters turned (ROT13)")
    if _CODE_LIKE.search(text) is None:
        return
    yield from _runs(text, _BITS_RUN, "text in binary digits", _from_bits)
    yield from _runs(text, _HEX_RUN, "text in hexadecimal", _from_hex)
    yield from _runs(text, _BASE32_RUN, "text in base32", _from_base32)
    for run in _BASE64_RUN.finditer(text):
        if _is_sentence(_from_base64(run[0][:_MOST_READ])):
            yield EncodedText(run.start(), run.end(), "text in base64")
        elif len(run[0]) >= LONG_BLOB and _is_mixed(run[0][:_MOST_READ]) and not _in_data_uri(text, run.start()):
            yield EncodedText(run.start(), run.end(), "a long encoded blob")
    for run in _PIECES.finditer(text):
        if _is_sentence(_from_base64(re.sub(r"[ ,\n]", "", run[0][:_MOST_READ]))):
            yield EncodedText(run.start(), run.end(), "text in base64, in pieces")


def _first(matches: Iterator[re.Match[str]], count: int) -> Iterator[re.Match[str]]:
    for _, match in zip(range(count), matches, strict=False):
        yield match


def _runs(text: str, pattern: re.Pattern[str], what: str, decoded: Callable[[str], str]) -> Iterator[EncodedText]:
    for run in pattern.finditer(text):
        if _is_sentence(decoded(run[0][:_MOST_READ])):
            yield EncodedText(run.start(), run.end(), what)


def _data_uris(text: str) -> Iterator[EncodedText]:
    for uri in _DATA_URI.finditer(text):
        data = text[uri.end() : uri.end() + _MOST_READ]
        run = re.match(r"[A-Za-z0-9+/=_%.-]*", data)
        kind = (uri[1] or "text/plain").lower()
        if run is not None and len(run[0]) >= 16 and not kind.startswith(("image/", "audio/", "video/", "font/")):
            yield EncodedText(uri.start(), uri.end() + run.end(), "data in a data: address")


def _in_data_uri(text: str, start: int) -> bool:
    """Of a picture: what is in others has been found."""
    return "base64," in text[max(0, start - 20) : start]


def _from_base64(run: str) -> str:
    plain = run.rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
    plain = plain[: len(plain) - (len(plain) % 4 == 1)]
    with_end = plain + "=" * (-len(plain) % 4)
    try:
        return _text(base64.b64decode(with_end))
    except (binascii.Error, ValueError):
        return ""


def _from_base32(run: str) -> str:
    plain = run.rstrip("=")
    plain = plain[: len(plain) // 8 * 8]
    try:
        return _text(base64.b32decode(plain))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(run: str) -> str:
    digits = re.sub(r"^0x|[ :]", "", run)
    return _text(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _from_bits(run: str) -> str:
    digits = re.sub(r"[ ,]", "", run)
    return _text(bytes(int(digits[at : at + 8], 2) for at in range(0, len(digits) // 8 * 8, 8)))


def _entity(code: str) -> str:
    number = int(code[1:], 16) if code[0] == "x" else int(code)
    return chr(number) if number < 0x110000 else "\ufffd"


def _text(data: bytes) -> str:
    """What the bytes say; the last character may be cut."""
    text = data.decode("utf-8", "replace").rstrip("\ufffd")
    return "" if "\ufffd" in text else text


def _is_sentence(text: str) -> bool:
    """Words between spaces and hardly anything else, or a command of a shell."""
    if len(text) < 10 or not text.replace("\n", " ").isprintable():
        return False
    if _COMMAND.search(text):
        return True
    if " " not in text:
        return False
    words = _WORDS.findall(text)
    return len(words) > FEWEST_WORDS and sum(map(len, words)) > 0.6 * len(text)


def _has_letters(text: str) -> bool:
    return text.isprintable() and sum(char.isalpha() or char == " " for char in text) > 0.7 * len(text)


def _is_mixed(run: str) -> bool:
    """Unlike a long name or path, which has few digits."""
    return sum(char.isdigit() for char in run) > 0.05 * len(run) and not run.islower() and not run.isupper()
