"""What a secret looks like. Tables only; `redaction` reads them.

The patterns never repeat without a bound inside a repetition, so that a hostile text costs no more than a
harmless one of its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from mcpproxy_py.core.record.placeholders import is_code_or_prose, is_strong, stands_in

Replacement = str | Callable[[re.Match[str]], str]


class Rule(NamedTuple):
    """`needles` are cheap and lower case; only where one occurs is the pattern tried."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: Replacement


def _rule(needles: str, pattern: str, replacement: Replacement) -> Rule:
    return Rule(tuple(needles.split()), re.compile(pattern), replacement)


_EDGE: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"

# Keys of providers that can be told by how they begin: kind, beginnings, pattern.
_PROVIDERS: Final[tuple[tuple[str, str, str], ...]] = (
    ("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*[\w-]){1,3}"),
    ("aws-key", "akia asia abia", rf"(?:AKIA|ASIA|ABIA)[A-Z0-9]{{16}}{_END}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
     r"(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{22,255})"),
    ("gitlab-token", "glpat- glrt- gldt- glptt- glcbt- glft- glsoat-",
     r"gl(?:pat|rt|dt|ptt|cbt|ft|soat)-[\w-]{18,255}(?:\.[\w-]{2,40}){0,2}"),
    ("slack-token", "xox xapp-", r"(?:xox[abeoprs](?:-|\.xox[a-z]-)[\w.-]{10,255}|xapp-[\w-]{10,255})"),
    ("stripe-key", "sk_ rk_ whsec_",
     r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{10,255}|whsec_[\w+/=]{20,255})"),
    ("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{16,255}"),
    ("openai-key", "sk-", r"(?<![\w-])sk-(?=[\w-]{0,250}\d)(?:proj-|svcacct-|admin-)?[\w-]{20,255}"),
    ("google-key", "aiza ya29. gocspx- 1//0",
     r"(?:AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{20,1024}|GOCSPX-[\w-]{20,64}|1//0[\w-]{30,120})"),
    ("registry-token", "npm_ hf_ pypi-age dckr_",
     rf"(?:npm_[A-Za-z0-9]{{36}}{_END}|hf_[A-Za-z0-9]{{30,64}}{_END}|pypi-AgE[\w-]{{50,1000}}"
     r"|dckr_(?:pat|oat)_[\w-]{24,64})"),
    ("sendgrid-key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{30,64}"),
    ("cloud-key", "do_v1_ doo_v1_ dop_v1_ dor_v1_ dapi hvs. hvb. hvr. sbp_ pscale_",
     r"(?:do[opr]_v1_[a-f0-9]{64}|dapi[a-f0-9]{32}(?:-\d)?|hv[sbr]\.[\w-]{20,300}|sbp_[a-f0-9]{40}"
     r"|pscale_\w{2,10}_[\w.-]{32,64})"),
    ("shop-key", "shpat_ shpss_ shpca_ shppa_ sq0", r"(?:shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}|sq0[a-z]{3}-[\w-]{22,43})"),
    ("service-key", "nrak- pmak- key- sntrys_ atatt3 atbb dp. lsv2_",
     r"(?:NRAK-[A-Z0-9]{27}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|key-[a-f0-9]{32}|sntrys_[\w+/=]{40,300}"
     r"|ATATT3[\w=-]{100,300}|ATBB[A-Za-z0-9]{24,40}|dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9]{40,44}"
     r"|lsv2_(?:pt|sk)_[a-f0-9]{32}_\w{10})"),
    ("age-key", "age-secret-key-1", r"(?i:AGE-SECRET-KEY-1)[A-Za-z0-9]{50,60}"),
    ("mcpproxy-key", "mcpk_ mcpt_", r"mcp[kt]_[\w-]{32,64}"),
)  # fmt: skip

