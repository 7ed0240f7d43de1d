"""Patterns that find in the JSON text of a value everything that masking could find in the value, and little more.

They are written for engines that look at each character once, so they say only what those have: no looking around,
no references. They may find too much, which costs a closer look, and must never find too little. The text is JSON, so a
line break before a word is the letter n.
"""

from __future__ import annotations

from typing import Final

_W: Final = "a-z0-9_"
_SPACE: Final = r"(?:\s|\\[nrt])"
_ESCAPE: Final = r"\\(?:[nrtbf]|u[0-9a-f]{4})"
_CHAR: Final = r"(?:[^\"\\]|\\.)"
_EDGE: Final = rf"(?:^|[^{_W}.-]|{_ESCAPE})"
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
    rf"://[^\s/?#\"]+@|[?&#](?:sig|code|[{_W}-]*signature)=",
    SHAPES,
    # Card numbers, and numbers so long that not every reader takes them.
    rf"{_EDGE}[2-6][0-9]{{3}}[ -]?[0-9]{{4,6}}[ -]?[0-9]{{4}}|[0-9]{{1200}}",
))  # fmt: skip
