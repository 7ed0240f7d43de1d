"""What a secret looks like. Tables only; `masking` reads them.

The patterns never repeat without a bound inside a repetition, so that a hostile text costs no more than a
harmless one of its length.

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

from mcpproxy_py.core.late_patterns import late

# By how a name ends, once it is lower case and without anything but letters and digits. First match wins.
ENDS: Final[tuple[tuple[str, str], ...]] = (
    ("privatekey", "private-key"), ("signingkey", "private-key"), ("encryptionkey", "private-key"),
    ("masterkey", "private-key"), ("sshkey", "private-key"), ("secretkeybase", "private-key"),
    ("apikey", "api-key"), ("accesskey", "api-key"), ("secretkey", "api-key"), ("authkey", "api-key"),
    ("accountkey", "api-key"), ("subscriptionkey", "api-key"), ("functionskey", "api-key"), ("sharedkey", "api-key"),
    ("deploykey", "api-key"), ("servicekey", "api-key"), ("licensekey", "api-key"),
    ("applicationkey", "api-key"), ("clientkeydata", "private-key"), ("samlresponse", "token"),
    ("authorization", "authorization"), ("credential", "credentials"), ("credentials", "credentials"),
    ("secret", "secret"), ("secrets", "secret"), ("mnemonic", "secret"), ("seedphrase", "secret"),
    ("recoverycode", "secret"), ("recoverycodes", "secret"), ("backupcodes", "secret"), ("securityanswer", "secret"),
    ("accesscode", "secret"), ("authcode", "secret"), ("authorizationcode", "secret"), ("verificationcode", "secret"),
    ("pincode", "secret"), ("devicecode", "secret"), ("securitycode", "secret"), ("presharedkey", "private-key"),
    ("sessionkey", "secret"), ("signaturekey", "private-key"), ("hmackey", "private-key"), ("consumerkey", "api-key"),
    ("token", "token"), ("cookie", "cookie"),
    ("cookies", "cookie"), ("connectsid", "cookie"), ("sessid", "cookie"), ("pwd", "password"), ("cvv", "card"),
    ("cvc", "card"), ("cardnumber", "card"), ("creditcard", "card"),
)  # fmt: skip
PARTS: Final = tuple(
    (word, "password")
    for word in (
        "password", "passwd", "passwrd", "passphrase", "passcode", "passwort", "passord", "kennwort", "contraseña",
        "contrasena", "wachtwoord", "lösenord", "losenord", "adgangskode", "jelszó", "jelszo", "lozinka", "salasana",
        "пароль", "密码", "密碼", "パスワード", "비밀번호", "motdepasse",
    )
)  # fmt: skip
WHOLE: Final[Mapping[str, str]] = {
    "pass": "password", "auth": "authorization", "basicauth": "authorization", "jsessionid": "cookie",
    "senha": "password", "mdp": "password", "haslo": "password", "hasło": "password", "heslo": "password",
    "sifre": "password", "şifre": "password", "cvv2": "card", "cvc2": "card", "bearer": "token",
}  # fmt: skip
LAST: Final[Mapping[str, str]] = {
    "pass": "password",
    "pw": "password",
    "psw": "password",
    "otp": "password",
    "psk": "password",
    "jwt": "token",
    "ssn": "personal",
    "senha": "password",
}
"""What only the last word of a name says: `DB_PASS`, `adminPw`."""
MAYBE: Final = frozenset({"pin", "seed", "pepper", "clave", "parola", "code", "pat"})
"""Names of secrets and of much else: what stands there has to look like a secret as well."""
_LAST_WORD: Final = late(r"(?:[A-Z]?[a-z]+|[A-Z]+|[^\W\d_]+)[\W\d_]*\Z")
KINDS: Final = frozenset({"secret", *(kind for _, kind in ENDS), *WHOLE.values(), *LAST.values()})
# Names that end like a secret and are none: cursors of paging, ids of progress, the marks of language models;
# and what is said about a password without saying it.
HARMLESS: Final = late(
    r"(?:page|paging|pagination|next|prev|previous|continuation|sync|start|cursor|progress|cancel(?:lation)?"
    r"|stop|eos|bos|pad|mask|design)token$|passwordless"
    r"|passw(?:or)?ds?(?:are|is|was|hash)?(?:algorithm|manager|hint|attempts|changed?|changes|expire[sd]?|expiry|reset|updated|required|enabled|strength"
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
    return next(parts, None) or next(ends, None) or LAST.get(last_word(name))


def last_word(name: str) -> str:
    """Of a name in any spelling, in small letters."""
    found = _LAST_WORD.search(name[-64:])
    return re.sub(r"[\W\d_]+", "", found[0]).lower() if found else ""


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
_STANDS_IN: Final = late(
    r"[*•.…x_?#-]*|\*{3}.*|<[\w .:/|-]*>|\[[A-Za-z _-]*\]|\{\{?[^{}]*\}?\}?|\$[{(].*|\$(?:[A-Z_][A-Z0-9_]*|[a-z_]+|\d)"
    r"|%\(?\w{1,40}\)?[sdr%]?|@\w+@|process\.env\.\w+|[A-Z]+(?:_[A-Z]+)+|[A-Z]*(?:TOKEN|PASSWORD|SECRET|KEY|VALUE)"
    r"|(?i:(?:your|my|the|some|an?)[_ -](?:[a-z]+[_ -]){0,3}(?:pass\w*|secret|token|key|value)\w*)"
    r"|(?i:x{3,}|placeholder|example)\w*",
    re.DOTALL,
)
_IDENTIFIER: Final = late(r"[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)*[!?]*")
_NAMES_ONE: Final = late(r"(?i)pass|pwd|secret|token|key|auth|cookie|cred")
_SHORT_LIVED: Final = late(r"(?i)jwt|otp|ssn|mdp|\w+code")
_GOES_ON: Final = late(r" +[A-Za-z(]")
_KINDS: Final = tuple(late(kind) for kind in ("[a-z]", "[A-Z]", r"\d", r"[\W_]"))
_GENERATED: Final = late(r"[\w+/=.~-]{16,4096}")
_DIGEST: Final = late(r"[0-9a-f]+|[0-9A-F]+")
_DASHED: Final = late(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ALGORITHM: Final = late(r"[A-Za-z]+(?:[_/-][A-Za-z]+)*[_/-]?\d{1,4}(?:[_/-]\w+)?")


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
    if _SHORT_LIVED.match(separator) and not any(char.isdigit() for char in value):
        return True
    if separator[:5].lower() == "token" and spaced and value.isalpha() and value.islower():
        return True
    if _NAMES_ONE.search(value):
        return spaced or after[:1] in (",", ")", ".", ";")
    return "." in value or (spaced and ":" in separator and _GOES_ON.match(after) is not None)


def is_strong(value: str) -> bool:
    """Whether a word in the middle of prose can only be a password: nobody writes such words otherwise."""
    if value.islower() or value.isalpha():
        return False
    mixed = sum(kind.search(value) is not None for kind in _KINDS)
    return mixed >= 3 and _ALGORITHM.fullmatch(value) is None and not stands_in(value)


def is_random(value: str, *, digest: bool = False) -> bool:
    """Whether only a generator writes so: no ids in the form of a UUID, and no digests unless those are wanted."""
    if _GENERATED.fullmatch(value) is None or _DASHED.fullmatch(value):
        return False
    if _DIGEST.fullmatch(value):
        return digest
    if value.count("/") > len(value) // 12 or value.count(".") > 2 or value.count("-") > len(value) // 10:
        return False
    return all(kind.search(value) is not None for kind in _KINDS[:3])


Replacement = str | Callable[[re.Match[str]], str]


class SecretPattern(NamedTuple):
    """`needles` are cheap and lower case; only where one occurs is the pattern tried."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: Replacement


