"""What stands where a secret would and is none: a placeholder, a word of prose, a piece of code (ACT-9).

`password: required`, `token = request.token()` and `API_KEY=${API_KEY}` are most of what one reads after such
names. A record in which all of that is masked is of little use, and gives away nothing for it.
"""

from __future__ import annotations

import re
from typing import Final

_SAID: Final = """
    a an and any are as await async auto basic bearer been being below bool boolean bytes changed changeme char const
    default deprecated digest disabled empty enabled encrypted env example expired false fill first for from func
    function getenv has hidden his her i in incorrect int invalid is it its key known let list long masked may missing
    must my needed negotiate never new nil no none not null number object of off ok omit omitted on one only opaque
    optional or our own plain private public redacted req request required see self set short should stdin str string
    super text that the their then there they this todo token true type undefined unknown unset use user uuid val valid
    value var varchar void was we will with wrong yes yield you your
"""
WORDS: Final = frozenset(_SAID.split())
"""What is said about a secret, or in its place, in documents, schemas and programs."""
_STANDS_IN: Final = re.compile(
    r"[*•.x_?#-]*|\*{3}.*|<[\w .:/|-]*>|\[[A-Za-z _-]*\]|\{\{?[^{}]*\}?\}?|\$[{(].*|\$(?:[A-Z_][A-Z0-9_]*|[a-z_]+|\d)"
    r"|%\(?\w{1,40}\)?[sdr%]?|@\w+@|process\.env\.\w+|[A-Z]+(?:_[A-Z]+)+|[A-Z]*(?:TOKEN|PASSWORD|SECRET|KEY|VALUE)"
    r"|(?i:(?:your|my|the|some|an?)[_ -](?:[a-z]+[_ -]){0,3}(?:pass\w*|secret|token|key|value)\w*)"
    r"|(?i:x{3,}|placeholder|example)\w*",
    re.DOTALL,
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)*[!?]*")
_NAMES_ONE: Final = re.compile(r"(?i)pass|pwd|secret|token|key|auth|cookie|cred")
_GOES_ON: Final = re.compile(r" +[A-Za-z(]")
_KINDS: Final = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", r"\d", r"[\W_]"))
_ALGORITHM: Final = re.compile(r"[A-Za-z]+(?:[_/-][A-Za-z]+)*[_/-]?\d{1,4}(?:[_/-]\w+)?")


def stands_in(value: str) -> bool:
    """Whether a quoted text only holds the place of a secret."""
    return value.lower() in WORDS or _STANDS_IN.fullmatch(value) is not None


def is_code_or_prose(value: str, separator: str, after: str) -> bool:
    """Whether an unquoted text after `name =` or `name:` is no literal. `after` is what follows it on its line."""
    if stands_in(value) or stands_in(value.rstrip(".!?")):
        return True
    if _IDENTIFIER.fullmatch(value) is None:
        return False
    if after[:1] in ("(", "[") or "::" in value or "->" in value:
        return True
    if any(char.isdigit() for char in value):
        return False
    spaced = separator[-1:].isspace()
    if _NAMES_ONE.search(value):
        return spaced or after[:1] in (",", ")", ".", ";")
    return "." in value or (spaced and ":" in separator and _GOES_ON.match(after) is not None)


def is_strong(value: str) -> bool:
    """Whether a word in the middle of prose can only be a password: nobody writes such words otherwise."""
    if value.islower() or value.isalpha():
        return False
    mixed = sum(kind.search(value) is not None for kind in _KINDS)
    return mixed >= 3 and _ALGORITHM.fullmatch(value) is None and not stands_in(value)
