"""Secrets on command lines: behind an option of a program, piped into one, set by a shell or a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.record.secret_patterns import NAMED, stands_in

_SHOWN: Final = "***secret***"
_WORD: Final = r"(\"[^\"\n]{1,512}\"|'[^'\n]{1,512}'|[^\s\"']{1,512})"
Keeps = Callable[[str], bool]


def _never(value: str) -> bool:
    return False


# Programs, the pattern of their secret among their options, and what is kept.
_COMMANDS: Final[tuple[tuple[str, str, Keeps], ...]] = (
    ("mysql mysqldump mysqladmin mysqlimport mysqlsh mariadb mariadb-dump", r"(\s-p)" + _WORD, _never),
    ("redis-cli valkey-cli", r"(\s-a\s{1,4})" + _WORD, _never),
    ("mongo mongosh mongodump mongorestore mongoexport mongoimport influx", r"(\s-p\s{1,4})" + _WORD, str.isdigit),
    ("sqlcmd bcp osql isql tsql mosquitto_pub mosquitto_sub ipmitool zip unzip", r"(\s-P\s{0,4})" + _WORD, str.isdigit),
    ("7z 7za rar unrar", r"(\s-p)" + _WORD, str.islower),
    ("openssl", r"(\s-(?:k|K|pass|passin|passout)\s{1,4}(?:pass:)?)" + _WORD, lambda value: ":" in value),
    ("curl", r"(\s(?:-u|-U|--user|--proxy-user)[\s=]{0,4}[\"']?[^\s:\"']{1,100}:)([^\s\"']{1,256})", stands_in),
    ("curl", r"(\s(?:-b|--cookie)[\s=]{0,4}[\"']?[\w.-]{1,64}=)([^\s\"';]{6,4096})", stands_in),
    ("http https xh", r"(\s(?:-a|--auth)[\s=]{0,4}[\"']?[^\s:\"']{1,100}:)([^\s\"']{1,256})", stands_in),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldappasswd", r"(\s-w\s{0,4})" + _WORD, _never),
    ("smbclient smbget rpcclient", r"(\s-U\s{0,4}[\"']?[^\s%\"']{1,100}%)([^\s\"']{1,256})", _never),
    ("keytool jarsigner", r"(\s-(?:store|key|src|dest)(?:store)?pass\s{1,4})" + _WORD, _never),
    ("xfreerdp rdesktop mstsc", r"(\s/p:|\s-p\s{1,4})" + _WORD, _never),
    ("net", r"(\suse\s{1,4}\S{1,64}\s{1,4}\S{1,256}\s{1,4})" + _WORD + r"(?=\s{1,4}/user)", _never),
    ("ssh-keygen", r"(\s-[NP]\s{1,4})" + _WORD, _never),
    ("lftp", r"(\s-u\s{1,4}[^\s,]{1,100},)" + _WORD, _never),
    (
        "mc",
        r"(\s(?:alias|config host)\s{1,4}(?:set|add)\s{1,4}\S{1,64}\s{1,4}\S{1,256}\s{1,4}\S{1,128}\s{1,4})" + _WORD,
        _never,
    ),
    ("wpa_passphrase", r"(\s\S{1,64}\s{1,4})" + _WORD, _never),
    ("oathtool", r"(\s(?:-b|--base32|--totp|--hotp)\s{1,4})([A-Za-z2-7=]{8,512})", _never),
    ("htpasswd", r"(\s-[a-zA-Z]*b[a-zA-Z]*\s{1,4}\S{1,256}\s{1,4}\S{1,100}\s{1,4})" + _WORD, _never),
    ("sqlplus impdp expdp rman", r"(\s[\w$#]{1,64}/)([^\s@/]{1,256})", _never),
    ("rabbitmqctl", r"(\s(?:add_user|change_password|authenticate_user)\s{1,4}\S{1,100}\s{1,4})" + _WORD, _never),
    ("setx", r"(\s[\w-]{0,60}(?i:key|token|secret|pass|password|pwd)\s{1,4})" + _WORD, stands_in),
    ("docker podman az oc helm nerdctl", r"(\slogin\s[^\n]{0,200}?\s-p\s{1,4})" + _WORD, stands_in),
)
_PROGRAMS: Final = {
    name: [(late(found), keeps) for names, found, keeps in _COMMANDS if name in names.split()]
    for name in {name for names, *_ in _COMMANDS for name in names.split()}
}
_WRAPPERS: Final = frozenset({"docker", "podman", "nerdctl", "helm", "az", "oc"})


def _command(programs: Iterable[str]) -> re.Pattern[str]:
    names = "|".join(sorted(map(re.escape, programs), key=len, reverse=True))
    return late(rf"({names})(?:\.exe)?(?=\s)[^\n|;&]{{0,4096}}")


_IN_A_WORD: Final = late(r"[\w.-]")
_COMMAND: Final = _command(_PROGRAMS)
_WRAPPED: Final = _command(_PROGRAMS.keys() - _WRAPPERS)
_PIPED: Final = late(
    r"(\becho\s{1,4}(?:-n\s{1,4})?)"
    + _WORD
    + r"(?=\s{0,4}\|\s{0,4}[^\n|]{0,100}(?:sudo\s-S|--password-stdin|--with-token|"
    r"--stdin|chpasswd))"
)
_SHELL: Final = late(
    rf"(?i:((?:#define|\bset -x|\bset -gx|\bENV|\bARG)\s{{1,4}}[\w-]{{0,60}}(?:{NAMED})\s{{1,4}}))" + _WORD
)
_DIRECTIVE: Final = late(
    r"(?m:^(\s{0,40}(?:requirepass|masterauth|snmp-server community|enable (?:secret|password)(?: \d)?"
    r"|username \S{1,64} (?:password|secret)(?: \d)?)\s{1,4}))" + _WORD
)


def without_commands(text: str) -> str:
    text = _COMMAND.sub(_without_options, text)
    return _PIPED.sub(lambda found: f"{found[1]}{_within(found[2])}", text) if "|" in text else text


def without_settings(text: str, lowered: str) -> str:
    if any(needle in lowered for needle in ("#define", "set -", "env ", "arg ")):
        text = _SHELL.sub(lambda found: _masked(found, _never), text)
    if any(needle in lowered for needle in ("requirepass", "masterauth", "snmp-server", "enable ", "username ")):
        text = _DIRECTIVE.sub(lambda found: _masked(found, _never), text)
    return text


def _without_options(command: re.Match[str]) -> str:
    """What a wrapper runs is a command of its own."""
    program, line = command[1], command[0]
    part_of_a_word = _IN_A_WORD.match(command.string, max(0, command.start() - 1)) is not None and command.start() > 0
    if not part_of_a_word:
        for pattern, keeps in _PROGRAMS[program]:
            line = pattern.sub(lambda found, keeps=keeps: _masked(found, keeps), line)
    goes_on = (part_of_a_word or program in _WRAPPERS) and command.re.pattern == _COMMAND.pattern
    return program + _WRAPPED.sub(_without_options, line[len(program) :]) if goes_on else line


def _masked(found: re.Match[str], keeps: Keeps) -> str:
    value = _bare(found[2])
    return found[0] if "***" in value or stands_in(value) or keeps(value) else f"{found[1]}{_within(found[2])}"


def _within(word: str) -> str:
    """The quotes of a word stay."""
    quote = word[:1] if word[:1] in ("'", '"') and len(word) > 1 else ""
    return f"{quote}{_SHOWN}{quote}"


def _bare(word: str) -> str:
    return word[1:-1] if word[:1] in "\"'" and len(word) > 1 else word