def _rule(needles: str, pattern: str, replacement: Replacement) -> SecretPattern:
    return SecretPattern(tuple(needles.split()), late(pattern), replacement)


_EDGE: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"
_UUID: Final = "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"

# Keys of providers that can be told by how they begin: kind, beginnings, pattern.
_PROVIDERS: Final[tuple[tuple[str, str, str], ...]] = (
    ("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{6,}\.(?:[\w-]{6,}|(?=\.[\w-]{10}))(?:\.[\w-]*[\w-]){1,3}"),
    ("aws-key", "akia asia abia", rf"(?:AKIA|ASIA|ABIA)[A-Z0-9]{{16}}{_END}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
     r"(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{22,255})"),
    ("gitlab-token", "glpat- glrt- gldt- glptt- glcbt- glft- glsoat- glimt- glagent- gloas- glffct- gr1348941",
     r"(?:gl(?:pat|rt|dt|ptt|cbt|ft|soat|imt|agent|oas|ffct)-[\w-]{18,255}(?:\.[\w-]{2,40}){0,2}|GR1348941[\w-]{20})"),
    ("slack-token", "xox xapp-", r"(?:xox[abeoprs](?:-|\.xox[a-z]-)[\w.-]{10,255}|xapp-[\w-]{10,255})"),
    ("stripe-key", "sk_ rk_ whsec_",
     rf"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{{10,255}}|whsec_[\w+/=]{{20,255}}|sk_[a-f0-9]{{48}}{_END})"),
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
    ("service-key", "apa91b xkeysib- v1.0- ops_eyj fw_",
     rf"(?:AAAA[\w-]{{7}}:APA91b[\w-]{{100,200}}|xkeysib-[a-f0-9]{{64}}-\w{{16}}"
     rf"|v1\.0-[a-f0-9]{{24}}-[a-f0-9]{{40,200}}|ops_eyJ[\w-]{{60,4096}}|fw_[A-Za-z0-9]{{20,40}}{_END})"),
    ("service-key", "eaa rubygems_ sgp_ figd_ ntn_ oy2 glsa_ nfp_ dt0c01. tskey- sntrya_ cio",
     rf"(?:EAA[A-Za-z0-9]{{40,400}}|rubygems_[a-f0-9]{{48}}|sgp_(?:[a-f0-9]{{16}}_)?[a-f0-9]{{40}}|figd_[\w-]{{30,64}}|ntn_\w{{40,60}}"
     rf"|oy2[a-z0-9]{{43}}|glsa_\w{{32}}_[a-f0-9]{{8}}|nfp_\w{{36,40}}|dt0c01\.[A-Z0-9]{{24}}\.[A-Z0-9]{{64}}"
     rf"|tskey-[a-z]+-[\w-]{{16,80}}|cio[A-Za-z0-9]{{32}}{_END})"),
    ("service-key",
     "hrku- fo1_ fm1 fm2 blob_rw_ rnd_ sb_secret_ napi_ apify_api_ bb_live_ bb_test_ e2b_ nvapi- pul- vck_ vcp_",
     rf"(?:HRKU-[\w-]{{30,64}}|fo1_[\w-]{{43}}|fm[12][ar]?_[A-Za-z0-9+/]{{100,4096}}={{0,2}}|vercel_blob_rw_\w{{30,64}}"
     rf"|vc[kp]_[A-Za-z0-9]{{40,64}}|rnd_[A-Za-z0-9]{{26,40}}{_END}|sb_secret_[\w-]{{20,60}}|napi_[a-z0-9]{{60,70}}"
     rf"|apify_api_\w{{30,50}}|bb_(?:live|test)_[\w-]{{20,40}}|e2b_[a-f0-9]{{40}}|nvapi-[\w-]{{50,80}}|pul-[a-f0-9]{{40}})"),
    ("service-key", "atctt3 atoa 00d figd_ xsmtpsib- re_ eaaa access_token$ access- rzp_ flwseck ezak eztk pat-",
     rf"(?:ATCTT3[\w=-]{{100,300}}|ATOA[A-Za-z0-9]{{50,80}}|00D[A-Za-z0-9]{{12}}![\w.]{{80,120}}|xsmtpsib-[a-f0-9]{{64}}-\w{{16}}"
     rf"|re_[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{24}}{_END}|EAAA[\w-]{{55,80}}|access_token\$[a-z]{{7,10}}\$[a-z0-9]{{16}}\$[a-f0-9]{{32}}"
     rf"|access-(?:sandbox|development|production)-{_UUID}|rzp_(?:live|test)_[A-Za-z0-9]{{14,32}}|EZ[AT]K[A-Za-z0-9]{{54}}"
     rf"|FLWSECK(?:_TEST)?-[a-f0-9]{{32}}-X|pat-[a-z]{{2}}\d-{_UUID})"),
    ("service-key",
     "fc- bsa pcsk_ lin_oauth_ /1 pk_ sl. dg9ro ccipat_ ccipra_ bkua_ bkaj_ sqp_ squ_ sqa_ sdk- api- secret-",
     rf"(?:fc-[a-f0-9]{{32}}{_END}|BSA(?=[\w-]{{0,27}}\d)[\w-]{{27,28}}(?![\w-])|pcsk_\w{{60,80}}|lin_oauth_[a-f0-9]{{64}}"
     rf"|[12]/1\d{{12,18}}(?:/\d{{13,19}})?:[a-f0-9]{{32}}|pk_\d{{5,10}}_[A-Z0-9]{{32}}|sl\.(?:u\.)?[A-Za-z][\w-]{{100,2000}}"
     rf"|dG9rO[A-Za-z0-9+/]{{50,60}}={{0,2}}|CCIP(?:AT|RA)_[A-Za-z0-9]{{20,24}}_[a-f0-9]{{40}}|bk(?:ua|aj)_[a-f0-9]{{40}}"
     rf"|sq[pua]_[a-f0-9]{{40}}|(?:sdk|api)-{_UUID}|secret-(?:live|test)-[\w-]{{30,40}}=?)"),
    ("service-key",
     "s. .atlasv1. dp. a3- st. nral nrii- nriq- glc_ eyjrijoi sntryu_ sntrya_ hcaik_ hcxik_ dt0 clojars_",
     rf"(?:s\.(?=[A-Za-z]{{0,23}}\d)(?=[a-z0-9]{{0,23}}[A-Z])[A-Za-z0-9]{{24}}{_END}|[A-Za-z0-9]{{14}}\.atlasv1\.[\w-]{{60,80}}"
     rf"|dp\.(?:scim|audit|st(?:\.\w{{2,35}})?)\.[A-Za-z0-9]{{40,44}}|A3-[A-Z0-9]{{6}}(?:-[A-Z0-9]{{5,11}}){{4,5}}{_END}"
     rf"|st\.[a-f0-9]{{24}}(?:\.[a-f0-9]{{32}}){{2}}|[A-Za-z0-9]{{32,40}}NRAL{_END}|NRI[IQ]-[\w-]{{32}}|glc_[A-Za-z0-9+/]{{32,400}}={{0,2}}"
     rf"|eyJrIjoi[A-Za-z0-9+/]{{60,120}}={{0,2}}|sntry[ua]_[a-f0-9]{{64}}|hc[ax]ik_[a-z0-9]{{56,60}}"
     rf"|dt0[a-z]\d\d\.[A-Z0-9]{{8,24}}\.[A-Z0-9]{{64}}|CLOJARS_[a-f0-9]{{60}})"),
    ("service-key",
     "akcp cmvmdgtu rdme_ cfpat- tfp_ -us oauth: k.eyj aqvn t1. y0_ ltai key0 pa- live_ test_ p8e- _s1 prv xai-",
     rf"(?:AKCp[A-Za-z0-9]{{60,80}}|cmVmdGtu[A-Za-z0-9]{{50,64}}|rdme_[a-z0-9]{{60,72}}|CFPAT-[\w-]{{43}}|tfp_[\w-]{{40,70}}"
     rf"|[a-f0-9]{{32}}-us\d{{1,2}}{_END}|oauth:[a-z0-9]{{30}}{_END}|[st]k\.eyJ[\w-]{{40,200}}\.[\w-]{{20,40}}|AQVN[\w-]{{35,38}}"
     rf"|t1\.[\w-]{{60,255}}\.[\w-]{{80,90}}|y0_[\w-]{{50,70}}|LTAI[A-Za-z0-9]{{16,20}}{_END}|KEY0[A-Z0-9]{{31}}_[A-Za-z0-9]{{22}}"
     rf"|pa-(?=[\w-]{{0,42}}\d)(?=[\w-]{{0,42}}[A-Z])[\w-]{{43}}(?![\w-])|(?:live|test)_[a-f0-9]{{35}}{_END}"
     rf"|(?:live|test)_(?=[A-Za-z]{{0,29}}\d)[A-Za-z0-9]{{30}}{_END}|p8e-[\w-]{{32}}|at_[A-Za-z0-9]{{10}}_s1[A-Za-z0-9]{{50,120}}"
     r"|[xyzt]prv[A-Za-z0-9]{90,112})"),
    ("cloud-key", "q~ azdo azfu +ast +aba +asb +aeh +arm +acr +amc absk goog1e do00 akid %",
     rf"(?:[A-Za-z0-9]{{3}}\dQ~[\w.~-]{{31,34}}|[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{_END}|[\w-]{{44}}AzFu[\w-]{{8}}={{0,2}}"
     rf"|[A-Za-z0-9+/]{{33,76}}\+(?:ASt|ABa|ASb|AEh|ARm|ACR|AMC)[A-Za-z0-9+/]{{5,6}}={{0,2}}|ABSK[A-Za-z0-9+/]{{100,269}}={{0,2}}"
     rf"|GOOG1E[A-Z0-9]{{20,60}}{_END}|DO00[A-Z0-9]{{16}}{_END}|AKID(?=[A-Za-z]{{0,31}}\d)[A-Za-z0-9]{{32}}{_END}"
     r"|A{19,22}[A-Za-z0-9]{8,60}%[0-9A-Fa-f]{2}[A-Za-z0-9%]{30,100})"),
    ("age-key", "age-secret-key-1", r"(?i:AGE-SECRET-KEY-1)[A-Za-z0-9]{50,60}"),
    ("mcpproxy-key", "mcpk_ mcpt_ mcpp_ mcpa_", r"mcp[ktpa]_[\w-]{32,64}"),
)  # fmt: skip

