"""What a secret looks like: the keys it stands under, and the shapes it has. Tables only; `redaction` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

# What a key names, by its normalised end (lower case, letters and digits only). First match wins.
KEY_ENDS: Final[tuple[tuple[str, str], ...]] = (
    ("privatekey", "private-key"), ("signingkey", "private-key"), ("encryptionkey", "private-key"),
    ("masterkey", "private-key"), ("sshkey", "private-key"),
    ("apikey", "api-key"), ("accesskey", "api-key"), ("secretkey", "api-key"), ("authkey", "api-key"),
    ("authorization", "authorization"), ("credential", "credentials"), ("credentials", "credentials"),
    ("secret", "secret"), ("secrets", "secret"), ("token", "token"), ("cookie", "cookie"), ("cookies", "cookie"),
    ("connectsid", "cookie"), ("sessid", "cookie"), ("pwd", "password"), ("cvv", "card"), ("cvc", "card"),
    ("cardnumber", "card"), ("creditcard", "card"),
)  # fmt: skip
KEY_PARTS: Final = (("password", "password"), ("passwd", "password"), ("passphrase", "password"))
KEY_WHOLE: Final[Mapping[str, str]] = {
    "pass": "password", "auth": "authorization", "basicauth": "authorization", "jsessionid": "cookie",
}  # fmt: skip
# Keys that end like a secret and are none: cursors of paging, ids of progress, the marks of language models.
KEY_HARMLESS: Final = re.compile(
    r"(?:page|paging|pagination|next|prev|previous|continuation|sync|start|cursor|progress|cancel(?:lation)?|stop|eos|bos|pad|mask)token$"
    r"|passwordless"
)

# One of these stands, in lower case, in every text that holds anything the rules below could find. Most stand
# behind a character that they all contain, because looking for one character costs next to nothing.
NEEDLES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("", ("pass", "pwd", "secret", "token", "key", "auth", "cookie", "cred", "card", "cvv", "cvc", "sess",
          "bearer", "basic")),
    (":", ("://",)),
    (".", ("eyj", "ya29.", "connect.sid", "hooks.slack")),
    ("_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "_pat_", "sk_", "rk_", "npm_", "hf_", "whsec_", "mcpk_", "mcpt_")),
    ("-", ("glpat-", "xox", "xapp-", "sk-", "gocspx-", "---begin")),
    ("=", ("sig=", "signature=")),
)  # fmt: skip
SHOUTED: Final = ("AKIA", "ASIA", "ABIA", "AIza")
CARD_LIKE: Final = re.compile(r"[2-6]\d{3}[ -]?\d{4,6}[ -]?\d{4}")


class Rule(NamedTuple):
    """`needles` are cheap and lower case; only where one occurs is the pattern tried."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: str


def _rule(needles: str, kind: str, pattern: str, replacement: str = "***{}***") -> Rule:
    return Rule(tuple(needles.split("|")), re.compile(pattern), replacement.format(kind))