_NAMED: Final = (
    r"pass(?:word|wd|phrase|code|wort)|kennwort|pwd|secret(?:[_-]?key(?:[_-]?base)?)?"
    r"|(?:api|access|account|auth|encryption|functions|license|master|private|shared|signing|subscription)[_-]?key"
    r"|token|x-api-key|(?:set-)?cookie(?=[\"'\\])|(?<=[_-])(?:pass|auth|pw)"
)
_VALUE: Final = r"(?:(\\{0,7}[\"'`])((?s:(?!\2).){1,4096})(?=\2)|([^\s\"'`\\,;&<>()\[\]{}]{3,4096}))"


def assigned(found: re.Match[str]) -> str:
    """`name = value` and its like. What is quoted is a literal; the rest can be code, or prose."""
    head, quote, literal, bare = found.groups()
    if literal is not None:
        return found[0] if stands_in(literal) else f"{head}{quote}***secret***"
    line = found.string[found.end() : found.end() + 80]
    after = line.partition("\n")[0] + ("\n" if "\n" in line else "")
    return found[0] if is_code_or_prose(bare, head, after) else f"{head}***secret***"


def _unless_it_stands_in(kind: str) -> Callable[[re.Match[str]], str]:
    """For patterns of two groups: what goes before, and the secret."""

    def shown(found: re.Match[str]) -> str:
        return found[0] if stands_in(found[2]) else f"{found[1]}***{kind}***"

    return shown


def _if_strong(found: re.Match[str]) -> str:
    return f"{found[1]}***password***" if is_strong(found[2]) else found[0]


def _without_values(found: re.Match[str]) -> str:
    """The cookies of a header line: their names stay, and so do the attributes of one that is set."""
    return re.sub(
        r"(?i)((?:^|[;:])\s*(?!domain|path|expires|max-age|samesite)[^=;\s]+=)(?!\*\*\*)[^;\s]{6,}",
        r"\1***cookie***",
        found[0],
    )