NAMED: Final = (
    r"pass(?:word|wd|wrd|phrase|code|wort)|passord|kennwort|contrase[nñ]a|wachtwoord|l[oö]senord|adgangskode|jelsz[oó]"
    r"|lozinka|salasana|пароль|密码|密碼|パスワード|비밀번호|mot[ _-]?de[ _-]?passe"
    r"|pwd|secret(?:[_-]?key(?:[_-]?base)?)?"
    r"|(?:api|access|account|app|application|auth|consumer|deploy|encryption|functions|hmac|license|master|pre-?shared|private"
    r"|session|shared|signing|signature|subscription)[_-]?key|client-key-data|samlresponse"
    r"|token|x-api-key|(?:set-)?cookie(?=[\"'\\])|(?<=[_-])(?:pass|auth|pw)|(?-i:(?<=[a-z])P(?:ass|w))"
    r"|(?<![A-Za-z])(?:pw|psw|psk|pass|senha|mdp|jwt|otp|ssn)|(?:access|auth(?:orization)?|verification)[_-]?code"
)
"""How a name of a secret ends in a text."""
_VALUE: Final = r"(?:(\\{0,7}[\"'`])((?s:(?!\2).){1,4096})(?=\2)|([^\s\"'`\\,;&<>()\[\]{}]{3,4096}))"