_EDGE: Final = r"(?<![A-Za-z0-9])"
_NAMED: Final = (
    r"pass(?:word|wd|phrase)|pwd|secret(?:[_-]?key)?|client[_-]?secret|api[_-]?key|access[_-]?key"
    r"|(?:access|refresh|auth|id|bearer|session)[_-]?token|token|private[_-]?key|set-cookie|cookie|x-api-key"
)
# In this order: what has a shape of its own goes first, so that it keeps its own name.
RULES: Final = (
    _rule("---begin", "private-key",
          r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20})-----(?s:.*?)(?:-----END \1-----|\Z)"),
    _rule("://", "password", r"(://[^\s/?#:@\"'<>]{0,256}:)[^\s/?#\"'<>]{1,1024}@", r"\1***{}***@"),
    _rule("eyj", "jwt", _EDGE + r"eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*){1,3}"),
    _rule("akia|asia|abia", "aws-key", _EDGE + r"(?:AKIA|ASIA|ABIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule("ghp_|gho_|ghu_|ghs_|ghr_|github_pat_", "github-token",
          _EDGE + r"(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{22,255})"),
    _rule("glpat-", "gitlab-token", _EDGE + r"glpat-[\w.-]{20,255}"),
    _rule("xox|xapp-|hooks.slack", "slack-token",
          _EDGE + r"(?:xox[abeoprs](?:-|\.xox[a-z]-)[\w.-]{10,255}|xapp-[\w-]{10,255}"
          r"|hooks\.slack\.com/services/[\w/]{20,255})"),
    _rule("sk_|rk_|whsec_", "stripe-key", _EDGE + r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[\w+/=]{20,255})"),
    _rule("sk-ant-", "anthropic-key", _EDGE + r"sk-ant-[\w-]{16,255}"),
    _rule("sk-", "openai-key", _EDGE + r"sk-(?=[\w-]{0,250}\d)(?:proj-|svcacct-|admin-)?[\w-]{20,255}"),
    _rule("aiza|ya29.|gocspx-", "google-key",
          _EDGE + r"(?:AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{20,1024}|GOCSPX-[\w-]{20,64})"),
    _rule("npm_|hf_", "registry-token", _EDGE + r"(?:npm_[A-Za-z0-9]{36}|hf_[A-Za-z0-9]{30,64})(?![A-Za-z0-9])"),
    _rule("mcpk_|mcpt_", "mcpproxy-key", _EDGE + r"mcp[kt]_[\w-]{32,64}"),
    # A word is no token: it has a digit in it or is long.
    _rule("bearer", "bearer",
          r"(?i:\b(bearer)\s{1,4})(?=[\w+/=.~-]*\d|[\w+/=.~-]{24})[\w+/=.~-]{8,4096}", r"\1 ***{}***"),
    _rule("basic", "basic", r"\b([Bb]asic|BASIC)\s{1,4}(?=[\w+/]*[\d=]|[\w+/]*[a-z][A-Z][\w+/]*[a-z][A-Z])"
          r"[A-Za-z0-9+/]{8,4096}={0,2}(?![\w+/=])", r"\1 ***{}***"),
    _rule("authorization", "authorization",
          r"(?i:(authorization[\"'\\]{0,3}\s{0,4}[:=]\s{0,4}[\"'\\]{0,3}))(?!\s*(?i:bearer|basic)? ?\*\*\*)"
          r"(?i:(?:bearer|basic|digest|token|negotiate)\s{1,4})?[^\s\"'\\,;<>]{4,4096}", r"\1***{}***"),
    _rule("sig=|signature=|key=|token=", "secret",
          r"(?i:([?&](?:sig|signature|key|token|x-amz-signature)=))(?!\*\*\*)[^\s&#\"'\\<>]{6,4096}", r"\1***{}***"),
    # `password=…`, `"api_key": "…"`, also as JSON inside a string, and `--token …` on a command line.
    _rule("pass|pwd|secret|key|token|cookie", "secret",
          rf"(?i:((?:--[a-z-]{{0,40}}(?:{_NAMED})\s{{1,4}}|(?:{_NAMED})[\"'\\]{{0,3}}\s{{0,4}}(?:[:=]|=>)\s{{0,4}})))"
          r"(?:(\\{0,3}[\"'])(?!\*\*\*)(?s:(?!\2).){1,4096}|(?!\*\*\*)[^\s\"'\\,;&<>()\[\]{}]{3,4096})",
          r"\1\2***{}***"),
)  # fmt: skip

CARDS: Final = re.compile(
    r"(?<![\w.-])(?:\d{14,16}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ -])\d{6}\2\d{5}|3\d{3}([ -])\d{6}\3\d{4})"
    r"(?![\w-]|\.\d)"
)
ISSUERS: Final = re.compile(
    r"(?:4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14})\Z"
)
