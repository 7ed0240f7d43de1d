"""Text as rules read it: tricks of writing undone, so that a rule needs one way to write a word."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from mcpproxy_py.core.policy.confusables import identical

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_SPACE: Final = re.compile(r"\s+")
_SPACED_LETTERS: Final = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·]{1,2}){6,40}[^\W_](?!\w)")
_SPELLED_OUT: Final = re.compile(r"(?<![^\W\d_])(?:[^\W\d_][ .\-_*·]{1,2}){16}(?=[^\W\d_](?![^\W\d_]))")
_DIGITS_IN_WORDS: Final = re.compile(r"\b(?=\w{0,30}[a-z])(?=\w{0,30}[013457$@])[a-z013457$@]{3,30}\b")
_AS_LETTERS: Final = str.maketrans("013457$@", "oieastsa")
_MIXED: Final = re.compile(r"(?<!\w)\w*?(?:[a-z][\u0370-\u052f\u0530-\u058f]|[\u0370-\u052f\u0530-\u058f][a-z])\w*")
_NAME_PARTS: Final = re.compile(r"[_\-./:]+|(?<=[a-z0-9])(?=[A-Z])")
_QUOTE: Final = "|".join((
    r"\"[^\"]{3,200}\"", r"“[^”]{3,200}”", r"«[^»]{3,200}»", r"(?<!\w)'(?:[^']|(?<=\w)'(?=\w)){3,200}'(?!\w)",
    r"‘[^’]{3,200}’(?!\w)", r"`[^`]{3,200}`", r"<!--[^>]{3,200}-->",
))  # fmt: skip
_QUOTED: Final = re.compile(
    r"((?:\b(?:(?:like|such as|for example|for instance|including|includes?|phrases?|sentences?|strings?|patterns?|"
    r"says?|"
    r"saying|questions?|posts?|quotes?|examples?|titled|called|labels?|becomes|why|contains?|cases?|checks? (?:that|if|"
    r"whether)|(?:tries|try|trying|attempts?|asks?|asking|wants?|means?|told) to)\b|e\.g\.)[^.!?\"'“«‘`]{0,60}|\()\s?)"
    rf"((?:{_QUOTE})(?:(?:,? (?:or|and)|,) (?:{_QUOTE})){{0,8}})"
)
"""A quotation after words that introduce one: group 1 is the introduction."""
_IN_SENTENCE: Final = r"(?:[^.!?]|\.(?=\w))"
_DESCRIBED: Final = re.compile(
    r"((?:(?:^|[.!?:] )(?:this tool |it )?(?:detects|scans|flags|finds|blocks|checks|classifies|rates|audits|"
    r"identifies|reports|"
    r"warns|matches|recogni[sz]es|analy[sz]es|refuses|rejects|catches)\b[^.!?]{0,120}?\b(?:that|if|whether|when|who|"
    r"which|for|as|"
    r"attempts?|instructions?|processes)|\band (?:warns|reports|says|checks|alerts|flags) (?:if|when|whether)|"
    r"\bto (?:find|detect|flag|spot|catch|block|identify) [^.!?]{0,40}?\b(?:that|which|who)|"
    r"\b(?:jailbreaks?|attacks?|attackers?|adversar(?:y|ies)|malware|phishing|injections?|threat actors?|senders|"
    r"scammers?|"
    r"hackers?|third parties|malicious (?:\w+ ){0,2}\w+)\b[^.!?]{0,20}? (?:may|might|could|can|tr(?:y|ies)|attempts?|"
    r"asks?|"
    r"urges?|wants?|would|orders?|tells?)|\btypical signs?:)(?!\w))"
    rf"(?!{_IN_SENTENCE}{{0,200}}(?:https?://|\byou must\b|\band (?:sends?|posts?|uploads?|transmits?|forwards?)\b|"
    rf"\bto (?:us|our|"
    rf"me)\b))({_IN_SENTENCE}{{1,300}})"
)
"""What a tool looks for in texts, or what attackers do: group 1 is the introduction."""
FEWEST_DISGUISED: Final = 3
"""Words with digits in place of letters; ids and versions have a few."""


def plain_text(text: str) -> str:
    """Lower case, NFKC, nothing invisible, one space for each run of white space."""
    if not text.isascii():
        whole = unicodedata.normalize("NFKC", text)  # of one character it may make eighteen
        text = _INVISIBLE.sub("", whole[: 3 * len(text)])
        text = _MIXED.sub(lambda word: identical(word[0]), text.lower())
    return _SPACE.sub(" ", text.lower()).strip()


def plain_name(name: str) -> str:
    """`ignore_allRules` as words."""
    return plain_text(_NAME_PARTS.sub(" ", name))


def without_reports(plain: str) -> str:
    """The text in which all that is only quoted, or said of attackers, is blanked. Its length stays."""
    for pattern in (_QUOTED, _DESCRIBED):
        plain = pattern.sub(lambda found: found[1] + "\0" * len(found[2]), plain)
    return plain


def spelled_out(plain: str) -> re.Match[str] | None:
    """A run of single letters, where words should be."""
    return _SPELLED_OUT.search(plain)


def undisguised(plain: str) -> str | None:
    """The text with s p a c e d letters put together and d1g1ts read as letters; `None` where there are none."""
    found = plain
    if _SPACED_LETTERS.search(plain):
        found = _SPACED_LETTERS.sub(lambda run: re.sub(r"[ .\-_*·]", "", run[0]), found)
    if len(_DIGITS_IN_WORDS.findall(found)) >= FEWEST_DISGUISED:
        found = _DIGITS_IN_WORDS.sub(lambda word: word[0].translate(_AS_LETTERS), found)
    return found if found != plain else None