def assigned(found: re.Match[str]) -> str:
    """`name = value` and its like. What is quoted is a literal; the rest can be code, or prose."""
    head, quote, literal, bare = found.groups()
    if found.start() and found.string[found.start() - 1] == ":" and head[-1] == ":":
        return found[0]  # the name of a resource in a cloud
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


def _unless_it_is_left_out(found: re.Match[str]) -> str:
    return found[0] if _STANDS_IN.fullmatch(found[2]) else f"{found[1]}***password***"


def _if_quoted_or_strong(found: re.Match[str]) -> str:
    sure = found[1][-1] in "\"'" or is_strong(found[2])
    return f"{found[1]}***password***" if sure and not stands_in(found[2]) else found[0]


def _if_random(found: re.Match[str]) -> str:
    return f"{found[1]}***secret***" if is_random(found[2], digest=True) else found[0]


def _if_strong(found: re.Match[str]) -> str:
    return f"{found[1]}***password***" if is_strong(found[2]) else found[0]


def _without_values(found: re.Match[str]) -> str:
    """The cookies of a header line: their names stay, and so do the attributes of one that is set."""
    return re.sub(
        r"(?i)((?:^|[;:])\s*(?!domain|path|expires|max-age|samesite)[^=;\s]+=)(?!\*\*\*)[^;\s]{6,}",
        r"\1***cookie***",
        found[0],
    )


