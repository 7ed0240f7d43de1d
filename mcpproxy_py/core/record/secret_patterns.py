"""What a secret looks like. Tables only; `masking` reads them.

The patterns never repeat without a bound inside a repetition, so that a hostile text costs no more than a
harmless one of its length.

Patterns that find in the JSON text of a value everything that masking could find in the value, and little more.

They are written for engines that look at each character once, so they say only what those have: no looking around,
no references. They may find too much, which costs a closer look, and must never find too little. The text is JSON, so a
line break before a word is the letter n.

Which names say that a secret stands under them. Tables, and one question about them.

What stands where a secret would and is none: a placeholder, a word of prose, a piece of code (ACT-9).

`password: required`, `token = request.token()` and `API_KEY=${API_KEY}` are most of what one reads after such
names. A record in which all of that is masked is of little use, and gives away nothing for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

_W: Final = "a-z0-9_"
_SPACE: Final = r"(?:\s|\\[nrt])"
_ESCAPE: Final = r"\\(?:[nrtbf]|u[0-9a-f]{4})"
_CHAR: Final = r"(?:[^\"\\]|\\.)"
_SIGN_EDGE: Final = rf"(?:^|[^{_W}.-]|{_ESCAPE})"
# Names that have to end so, and names that only have to hold it.
_ENDS: Final = (
    rf"(?:[{_W}. -]key|key[ _.-]?base|token|secrets?|credentials?|auth(?:orization)?|cookies?|s[ _.-]?id|sessionid|pwd"
    r"|cvv|cvc|card[ _.-]?number|credit[ _.-]?card|mnemonic|seed[ _.-]?phrase|recovery[ _.-]?codes?|otp|pass|pw|senha"
    r"|mot[ _.-]?de[ _.-]?passe)"
)
_PARTS: Final = r"(?:pass[ _.-]?(?:word|wd|phrase|code|wort)|kennwort|contraseña|пароль|密码)"
_NAMES: Final = f"(?:{_ENDS}|{_PARTS})"

SHAPES: Final = "|".join((
    r"hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks|---begin [a-z0-9 ]*private|private-lines|age-secret-key-1",
    rf"eyj[{_W}-]{{6}}[{_W}-]*\.[{_W}-]{{6}}|(?:akia|asia|abia)[a-z0-9]{{16}}|gh[pousr]_[a-z0-9]{{20}}|github_pat_",
    rf"gl(?:pat|rt|dt|ptt|cbt|ft|soat)-[{_W}-]{{18}}|xox[a-z][-.]|xapp-|[sr]k_(?:live|test)_|whsec_|sk-[{_W}-]{{16}}",
    rf"aiza[{_W}-]{{35}}|ya29\.|gocspx-|1//0|npm_[a-z0-9]{{36}}|hf_[a-z0-9]{{30}}|pypi-age|dckr_|sg\.[{_W}-]{{16}}",
    rf"do[opr]_v1_|dapi[a-f0-9]{{32}}|hv[sbr]\.[{_W}-]{{20}}|sbp_|pscale_|shp(?:at|ss|ca|pa)_|sq0[a-z]{{3}}-|nrak-|pmak-",
    rf"key-[a-f0-9]{{32}}|sntrys_|atatt3|atbb|dp\.(?:pt|st|ct|sa)\.|lsv2_|mcp[kt]_|[0-9]{{8}}:aa[{_W}-]{{33}}",
    r"[a-z0-9][_-][a-z0-9]{32}",
))  # fmt: skip
"""Of these, what has a shape of its own: without one of them, no provider's key need be looked for."""

