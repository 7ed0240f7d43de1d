"""Secrets that their place in a text gives away: after a program's option, under a YAML key, in a column of a table,
beside a word that tells of them, encoded for an address. `masking` asks for all of it at once (`without_placed`).

Every step reads a text once from left to right and looks at a bounded window, so a hostile text costs no more than a
harmless one of its length.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Final

from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.record.secret_commands import without_commands, without_settings
from mcpproxy_py.core.record.secret_patterns import (
    NAMED,
    NAMES_BEGIN,
    is_random,
    is_strong,
    kind_of,
    stands_in,
)
from mcpproxy_py.core.record.secret_signs import BASE64_NAMES

_SHOWN: Final = "***secret***"
# A name, and beside it in a list, a call, an element or the next lines what it names.

_NAME: Final = late(rf"{NAMED}|authorization|cookie")
_LISTED: Final = late(r"[\])]{0,2}(\\{0,7}[\"'])\s{0,4}(?:,|=>)\s{0,4}(?:\[\]\w+\()?\1([^\"'\\\n]{3,4096})(?=\1)")
_BEFORE: Final = late(r"[^\"'\\\n]{0,40}\Z")
_NEXT_LINE: Final = late(r"[\"']?\s{0,4}\n\s{0,80}value:\s{0,4}[\"']?([^\s\"']{1,4096})")
_NAMING: Final = late(r"(?:name|key)\"?:\s{0,4}[\"']?[\w.-]{0,60}\Z")
_VARIABLE: Final = late(r"\"\s{0,4}\{[^{}\"]{0,200}default\s{0,4}=\s{0,4}\"([^\"\n]{1,1024})")
_PLIST: Final = late(r"</key>\s{0,40}<string>([^<]{1,4096})")
_PERCENT: Final = late(
    r"(?i:(?:%(?:25)?(?:22|27|5d))*%(?:25)?3[ad](?:%(?:25)?(?:20|22|27)|\+)*(?:(?:bearer|basic|token)(?:%(?:25)?20|\+))?)"
    r"([^%&\s\"'+<>]{6,4096})"
)
_CALLED: Final = late(r"\(\s{0,4}[\"']([^\"'\s]{4,256})(?=[\"']\s{0,4}[,)])")
_ENTITY: Final = late(r"&gt;([^&<\s]{1,4096})(?=&lt;)")
_FORM_DATA: Final = late(r"\"(?:;[^\n\"]{0,200})?\r?\n\r?\n([^\r\n]{1,4096})")
_BLOCK: Final = late(r"[\w.-]{0,20}[\"']?[ \t]{0,4}:[ \t]{0,4}[|>][+-]?\d?[+-]?[ \t]{0,8}\n")
_INDENT: Final = late(r"([ \t]{0,200})(?:- )?[\"']?[\w.-]{0,60}\Z")
Place = tuple[int, int]


def _listed(text: str, begin: int, end: int) -> Place | None:
    found = _LISTED.match(text, end)
    if found is None:
        return None
    before = _BEFORE.search(text, max(0, begin - 41), begin)
    name = (before[0] if before else "") + text[begin:end]
    header = ("-" in name and " " not in name) or name.lower() in ("authorization", "cookie")
    value = found[2]
    sure = header or is_strong(value) or is_random(value)
    return found.span(2) if sure and not stands_in(value) and kind_of(value) is None else None


def _beside(pattern: re.Pattern[str], before: re.Pattern[str] | None = None) -> Callable[[str, int, int], Place | None]:
    def place(text: str, begin: int, end: int) -> Place | None:
        found = pattern.match(text, end)
        if found is None or stands_in(found[1]) or "***" in found[1]:
            return None
        return found.span(1) if before is None or before.search(text, max(0, begin - 80), begin) else None

    return place


def _called(text: str, begin: int, end: int) -> Place | None:
    found = _CALLED.match(text, end)
    return found.span(1) if found is not None and (is_strong(found[1]) or is_random(found[1])) else None


def _block(text: str, begin: int, end: int) -> Place | None:
    """`password: >-` and the lines below it that stand further in."""
    found = _BLOCK.match(text, end)
    line = text[max(text.rfind("\n", max(0, begin - 300), begin) + 1, begin - 300) : begin]
    inner = _INDENT.fullmatch(line)
    if found is None or inner is None:
        return None
    at = stop = found.end()
    while at < len(text):
        after = text.find("\n", at) + 1 or len(text)
        below = text[at:after]
        if below.strip() and len(below) - len(below.lstrip()) <= len(inner[1]):
            break
        at, stop = after, after - below.endswith("\n")
    block = text[found.end() : stop]
    start = found.end() + len(block) - len(block.lstrip())
    return (start, stop) if block.strip() and "***" not in block else None


_AFTER: Final[tuple[tuple[str, tuple[Callable[[str, int, int], Place | None], ...]], ...]] = (
    ("\"'\\])", (_listed, _beside(_VARIABLE), _beside(_FORM_DATA))),
    ("(", (_called,)),
    ("&", (_beside(_ENTITY),)),
    ("<", (_beside(_PLIST),)),
    ("%", (_beside(_PERCENT),)),
    ("\"': \t_-\n", (_block, _beside(_NEXT_LINE, _NAMING))),
)


def _without_named(text: str, lowered: str) -> str:
    """What a name names, wherever that stands. Tried only where a name can begin."""
    parts: list[str] = []
    done = 0
    for beginning in NAMES_BEGIN.finditer(lowered):
        begin = beginning.start()
        name = _NAME.match(lowered, begin) if begin >= done else None
        if name is None:
            continue
        after = text[name.end() : name.end() + 1]
        places = (
            look(text, begin, name.end()) for first, looks in _AFTER if after and after in first for look in looks
        )
        if (place := next(filter(None, places), None)) is not None:
            parts += [text[done : place[0]], _SHOWN]
            done = place[1]
    return "".join([*parts, text[done:]])


# Tables.

_MOST_COLUMNS: Final = 64
_RULE: Final = frozenset("-:| ")


def _without_columns(text: str) -> str:
    """Below a line of names (CSV, tabs, Markdown) what stands under one of a secret."""
    lines = text.split("\n")
    separator, secret, width = "", frozenset[int](), 0
    for at, line in enumerate(lines):
        if width and line.count(separator) + 1 == width:
            lines[at] = separator.join(
                _cell(cell) if place in secret else cell for place, cell in enumerate(line.split(separator))
            )
            continue
        width = 0
        if not any(each in line for each in "\t|,;") or NAMES_BEGIN.search(line.lower()) is None:
            continue
        for separator in ("\t", "|", ",", ";"):
            if 0 < line.count(separator) < _MOST_COLUMNS and len(line) < 4096:
                names = line.split(separator)
                secret = frozenset(place for place, name in enumerate(names) if kind_of(name.strip(" \"'")) is not None)
                if secret and all(len(name) <= 40 and (separator in "\t|" or name[:1] != " ") for name in names):
                    width = len(names)
                    break
    return "\n".join(lines)


def _cell(cell: str) -> str:
    value = cell.strip(" \"'")
    if not value or " " in value or set(value) <= _RULE or stands_in(value):
        return cell
    return cell.replace(value, _SHOWN)


# High entropy beside a telling word.

_TELLING: Final = late(
    r"(?:pass(?:word|wd|phrase|code|wort)|passord|kennwort|contrase[nñ]a|wachtwoord|lozinka|credentials?)s?(?=[\s:])"
)
_KEY_STARTS: Final = late(r"token|secret|api|access|signing|auth|private|license|the|my|your")
_KEYS: Final = late(
    r"(?i:(?<![A-Za-z0-9])((?:token|secret|(?:api|access|signing|auth|private|license|the|my|your)[ _-]?key)s?"
    r"((?:[ :='\"`(\\]{1,4}[a-z]{1,24}){0,6})[ :='\"`(\\]{1,4}))(?=[A-Za-z+/=.~_-]{0,512}\d)([\w+/=.~-]{16,512})"
)
_NEARBY: Final = late(r"[^\s\"'`,;()<>\[\]{}|]{6,512}")
_OTHERWISE: Final = late(
    r"(?i)\b(?:sha\d*|commit|hash|digest|checksum|fingerprint|revision|etag|file|path|id|name|url)\b"
)
_CODE: Final = late(r"[(){}\[\];<>=|&$@]")
_USER: Final = late(r"[a-z][a-z0-9._-]{0,63}[:/]")
_WINDOW: Final = 72


def _without_keys(text: str, lowered: str) -> str:
    parts: list[str] = []
    done = 0
    for begin in _KEY_STARTS.finditer(lowered):
        found = _KEYS.match(text, begin.start()) if begin.start() >= done else None
        if found is not None:
            parts += [text[done : begin.start()], _key(found)]
            done = found.end()
    return "".join([*parts, text[done:]])


def _without_told(text: str, lowered: str) -> str:
    parts: list[str] = []
    done = 0
    words = [word.span() for word in _TELLING.finditer(lowered)]
    for (_, begin), (after, _) in zip(words, [*words[1:], (len(text), 0)], strict=False):
        if begin < done:
            continue
        line = text[begin : min(begin + _WINDOW, after)].partition("\n")[0]
        for start, end in _told(text, begin, begin + len(line)):
            parts += [text[done:start], _SHOWN]
            done = end
    return "".join([*parts, text[done:]])


def _key(found: re.Match[str]) -> str:
    value = found[3].rstrip(".=" if found[3].endswith("==.") else ".")
    sure = is_random(value, digest=len(value) >= 32) and _OTHERWISE.search(found[2]) is None
    return f"{found[1]}{_SHOWN}{found[3][len(value) :]}" if sure else found[0]


def _told(text: str, begin: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where passwords stand behind a word that tells of them: within the window, or beginning there."""
    at = begin
    while at < stop and (found := _NEARBY.search(text, at, stop + 512)) is not None and found.start() < stop:
        value = found[0].rstrip(".:!?")
        at = found.end()
        if "***" in value:
            continue
        between = text[begin : found.start()]
        if (
            _OTHERWISE.search(between) is not None
            or _CODE.search(between) is not None
            or text[at : at + 1] in ("(", "[")
        ):
            return
        user = _USER.match(value)
        skipped = user.end() if user else 0
        value = value[skipped:]
        strong = len(value) >= 8 and "/" not in value and is_strong(value)
        if strong or is_random(value, digest=len(value) >= 32):
            yield found.start() + skipped, found.start() + skipped + len(value)