ASSIGNED: Final = late(rf"(?i:((?:{NAMED})(?:[\"'\\\]]{{0,8}}\s{{0,4}}(?::=|=>|：|[:=](?!=))\s{{0,4}}))){_VALUE}")
_KEYS: Final = (
    "api access account app application auth consumer deploy encryption functions hmac license master preshared"
    " pre-shared pre_shared private session shared signing signature subscription"
)
NAMES_BEGIN: Final = late(
    r"pass|kennwort|pwd|pw|ps[wk]|secret|access[_-]?code|auth|token|x-api|set-cookie|cookie|contrase"
    r"|wachtwoord|l[oö]senord|adgang|jelsz|lozinka|salasana|пароль|密|パス|비밀|mot[ _-]?de|senha|mdp|jwt|otp|ssn"
    r"|verification|client-key|samlresponse|" + "|".join(f"{word}[_-]?key" for word in _KEYS.split())
)
"""Where a name of a secret can begin in a text of small letters. Each begins with a letter of its own, which makes the
search quick."""
# In this order, and the shapes before the rest, so that what has a name of its own keeps it.
SHAPED: Final = (
    _rule("---begin", r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20})-----(?s:.*?)(?:-----END \1-----|\Z)",
          "***private-key***"),
    _rule("---- begin", r"---- BEGIN (SSH2 [A-Z0-9 ]{0,40}PRIVATE KEY) ----(?s:.*?)(?:---- END \1 ----|\Z)",
          "***private-key***"),
    _rule("private-lines", r"(Private-Lines: \d{1,3}\r?\n)(?:[A-Za-z0-9+/=]{1,80}(?:\r?\n|\Z)){1,100}",
          "\\1***private-key***\n"),
    *(_rule(beginnings, _EDGE + pattern, f"***{kind}***") for kind, beginnings, pattern in _PROVIDERS),
    _rule(":aa", r"(?<!\d)\d{8,10}:AA[\w-]{33}", "***telegram-token***"),
    _rule("pat", r"pat(?<![A-Za-z0-9]pat)[A-Za-z0-9]{14}\.[a-f0-9]{64}", "***service-key***"),
    _rule("sk", rf"SK(?<![A-Za-z0-9]SK)[a-f0-9]{{32}}{_END}", "***service-key***"),
    _rule("bot ", r"(\bBot\s{1,4})[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,45}", r"\1***bot-token***"),
    _rule("hooks.slack discord outlook.office webhook.office hooks.zapier",
          r"((?:hooks\.slack\.com/(?:services|workflows|triggers)|hooks\.zapier\.com/hooks/catch/\d{3,12}"
          r"|webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook(?:b2)?|discord(?:app)?\.com/api/webhooks/\d{5,25})/)[\w/@-]{7,255}",
          r"\1***webhook***"),
    # Any other provider's: a short word, and behind it what only a generator writes.
    _rule("_ -", _EDGE + r"(?!sha\d)([a-z][a-z0-9]{1,11}(?:[_-][a-z0-9]{1,10}){0,3}[_-])(?=[A-Za-z0-9]{0,200}[a-z])"
          r"(?=[A-Za-z0-9]{0,200}[A-Z])(?=[A-Za-z0-9]{0,200}\d)[A-Za-z0-9]{32,255}(?:_[A-Za-z0-9]{4,16})?" + _END,
          "***api-key***"),
)  # fmt: skip
RULES: Final = (
    _rule("://", r"(://[^\s/?#:@\"'<>]{0,256}:)([^\s/?#\"'<>]{1,1024})(?=@)", _unless_it_is_left_out),
    _rule("://", r"(://)(?=[\w-]{0,256}\d)[\w-]{20,256}@", r"\1***token***@"),
    # A word is no token: it has a digit in it or is long.
    _rule("bearer", r"(?i:\b(bearer)\s{1,4})(?=[\w+/=.~-]*\d|[\w+/=.~-]{24})[\w+/=.~-]{8,4096}", r"\1 ***bearer***"),
    _rule("basic", r"\b([Bb]asic|BASIC)\s{1,4}(?=[\w+/]*[\d=]|[\w+/]*[a-z][A-Z][\w+/]*[a-z][A-Z])"
          r"[A-Za-z0-9+/]{8,4096}={0,2}(?![\w+/=])", r"\1 ***basic***"),
    _rule("authorization", r"([Aa](?i:uthorization[\"'\\]{0,8}\s{0,4}[:=]\s{0,4}[\"'\\]{0,8}"
          r"(?:(?:bearer|basic|digest|token|negotiate|apikey|ssws)\s{1,4}"
          r"|[a-z][\w-]{1,30}\s{1,4}(?=[^\s\"']{0,64}\d|[^\s\"']{20}|\*{3})(?=[^\s\"']{8}))?))"
          r"(?!(?i:bearer|basic|digest|token|negotiate)\b)([^\s\"'`\\,;<>]{4,4096})",
          _unless_it_stands_in("authorization")),
    _rule("cookie", r"(?im:^[^\n\r:]{0,40}cookie\s{0,4}:[^\n\r]{1,4096})", _without_values),
    _rule("pat= pat: pat\"", r"(?i:([_-]pat[\"']?\s{0,2}[=:]\s{0,2}[\"']?))([\w.-]{20,255})", _if_random),
    _rule("code=", r"((?:^|[?&#\"'\s])code=)([\w.~/%+-]{16,4096})", _if_random),
    _rule("identified", r"(?i:(\bidentified\s{1,4}(?:with\s{1,4}[\"'`\w]{1,64}\s{1,4})?(?:by|using)\s{1,4}"
          r"(?:password\s{1,4})?[\"']?))((?<=[\"'])[^\"']{1,256}|[^\s\"';,]{4,256})", _if_quoted_or_strong),
    _rule("password", r"(?i:(\bpassword\s{1,4}(?:=\s{0,4})?N?\(?'))([^'\n]{1,256})(?=')",
          _unless_it_stands_in("password")),
    _rule("?sig= &sig= key= token= signature= pwd= pass= auth= appid= secret=",
          r"(?i:([?&#](?:sig|key|token|pwd|passwd|pass|auth|appid|secret|x-(?:amz|goog)-signature|signature|x-amz-security-token"
          r"|[a-z]+[_-]?(?:key|token|secret))=))(?!\*\*\*)([^\s&#\"'`\\<>]{6,4096})", _unless_it_stands_in("secret")),
    _rule("curl wget --user", r"((?:\s-u\s?|--user[ =])[\"']?[^\s:\"']{1,100}:)([^\s\"']{3,256})",
          _unless_it_stands_in("password")),
    _rule("add-authtoken", r"(\badd-authtoken\s{1,4})([\w.-]{20,255})", _unless_it_stands_in("token")),
    _rule("login", r"(\blogin\s{1,4})([a-f0-9]{40})\b", _unless_it_stands_in("token")),
    _rule("mnemonic phrase",
          r"(?i:(\b(?:mnemonic|phrase)[\"']?\s{0,2}[:=]\s{0,4}[\"']?))((?:[a-z]{3,8} ){11,23}[a-z]{3,8})\b",
          _unless_it_stands_in("secret")),
    _rule("\"kty", r"(\"(?:d|p|q|dp|dq|qi|k)\\{0,7}\"\s{0,4}:\s{0,4}\\{0,7}\")([\w-]{20,2048})",
          _unless_it_stands_in("private-key")),
    _rule("sshpass", r"(sshpass\s{1,4}-p\s?[\"']?)([^\s\"']{1,256})", _unless_it_stands_in("password")),
    _rule("login", r"(\blogin\b[^\n|;&]{0,200}\s(?:-p|password)\s{1,4}[\"']?)([^\s\"'-][^\s\"']{2,255})",
          _unless_it_stands_in("password")),
    _rule("--pass --pwd token key --secret --client-secret --auth",
          rf"(?i:(--[a-z-]{{0,40}}(?:{NAMED}|auth)\s{{1,4}}[\"']?))(?!-)([^\s\"'`\\]{{3,4096}})",
          _unless_it_stands_in("secret")),
    _rule("<", rf"(?i:(<[\w:.-]{{0,40}}(?:{NAMED})(?:\s[^<>]{{0,200}})?>\s{{0,20}}))([^\s<>*][^<>]{{0,4096}})(?=</)",
          _unless_it_stands_in("secret")),
    _rule("value=",
          rf"(?i:((?:key|name)=[\"'][\w.:-]{{0,60}}(?:{NAMED})[\"']\s{{1,4}}value=[\"']))([^\"'<>]{{1,4096}})",
          _unless_it_stands_in("secret")),
    _rule("pass", r"([Pp](?i:ass(?:word|wd|phrase|code)(?: for [\w.@-]{1,64})?"
          r"(?: (?:is|was|to|now|set|changed)){0,3}:?\s{1,4}[\"'`]?))([^\s\"'`,]{7,128}[^\s\"'`.,;!])", _if_strong),
)  # fmt: skip

CARD_LIKE: Final = late(r"[2-6]\d{3}[ -]?\d{4,6}[ -]?\d{4}")
CARDS: Final = late(
    r"(?<![\w.-])(?:\d{14,16}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ -])\d{6}\2\d{5}|3\d{3}([ -])\d{6}\3\d{4})"
    r"(?![\w-]|\.\d)"
)
ISSUERS: Final = late(
    r"(?:4\d{15}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14})\Z"
)