SIGNS: Final = "(?i)" + "|".join((
    # A name, and what sets it off from its value.
    rf"{_NAMES}(?:{_ESCAPE}|[^A-Za-z0-9:=>])*[:=>]|{_PARTS}{_CHAR}*\":",
    rf"{_NAMES}[\"'\\]+{_SPACE}+value=",
    rf"<[{_W}:.-]*{_NAMES}\s",
    # Where a name is a value itself, beside its value in a list or an object.
    rf"\"(?:name|key|header)\":\"{_CHAR}*(?:{_ENDS}(?:{_ESCAPE}|\\\\.|[^A-Za-z0-9\"])*|{_PARTS}{_CHAR}*)\"",
    rf"--?[{_W}-]*{_NAMES}",
    r"\"(?:proxy-)?authorization\"|\"(?:set-)?cookie\"",
    # In prose, headers and commands.
    rf"(?:bearer|basic){_SPACE}+[{_W}+/=.~-]{{8}}",
    rf"pass(?:word|wd|phrase|code):?{_SPACE}",
    rf"curl{_SPACE}|wget{_SPACE}|--user[ =]|sshpass{_SPACE}|{_SPACE}-p{_SPACE}",
    # Addresses.
    rf"://[^\s/?#\"]+@|[?&#](?:sig|key|code|[{_W}-]*signature)=",
    SHAPES,
    # Card numbers, and numbers so long that not every reader takes them.
    rf"{_SIGN_EDGE}[2-6][0-9]{{3}}[ -]?[0-9]{{4,6}}[ -]?[0-9]{{4}}|[0-9]{{1200}}",
))  # fmt: skip


# By how a name ends, once it is lower case and without anything but letters and digits. First match wins.
ENDS: Final[tuple[tuple[str, str], ...]] = (
    ("privatekey", "private-key"), ("signingkey", "private-key"), ("encryptionkey", "private-key"),
    ("masterkey", "private-key"), ("sshkey", "private-key"), ("secretkeybase", "private-key"),
    ("apikey", "api-key"), ("accesskey", "api-key"), ("secretkey", "api-key"), ("authkey", "api-key"),
    ("accountkey", "api-key"), ("subscriptionkey", "api-key"), ("functionskey", "api-key"), ("sharedkey", "api-key"),
    ("deploykey", "api-key"), ("servicekey", "api-key"), ("licensekey", "api-key"),
    ("authorization", "authorization"), ("credential", "credentials"), ("credentials", "credentials"),
    ("secret", "secret"), ("secrets", "secret"), ("mnemonic", "secret"), ("seedphrase", "secret"),
    ("recoverycode", "secret"), ("recoverycodes", "secret"), ("token", "token"), ("cookie", "cookie"),
    ("cookies", "cookie"), ("connectsid", "cookie"), ("sessid", "cookie"), ("pwd", "password"), ("cvv", "card"),
    ("cvc", "card"), ("cardnumber", "card"), ("creditcard", "card"),
)  # fmt: skip
PARTS: Final = tuple(
    (word, "password")
    for word in ("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "contraseña", "пароль", "密码")
)
WHOLE: Final[Mapping[str, str]] = {
    "pass": "password", "auth": "authorization", "basicauth": "authorization", "jsessionid": "cookie",
    "otp": "password", "senha": "password", "motdepasse": "password",
}  # fmt: skip
# Names that end like a secret and are none: cursors of paging, ids of progress, the marks of language models;
# and what is said about a password without saying it.
HARMLESS: Final = re.compile(
    r"(?:page|paging|pagination|next|prev|previous|continuation|sync|start|cursor|progress|cancel(?:lation)?"
    r"|stop|eos|bos|pad|mask)token$|passwordless"
    r"|passw(?:or)?ds?(?:are|is|was)?(?:changed?|changes|expire[sd]?|expiry|reset|updated|required|enabled|strength"
    r"|policy|policies|rules|length|min|max|age|count|file|path|url|arn|id|type)"
)
PATHS: Final = frozenset({"pwd", "oldpwd"})
"""What a shell calls the folder one is in."""


def kind_of(name: str) -> str | None:
    """What kind of secret stands under this name, if any."""
    return _remembered(name) if len(name) <= 64 else _kind_of(name)


def _kind_of(name: str) -> str | None:
    plain = re.sub(r"[\W_]+", "", name.lower())
    if HARMLESS.search(plain):
        return None
    if plain in WHOLE:
        return WHOLE[plain]
    parts = (kind for part, kind in PARTS if part in plain)
    ends = (kind for end, kind in ENDS if plain.endswith(end))
    return next(parts, None) or next(ends, None)


_remembered: Final = lru_cache(maxsize=4096)(_kind_of)


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


Replacement = str | Callable[[re.Match[str]], str]


class SecretPattern(NamedTuple):
    """`needles` are cheap and lower case; only where one occurs is the pattern tried."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: Replacement


def _rule(needles: str, pattern: str, replacement: Replacement) -> SecretPattern:
    return SecretPattern(tuple(needles.split()), re.compile(pattern), replacement)


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
