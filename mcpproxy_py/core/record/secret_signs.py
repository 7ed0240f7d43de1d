"""Patterns that find in the JSON text of a value everything that masking could find in the value, and little more.

They are written for engines that look at each character once, so they say only what those have: no looking around,
no references. They may find too much, which costs a closer look, and must never find too little. They are asked about
texts as they are and about JSON, in which a line break before a word is the letter n.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

_W: Final = "a-z0-9_"
_SPACE: Final = r"(?:\s|\\[nrt])"
_ESCAPE: Final = r"\\(?:[nrtbf]|u[0-9a-f]{4})"
_CHAR: Final = r"(?:[^\"\\]|\\.)"
_SIGN_EDGE: Final = rf"(?:^|[^{_W}.-]|{_ESCAPE})"
# Names that have to end so, and names that only have to hold it.
_ENDS: Final = (
    rf"(?:[{_W}. -]key|key[ _.-]?base|token|secrets?|credentials?|auth(?:orization)?|cookies?|s[ _.-]?id"
    r"|sess(?:ion)?(?:id)?|pwd|cvv2?|cvc2?|card[ _.-]?number|credit[ _.-]?card|mnemonic|seed[ _.-]?phrase"
    r"|(?:recovery|backup)[ _.-]?codes?|otp|pass|pw|psw|psk|pat|jwt|bearer|ssn|senha|mdp|has[lł]o|heslo|[sş]ifre"
    r"|mot[ _.-]?de[ _.-]?passe|security[ _.-]?answer"
    r"|(?:access|auth(?:orization)?|verification|pin|device|security)[ _.-]?code)"
)
_PARTS: Final = (
    r"(?:pass[ _.-]?(?:word|wd|wrd|phrase|code|wort)|passord|kennwort|contrase[nñ]a|wachtwoord|l[oö]senord|adgangskode"
    r"|jelsz[oó]|lozinka|salasana|пароль|密码|密碼|パスワード|비밀번호)"
)
_NAMES: Final = f"(?:{_ENDS}|{_PARTS})"
_LEAN: Final = (
    r"(?:key|token|secret|credential|auth|cookie|s[_-]?id|sess|pwd|cv[vc]|card|mnemonic|phrase|code|otp|pass|pw|psw|psk|pat"
    r"|jwt|bearer|ssn|senha|mdp|hasl|hasł|heslo|ifre|contrase|kennwort|wachtwoord|senord|adgang|jelsz|lozinka|salasana"
    r"|answer|пароль|密|パス|비밀)"
)
_DOUBTFUL: Final = "(?:pin|seed|pepper|clave|parola|pat)"
_QUOTE: Final = r"\\*[\"']"
_PROGRAMS: Final = (
    r"(?:mysql[a-z]*|mariadb(?:-dump)?|redis-cli|valkey-cli|mongo[a-z]*|influx|sqlcmd|bcp|osql|isql|tsql|mosquitto_[ps]ub|ipmitool"
    r"|curl|unzip|zip|7za?|(?:un)?rar|openssl|https?|xh|ldap[a-z]+|smbclient|smbget|rpcclient|keytool|jarsigner|xfreerdp|rdesktop"
    r"|mstsc|net|ssh-keygen|lftp|mc|wpa_passphrase|oathtool|htpasswd|sqlplus|impdp|expdp|rman|rabbitmqctl|setx|docker|podman|az|oc|helm|nerdctl)"
)

NAMING: Final = (
    "name",
    "key",
    "header",
    "field",
    "label",
    "title",
    "id",
    "type",
    "element",
    "selector",
    "variable",
    "parameter",
)
"""Under these stands the name of what `value` or its like beside them holds: variables, headers, settings, forms."""


def _in_base64(name: str) -> Iterator[str]:
    """The characters that a name gives at each of its three places in base64, whatever stands beside it."""
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + name.encode()).decode()
        whole = (shift + len(name)) // 3 * 4
        yield encoded[(0, 2, 3)[shift] : whole]


BASE64_NAMES: Final = tuple(
    piece
    for name in (
        "password",
        "passwd",
        "secret",
        "token",
        "apiKey",
        "api_key",
        "api-key",
        "private_key",
        "Authorization",
        "Bearer ",
    )
    for piece in _in_base64(name)
    if len(piece) >= 6
)

SHAPES: Final = "(?i)" + "|".join((
    r"hooks\.(?:slack|zapier)\.com/|(?:outlook|webhook)\.office|discord(?:app)?\.com/api/webhooks",
    r"---begin [a-z0-9 ]*private|--- begin ssh2|private-lines",
    r"age-secret-key-1",
    rf"eyj[{_W}-]{{6}}[{_W}-]*\.\.?[{_W}-]{{6}}|(?:akia|asia|abia)[a-z0-9]{{16}}|gh[pousr]_[a-z0-9]{{20}}|github_pat_",
    rf"gl(?:pat|rt|dt|ptt|cbt|ft|soat|imt|agent|oas|ffct)-[{_W}-]{{18}}|gr1348941|xox[a-z][-.]|xapp-|[sr]k_(?:live|test)_|whsec_|sk-[{_W}-]{{16}}",
    rf"aiza[{_W}-]{{35}}|ya29\.|gocspx-|1//0|npm_[a-z0-9]{{36}}|hf_[a-z0-9]{{30}}|pypi-age|dckr_|sg\.[{_W}-]{{16}}",
    rf"do[opr]_v1_|dapi[a-f0-9]{{32}}|hv[sbr]\.[{_W}-]{{20}}|sbp_|pscale_|shp(?:at|ss|ca|pa)_|sq0[a-z]{{3}}-|nrak-|pmak-",
    rf"key-[a-f0-9]{{32}}|sntrys_|atatt3|atbb|dp\.(?:pt|st|ct|sa)\.|lsv2_|mcp[kt]_|[0-9]{{8}}:aa[{_W}-]{{33}}",
    r"eaa[a-z0-9]{40}|rubygems_|sgp_|figd_|ntn_|oy2[a-z0-9]{20}|glsa_|nfp_|dt0c01\.|tskey-|cio[a-z0-9]{32}",
    rf"aaaa[{_W}-]{{7}}:apa91b|pat[a-z0-9]{{14}}\.[a-f0-9]{{64}}|\.[{_W}-]{{6}}\.[{_W}-]{{27}}",
    r"sk[a-f0-9]{32}|xkeysib-|v1\.0-[a-f0-9]{24}-|ops_eyj|fw_[a-z0-9]{20}|[a-z0-9][_-][a-z0-9]{32}",
    r"hrku-|fo1_|fm[12][ar]?_|blob_rw_|rnd_|sb_secret_|napi_|vc[kp]_|apify_api_|bb_(?:live|test)_|e2b_|nvapi-|pul-[a-f0-9]{9}",
    r"atctt3|atoa[a-z0-9]{9}|00d[a-z0-9]{12}!|xsmtpsib-|re_[a-z0-9]{8}_|eaaa|access_token\$|access-[a-z]+-[a-f0-9]{8}-|rzp_",
    r"flwseck|ez[at]k[a-z0-9]{9}|pat-[a-z]{2}[0-9]-|fc-[a-f0-9]{9}|bsa[a-z0-9_-]{9}|pcsk_|lin_oauth_|[12]/1[0-9]{12}|pk_[0-9]{5}",
    r"sl\.[a-z_-]|dg9ro|ccip[ar][at]_|bk[ua][aj]_|sq[pua]_|(?:sdk|api)-[a-f0-9]{8}-|secret-[lt]|s\.[a-z0-9]{24}|\.atlasv1\.",
    r"dp\.(?:scim|audit)\.|a3-[a-z0-9]{6}-|st\.[a-f0-9]{9}|[a-z0-9]nral|nri[iq]-|glc_|eyjrijoi|sntry[ua]_|hc[ax]ik_|dt0[a-z][0-9]",
    r"clojars_|akcp|cmvmdgtu|rdme_|cfpat-|tfp_|[a-f0-9]{9}-us[0-9]|oauth:[a-z0-9]{9}|k\.eyj|aqvn|t1\.[a-z0-9]|y0_|ltai|key0[a-z0-9]{9}",
    r"pa-[a-z0-9_-]{20}|(?:live|test)_[a-z0-9]{30}|p8e-|_s1[a-z0-9]{9}|[xyzt]prv[a-z0-9]{9}|q~|azdo|azfu|\+a(?:st|ba|sb|eh|rm|cr|mc)",
    r"a{19}|absk[a-z0-9+/]{9}|goog1e|do00[a-z0-9]{9}|akid[a-z0-9]{9}|add-authtoken|login [a-f0-9]{9}",
    r"phrase|mnemonic|samlresponse",
    # Commands, what a word tells of, and names inside base64.
    rf"{_SIGN_EDGE}{_PROGRAMS}(?:\.exe)?(?:{_SPACE}|\",)|\|{_SPACE}*sudo|--password-stdin|--with-token|chpasswd",
    r"(?:token|secret|key)s?(?:[ :='`(\\\"]+[a-z]+)*[ :='`(\\\"]+[a-z+/=.~_-]*[0-9]",
    f"(?-i:{'|'.join(BASE64_NAMES)})",
))  # fmt: skip
"""What shows by its own shape. Apart from `SIGNS`, because one automaton for both does not fit into the memory that the
engine allows it, and then it is a hundred times slower."""

SIGNS: Final = "(?i)" + "|".join((
    # A name, and what sets it off from its value.
    rf"{_NAMES}(?:(?:{_ESCAPE}|[^A-Za-z0-9:=>])*[:=>：]|(?:{_ESCAPE}|[^A-Za-z0-9])+value|[\])]*{_QUOTE}\s*[,={{]"
    r"|</|%[0-9a-f]|&gt;|\(| ?(?:\||;|\\[nt]|[\n\t])|\\*[\"'](?:\\[nr]|[\n\r])|,[^ ])",
    rf"{_PARTS}(?:s?{_SPACE}|{_CHAR}*\":)",
    rf"<[{_W}:.-]*{_LEAN}\s",
    rf"\"(?:[{_W}-]*[_-])?{_DOUBTFUL}\":\"|\"code\":\"[{_W}./+~-]{{16}}|kty\\*\":|\"(?:rows|values|data)\":\[\[",
    # Where a name is a value itself, beside its value in a list or an object.
    rf"\"(?:{'|'.join(NAMING)})\":\"{_CHAR}*(?:{_ENDS}(?:{_ESCAPE}|\\\\.|[^A-Za-z0-9\"])*|{_PARTS}{_CHAR}*)\"",
    rf"--?[{_W}-]*{_LEAN}",
    r"\"(?:proxy-)?authorization\"|\"(?:set-)?cookie\"",
    # In prose, headers and commands.
    rf"(?:bearer|basic)(?:{_SPACE}+[{_W}+/=.~-]{{8}}|%20)|credentials?(?:{_SPACE}|:)",
    rf"curl{_SPACE}|wget{_SPACE}|--user[ =]|sshpass{_SPACE}|{_SPACE}-p{_SPACE}|\"-[a-z]*[pawku]\"|\"--user\"",
    r"requirepass|masterauth|snmp-server community|enable (?:secret|password)|securestring|hmac\.new|identified[ \\]",
    r"(?:verification|security|confirmation|one-time|login|auth[a-z]*|otp|2fa|mfa|access)[ -](?:code|pass[a-z]*|pin)",
    r"(?:seed|totp|2fa|mfa|otp)(?:[ :=\n]|\\*[\"n])|cvv|cvc|[^a-z]pin[ :=is]+[0-9]{4}|type=[\\\"']*password",
    r"auth *= *\(",
    r"@(?:tcp|unix)\(|[a-z0-9]:[^ :@/\"]+@[a-z0-9.-]+:[0-9]+/|(?:\t|\\t)(?:true|false)(?:\t|\\t)[0-9]",
    r"jwt\.[a-z]|(?:credentials|login|connection|auth)\(",
    rf"(?:#define|set -g?x|env|arg){_SPACE}+[{_W}-]*{_LEAN}",
    r"\$(?:[156y]|2[abxy]|apr1|argon2id?)\$|:(?:[0-9]{2,5}|\*):[a-z0-9_*-]+:[a-z0-9_*-]+:|jdbc:oracle",
    # Addresses.
    rf"://[^\s/?#\"]+@|[?&#\" ](?:sig|code|pass|appid|auth|[{_W}-]*signature)=|signature=|code%(?:25)?3d|%3a%2f%2f",
    # Card numbers, and numbers so long that not every reader takes them.
    rf"{_SIGN_EDGE}[2-6][0-9]{{3}}[ -]?[0-9]{{4,6}}[ -]?[0-9]{{4}}|[0-9]{{1200}}",
))  # fmt: skip