# Encoded for an address, or as base64.

_PERCENT_CODE: Final = late(r"(?i:(code%(?:25)?3d))([^%&\s\"'+<>]{16,4096})")
_PERCENT_USER: Final = late(r"(?i:(%3a%2f%2f[\w.~-]{0,256}%3a))([^\s\"'&/]{1,1024}?)(?=%40)")
_ENCODED_SCHEME: Final = late(r"(?i:(\b(?:bearer|basic)%20))([\w+/=.~-]{8,4096})")
_BASE64: Final = late(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{20,65536}={0,2}")
_MOST_DECODED: Final = 65_536


def _without_percent(text: str) -> str:
    text = _PERCENT_USER.sub(_unless_it_stands_in, text)
    text = _ENCODED_SCHEME.sub(_unless_it_stands_in, text)
    return _PERCENT_CODE.sub(_unless_it_stands_in, text)


def _unless_it_stands_in(found: re.Match[str]) -> str:
    return found[0] if stands_in(found[2]) else f"{found[1]}{_SHOWN}"


def _without_base64(text: str, mask: Callable[[str], str]) -> str:
    def decoded(found: re.Match[str]) -> str:
        if not any(piece in found[0] for piece in BASE64_NAMES):
            return found[0]
        try:
            plain = base64.b64decode(found[0] + "=" * (-len(found[0]) % 4), validate=True).decode()
        except ValueError:
            return found[0]
        return found[0] if mask(plain) == plain else "***base64***"

    return _BASE64.sub(decoded, text)


# Places where only the form says it.

_FORMS: Final = tuple((needles.split(), late(pattern)) for needles, pattern in (
    (":", r"(?m:^([\w.*-]{1,253}:(?:\d{2,5}|\*):[\w*-]{1,64}:[\w*-]{1,64}:))([^\s:]{4,256})(?=\s|$)"),
    ("@", r"((?<![\w/.:-])[\w.-]{1,64}:)([^\s:@/\"']{4,256})(?=@(?:tcp\(|unix\(|[\w.-]{1,253}:\d{2,5}/))"),
    ("true\t false\t", r"(\t(?:TRUE|FALSE)\t\d{1,12}\t[^\t\n]{1,256}\t)([^\t\n]{4,4096})"),
    ("seed totp 2fa mfa otp",
     r"((?i:\b(?:seed|totp|2fa|mfa|otp)\b)[^\n]{0,24}?[\s:=\"'])([A-Z2-7]{16,128}=*)(?![\w-])"),
    ("code pin passcode password",
     r"(?i:(\b(?:verification|security|confirmation|one-time|login|auth\w{0,12}|otp|2fa|mfa|access)[ -]"
     r"(?:code|pass\w{0,4}|pin)(?: (?:is|was))?[\s:=]{1,4}))(\d{4,8})(?!\d)"),
    ("cvv cvc", r"(?i:(\bcv[vc]2?(?: code| is)?[\s:=]{1,4}))(\d{3,4})(?!\d)"),
    ("pin", r"(?i:((?<![\w.-])pin(?: is|:|=)?\s{0,4}))(\d{4,8})(?![\w.])"),
    ("type=", r"(?i:(<input\b[^<>]{0,400}type=[\"']?password\b[^<>]{0,400}value=[\"']))([^\"'<>]{1,1024})"),
    ("auth",
     r"(\bauth\s{0,2}=\s{0,2}\(\s{0,2}[\"'][^\"'\n]{1,100}[\"']\s{0,2},\s{0,2}[\"'])([^\"'\n]{3,256})(?=[\"'])"),
    ("jdbc:oracle", r"(jdbc:oracle:\w{1,8}:[\w$#]{1,64}/)([^\s@/]{1,256})(?=@)"),
    ("$1$ $5$ $6$ $y$ $2a$ $2b$ $2x$ $2y$ $apr1$ $argon2",
     r"()(\$(?:[156y]|2[abxy]|apr1|argon2id?)\$[./A-Za-z0-9=,+$]{20,512})"),
    ("session= sess= sessid= sid= auth=",
     r"(?i:((?<![\w.-])[\w.-]{0,40}(?:session|sess|sessid|sid|auth)=(?:s%3a)?))([\w.~%-]{20,4096})"),
    ("securestring", r"(?i:(securestring\s{1,4}[\"']))([^\"'\n]{1,256})(?=[\"'])"),
    ("jwt. hmac.new",
     r"(\b(?:jwt\.(?:sign|verify|encode|decode)|hmac\.new)\([^\n()\"']{0,80},?\s{0,4}b?[\"'])([^\"'\n]{8,512})(?=[\"'])"),
    ("credentials( login( connection( auth(",
     r"(?i:(\b(?:with_?credentials|login|get_?connection|auth|basic_?auth)\([^\n()]{0,200}?,\s{0,4}[\"']))"
     r"([^\"'\n]{4,256})(?=[\"']\))"),
))  # fmt: skip
_UUID: Final = late(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _formed(found: re.Match[str]) -> str:
    if (
        found[1].endswith(("'", '"'))
        and "(" in found[1]
        and not (is_strong(found[2]) or is_random(found[2], digest=True))
    ):
        return found[0]
    kept = stands_in(found[2]) or _UUID.fullmatch(found[2]) is not None or (found[2].islower() and found[2].isalpha())
    return found[0] if kept else f"{found[1]}{_SHOWN}"


def without_placed(text: str, shaped: bool, mask: Callable[[str], str]) -> str:
    """`shaped` is whether `SHAPES` are in it; `mask` masks what is found inside base64."""
    lowered = lower(text)
    if shaped:
        text = without_commands(text)
        text = _without_keys(text, lower(text))
        if any(piece in text for piece in BASE64_NAMES):
            text = _without_base64(text, mask)
    text = without_settings(text, lowered)
    for needles, pattern in _FORMS:
        if any(needle in lowered for needle in needles):
            text = pattern.sub(_formed, text)
    text = _without_named(text, lower(text))
    if "\n" in text:
        text = _without_columns(text)
    if "%" in text:
        text = _without_percent(text)
    return _without_told(text, lower(text))


_ASCII_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def lower(text: str) -> str:
    """In small letters, each where it was: a few letters become two otherwise."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_ASCII_LOWER)