ASSIGNED: Final = re.compile(rf"(?i:((?:{_NAMED})(?:[\"'\\\]]{{0,8}}\s{{0,4}}(?::=|=>|[:=](?!=))\s{{0,4}}))){_VALUE}")
ASSIGNED_STARTS: Final = re.compile(
    r"pass|kennwort|pw|secret|api|access|account|auth|encryption|functions|license|master|private|shared|signing"
    r"|subscription|token|x-api|set-cookie|cookie"
)
# In this order, and the shapes before the rest, so that what has a name of its own keeps it.
SHAPED: Final = (
    _rule("---begin", r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20})-----(?s:.*?)(?:-----END \1-----|\Z)",
          "***private-key***"),
    _rule("private-lines", r"(Private-Lines: \d{1,3}\r?\n)(?:[A-Za-z0-9+/=]{1,80}(?:\r?\n|\Z)){1,100}",
          "\\1***private-key***\n"),
    *(_rule(beginnings, _EDGE + pattern, f"***{kind}***") for kind, beginnings, pattern in _PROVIDERS),
    _rule(":aa", r"(?<!\d)\d{8,10}:AA[\w-]{33}", "***telegram-token***"),
    _rule("hooks.slack discord",
          r"((?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks/\d{5,25})/)[\w/-]{20,255}",
          r"\1***webhook***"),
    # Any other provider's: a short word, and behind it what only a generator writes.
    _rule("_ -", _EDGE + r"(?!sha\d)([a-z][a-z0-9]{1,11}(?:[_-][a-z0-9]{1,10}){0,3}[_-])(?=[A-Za-z0-9]{0,200}[a-z])"
          r"(?=[A-Za-z0-9]{0,200}[A-Z])(?=[A-Za-z0-9]{0,200}\d)[A-Za-z0-9]{32,255}(?:_[A-Za-z0-9]{4,16})?" + _END,
          "***api-key***"),
)  # fmt: skip
RULES: Final = (
    _rule("://", r"(://[^\s/?#:@\"'<>]{0,256}:)[^\s/?#\"'<>]{1,1024}@", r"\1***password***@"),
    _rule("://", r"(://)(?=[\w-]{0,256}\d)[\w-]{20,256}@", r"\1***token***@"),
    # A word is no token: it has a digit in it or is long.
    _rule("bearer", r"(?i:\b(bearer)\s{1,4})(?=[\w+/=.~-]*\d|[\w+/=.~-]{24})[\w+/=.~-]{8,4096}", r"\1 ***bearer***"),
    _rule("basic", r"\b([Bb]asic|BASIC)\s{1,4}(?=[\w+/]*[\d=]|[\w+/]*[a-z][A-Z][\w+/]*[a-z][A-Z])"
          r"[A-Za-z0-9+/]{8,4096}={0,2}(?![\w+/=])", r"\1 ***basic***"),
    _rule("authorization", r"([Aa](?i:uthorization[\"'\\]{0,8}\s{0,4}[:=]\s{0,4}[\"'\\]{0,8}"
          r"(?:(?:bearer|basic|digest|token|negotiate|apikey|ssws)\s{1,4})?))"
          r"(?!(?i:bearer|basic|digest|token|negotiate)\b)([^\s\"'`\\,;<>]{4,4096})",
          _unless_it_stands_in("authorization")),
    _rule("cookie", r"(?im:^[^\n\r:]{0,40}cookie\s{0,4}:[^\n\r]{1,4096})", _without_values),
    _rule("?sig= &sig= key= token= signature= pwd= code=",
          r"(?i:([?&#](?:sig|key|token|pwd|passwd|x-(?:amz|goog)-signature|signature|x-amz-security-token"
          r"|[a-z]+[_-]?(?:key|token|secret))=))(?!\*\*\*)([^\s&#\"'`\\<>]{6,4096})", _unless_it_stands_in("secret")),
    _rule("curl wget --user", r"((?:\s-u\s?|--user[ =])[\"']?[^\s:\"']{1,100}:)([^\s\"']{3,256})",
          _unless_it_stands_in("password")),
    _rule("sshpass", r"(sshpass\s{1,4}-p\s?[\"']?)([^\s\"']{1,256})", _unless_it_stands_in("password")),
    _rule("login", r"(\blogin\b[^\n|;&]{0,200}\s(?:-p|password)\s{1,4}[\"']?)([^\s\"'-][^\s\"']{2,255})",
          _unless_it_stands_in("password")),
    _rule("--pass --pwd token key --secret --client-secret --auth",
          rf"(?i:(--[a-z-]{{0,40}}(?:{_NAMED}|auth)\s{{1,4}}[\"']?))(?!-)([^\s\"'`\\]{{3,4096}})",
          _unless_it_stands_in("secret")),
    _rule("<", rf"(?i:(<[\w:.-]{{0,40}}(?:{_NAMED})(?:\s[^<>]{{0,200}})?>\s{{0,20}}))([^\s<>*][^<>]{{0,4096}})(?=</)",
          _unless_it_stands_in("secret")),
    _rule("value=",
          rf"(?i:((?:key|name)=[\"'][\w.:-]{{0,60}}(?:{_NAMED})[\"']\s{{1,4}}value=[\"']))([^\"'<>]{{1,4096}})",
          _unless_it_stands_in("secret")),
    _rule("pass", r"([Pp](?i:ass(?:word|wd|phrase|code)(?: for [\w.@-]{1,64})?"
          r"(?: (?:is|was|to|now|set|changed)){0,3}:?\s{1,4}[\"'`]?))([^\s\"'`,]{7,128}[^\s\"'`.,;!])", _if_strong),
)  # fmt: skip

CARD_LIKE: Final = re.compile(r"[2-6]\d{3}[ -]?\d{4,6}[ -]?\d{4}")
CARDS: Final = re.compile(
    r"(?<![\w.-])(?:\d{14,16}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ -])\d{6}\2\d{5}|3\d{3}([ -])\d{6}\3\d{4})"
    r"(?![\w-]|\.\d)"
)
ISSUERS: Final = re.compile(
    r"(?:4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14})\Z"
)
