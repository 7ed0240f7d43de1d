"""Names of tools, as an operator writes them and as a server gives them (GATE-16).

A server chooses the names of its tools, so names are compared in one normal form: NFKC, case folded, without invisible
characters, trimmed. Entries of lists and overrides may be globs: `*`, `?` and `[a-z]` or `[!a-z]`. What only looks like
a name that an operator wrote is not that tool, and nobody could tell: it is refused.

All of it is found out once for each listing or change of the lists. Matching takes at most the length of the name times
that of the entry, and both are bounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.confusables import identical, is_invisible, mixes_scripts, similar

MAX_NAME: Final = 256
FEWEST_LETTERS: Final = 4
"""A glob with fewer would look like half of all names if its 1 could be an l."""
REMEMBERED: Final = 50_000
# Steps that the automaton of a list keeps, at about 300 bytes each.
MAX_STEPS: Final = 4096
EXCLUDED: Final = "the operator's lists exclude it"
TOO_LONG: Final = f"its name is longer than {MAX_NAME} characters"
_CLASS: Final = re.compile(r"\[(!?)(\]?[^\]]*)\]")
_DIGITS: Final = str.maketrans({"1": "l", "|": "l", "I": "l", "0": "o"})


def normal_form(name: str) -> str:
    """Two names with the same one mean the same tool."""
    return _trimmed(_plain(name))


def name_problem(name: str) -> str | None:
    """Why a tool cannot have this name at all."""
    if not 0 < len(name) <= MAX_NAME:
        return TOO_LONG if name else "it has no name"
    return None if name.isprintable() and normal_form(name) else "its name has characters that cannot be shown"


def _trimmed(text: str) -> str:
    return " ".join(text.split())


def _plain(text: str) -> str:
    """All of the normal form but the trimming, for parts of names."""
    if text.isascii() and text.isprintable():
        return text.lower()
    for _ in range(2):  # folding may leave something to compose
        text = unicodedata.normalize("NFKC", text).casefold()
    return "".join(" " if char.isspace() else "" if is_invisible(char) else char for char in text)


# What a name looks like: to be compared with what an entry looks like, each way with its like.


def _by_letters(text: str) -> str:
    return _plain(similar(_shown(text)))


def _by_digits(text: str) -> str:
    return similar(_shown(text)).translate(_DIGITS).casefold()


def _shown(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in unicodedata.normalize("NFKC", text) if not is_invisible(char) or char.isspace())


def entry_for(name: str) -> str:
    """How an entry is written that means this name and no glob; in the file, a key with `//` before it is a comment."""
    text = re.sub(r"[*?\[]", r"[\g<0>]", name)
    return f"[/]{text[1:]}" if text.startswith("//") else text


class ComparedName(NamedTuple):
    """A name with all by which it is compared."""

    name: str
    normal: str
    by_letters: str
    by_digits: str
    by_shape: str
    """For whole names: here `rn` may be an `m`, and an `i` what was meant by `I`."""


@lru_cache(maxsize=4096)
def compared(name: str) -> ComparedName:
    """Of a name that is not too long; each is asked about by every list."""
    digits = _trimmed(_by_digits(name))
    shape = digits.replace("i", "l").replace("rn", "m").replace("vv", "w")
    return ComparedName(name, normal_form(name), _trimmed(_by_letters(name)), digits, shape)


class NamePattern:
    """One entry: a name, or a glob. Raises `ValueError` for a glob that cannot be meant."""

    __slots__ = ("_by_digits", "_by_letters", "_matches", "_shape", "is_glob", "normal", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.normal, self._shape = compared(text).normal, compared(text).by_shape
        parts = _parts(text.strip())
        self.is_glob = any(kind for kind, _ in parts)
        self._matches = _compiled(parts, _plain) if self.is_glob else None
        self._by_letters = _compiled(parts, _by_letters) if self.is_glob else None
        enough = sum(char.isalpha() for kind, chars in parts if not kind for char in chars) >= FEWEST_LETTERS
        self._by_digits = _compiled(parts, _by_digits) if self.is_glob and enough else None

    def matches(self, normal: str) -> bool:
        """Whether it means a name with this normal form. A tool may also be called like a glob."""
        return normal == self.normal or (self._matches is not None and self._matches.match(normal) is not None)

    def resembles(self, name: ComparedName) -> bool:
        """Whether this name looks like one that it means."""
        if self._by_letters is None:
            return name.by_shape == self._shape
        if self._by_letters.match(name.by_letters):
            return True
        return self._by_digits is not None and self._by_digits.match(name.by_digits) is not None

    def covers(self, other: NamePattern) -> bool:
        """Whether it surely means every name that the other means."""
        if self.normal == other.normal:
            return True
        if self._matches is None or not self.matches(other.normal):
            return False
        return not other.is_glob or self._matches.match(_as_name(other.text)) is not None


def own_entry(name: str, entries: Iterable[str]) -> str | None:
    """Of the entries the one that means just this name, in whatever spelling."""
    entry, normal = entry_for(name), normal_form(name)
    same = [
        each for each in entries if each == entry or (normal_form(each) == normal and not NamePattern(each).is_glob)
    ]
    return entry if entry in same else same[0] if same else None


Part = tuple[str, str]
"""Kind and text: a kind of "" is text as it stands, the others are those of globs."""
_MANY: Final = "\ue000"
_ONE: Final = "\ue001"
"""Stand for `*` and for a single character in a glob that is held against another; no normal form has them."""


def _parts(text: str) -> list[Part]:
    """A bracket that is never closed stands for itself."""
    parts: list[Part] = []
    at = 0
    while at < len(text):
        char = text[at]
        found = _CLASS.match(text, at) if char == "[" else None
        if char in "*?":
            parts.append((char, char))
        elif found is not None and found[2]:
            parts.append(("[", found[0]))
            at = found.end() - 1
        elif parts and parts[-1][0] == "":
            parts[-1] = ("", parts[-1][1] + char)
        else:
            parts.append(("", char))
        at += 1
    return parts


def _compiled(parts: Iterable[Part], way: Callable[[str], str]) -> re.Pattern[str]:
    """Each piece behind a `*` is looked for once, at its first place: no name makes it try them all."""
    pieces = [""]
    for kind, text in parts:
        if kind == "*":
            pieces.append("")
        else:
            pieces[-1] += "".join(_expected(kind, text, way))
    first, *rest = pieces
    if not rest:
        return re.compile(rf"{first}\Z", re.DOTALL)
    *middle, last = rest
    return re.compile(rf"{first}{''.join(f'(?>.*?{piece})' for piece in middle if piece)}.*{last}\Z", re.DOTALL)


def _expected(kind: str, text: str, way: Callable[[str], str]) -> list[str]:
    """What this part of a glob expects, character by character, as regular expressions."""
    if kind:
        return [f"[^{_MANY}]" if kind == "?" else _class(text, way)]
    return [re.escape(char) for char in way(text)]


def _class(text: str, way: Callable[[str], str]) -> str:
    found = _CLASS.fullmatch(text)
    assert found is not None
    negated, chars = found[1], found[2]
    members: list[str] = []
    at = 0
    while at < len(chars):
        if chars[at + 1 : at + 2] == "-" and at + 2 < len(chars):
            low, high = _plain(chars[at]), _plain(chars[at + 2])
            if len(low) != 1 or len(high) != 1 or low > high:
                raise ValueError(f"a glob whose ranges go from low to high; {quoted(text)} does not")
            if high.isascii():
                members += [re.escape(way(chr(code))) for code in range(ord(low), ord(high) + 1)]
            else:
                members.append(f"{re.escape(low)}-{re.escape(high)}")
            at += 3
        else:
            members.append("".join(re.escape(char) for char in way(chars[at])))
            at += 1
    inside = "".join(members)
    return f"[^{inside}{_MANY}{_ONE}]" if negated else f"[{inside}]"


def _as_name(glob: str) -> str:
    """A glob as a name that stands for all that it means."""
    parts = _parts(glob.strip())
    return "".join(_plain(text) if not kind else _MANY if kind == "*" else _ONE for kind, text in parts)


class GlobAutomaton:
    """All globs of a list in one: matching takes the length of the name, however many globs there are.

    A place is a character that some glob expects, or the end of a glob. A state has a bit for each place that a name
    has reached, under "", and the states that follow, by character. A step to the next one is a few operations on whole
    numbers, which no combination of globs and names makes expensive, and is kept: names that begin like earlier ones
    take the steps of these.
    """

    def __init__(self, globs: Iterable[NamePattern]) -> None:
        self._repeats = self._ends = 0
        expected: dict[str, int] = {}
        place = 1
        for glob in globs:
            for kind, text in _parts(glob.text.strip()):
                if kind == "*":
                    self._repeats |= place
                    continue
                for char in _expected(kind, text, _plain):
                    expected[char] = expected.get(char, 0) | place
                    place <<= 1
            self._ends |= place
            place <<= 1
        self._expected = [(re.compile(char, re.DOTALL), places) for char, places in expected.items()]
        self._forget()

    def _forget(self) -> None:
        self._kept = 0
        self._accepting: dict[str, int] = {}
        self._states: dict[int, dict[str, Any]] = {}
        self._first: dict[str, Any] = {"": self._ends << 1 | 1}

    def matches(self, normal: str) -> bool:
        state = self._first
        for char in normal:
            state = state.get(char) or self._step(state, char)
        return state[""] & self._ends != 0

    def _step(self, state: dict[str, Any], char: str) -> dict[str, Any]:
        if self._kept >= MAX_STEPS:
            self._forget()
        self._kept += 1
        if (accepting := self._accepting.get(char)) is None:
            accepting = self._accepting[char] = sum(each for known, each in self._expected if known.match(char))
        reached = (state[""] & accepting) << 1 | state[""] & self._repeats
        reached = reached & self._repeats & self._ends or reached  # a glob that matches whatever follows decides
        following = state[char] = self._states.setdefault(reached, {"": reached})
        return following


class NameSet:
    """The entries of one list, or the names of overrides."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.entries: Sequence[NamePattern] = [NamePattern(text) for text in entries]
        self._named: dict[str, list[NamePattern]] = {}
        self._globs = [entry for entry in self.entries if entry.is_glob]
        self._automaton = GlobAutomaton(self._globs)
        self._shapes: dict[str, NamePattern] = {}
        for entry in self.entries:
            self._named.setdefault(entry.normal, []).append(entry)
            if not entry.is_glob:
                self._shapes.setdefault(compared(entry.text).by_shape, entry)

    def names(self, normal: str) -> bool:
        """Whether an entry is this name itself."""
        return normal in self._named

    def closest(self, name: str) -> list[str]:
        """The entries that decide about this name: the one that is spelled so, or else those that are this name in
        another spelling, or else all globs that match it."""
        normal = compared(name).normal
        named = self._named.get(normal, ())
        spelled = [entry.text for entry in named if entry.text == name]
        found = spelled or [entry.text for entry in named]
        return found or [entry.text for entry in self._globs if entry.matches(normal)]

    def matches(self, normal: str) -> bool:
        return normal in self._named or self._automaton.matches(normal)

    def resembled(self, name: ComparedName) -> NamePattern | None:
        """The entry that this name looks like, and does not match. Asked of names that are none of the entries."""
        return self._shapes.get(name.by_shape) or next(
            (each for each in self._globs if each.resembles(name) and not each.matches(name.normal)), None
        )

    def unmatched(self, normals: Sequence[str]) -> Iterator[str]:
        """Entries that mean none of these names."""
        there = set(normals)
        for entry in self.entries:
            if entry.normal not in there and not (entry.is_glob and any(map(entry.matches, normals))):
                yield entry.text


class ToolLists:
    """`allow_tools` and `deny_tools` of one server. What they say of a name is kept, also by the thread that makes
    tools of a listing."""

    def __init__(self, allow: Sequence[str] | None, deny: Sequence[str]) -> None:
        self.allow = None if allow is None else NameSet(allow)
        self.deny = NameSet(deny)
        self._any = allow is not None or bool(deny)
        self._known: dict[str, str | None] = {}

    def forbids(self, name: str) -> str | None:
        """Why nobody may call what has this name; `None` where they may."""
        if not self._any:
            return None
        known = self._known
        if (found := known.get(name, "")) == "":
            found = self.judged(name)
            if len(known) >= REMEMBERED:
                known.clear()
            known[name] = found
        return found

    def judged(self, name: str) -> str | None:
        """The same, and not kept: of names that a client sends."""
        if not self._any:
            return None
        if len(name) > MAX_NAME:
            return TOO_LONG
        each, allow, deny = compared(name), self.allow, self.deny
        if deny.matches(each.normal):
            return EXCLUDED
        if allow is not None and allow.names(each.normal):
            return None
        if like := deny.resembled(each):
            return looks_like(like, "deny_tools")
        if allow is not None and (like := allow.resembled(each)):
            return looks_like(like, "allow_tools")
        if allow is not None and not allow.matches(each.normal):
            return EXCLUDED
        return mixed("deny_tools") if deny.entries and mixes_scripts(name) else None


name_set: Final = lru_cache(maxsize=256)(NameSet)
"""One for all tokens and servers of which a scope says the same."""


@lru_cache(maxsize=1024)
def tool_lists(allow: tuple[str, ...] | None, deny: tuple[str, ...]) -> ToolLists:
    """One for all snapshots between two changes of the lists."""
    return ToolLists(allow, deny)


def looks_like(entry: NamePattern, key: str) -> str:
    return f"its name looks like '{quoted(entry.text)}', which the operator has under {key}, and is another name"


def mixed(key: str) -> str:
    return f"its name mixes letters of several scripts, so nobody can tell whether the operator has it under {key}"


def in_both(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Entries that mean nothing that one of these lists does not mean."""
    left, right = NameSet(one).entries, NameSet(other).entries
    return tuple(
        dict.fromkeys(
            entry.text
            for entries, against in ((left, right), (right, left))
            for entry in entries
            if any(each.covers(entry) for each in against)
        )
    )


def ambiguous(names: Iterable[str], written: Iterable[str]) -> Mapping[str, str]:
    """Of the names of one server those that could be taken for one another, and why. `written` are entries that let
    something be called or class it: of names that differ in spelling only, none but those that are written so may go.
    """
    by_look: dict[str, list[str]] = {}
    by_normal: dict[str, list[str]] = {}
    for name in names:
        by_look.setdefault(identical(_trimmed(_shown(name))), []).append(name)
        by_normal.setdefault(compared(name).normal, []).append(name)
    spelled = set(written)
    refused = {
        name: "another tool has the same name in another spelling, and the operator's configuration names one of them"
        for normal in {normal_form(entry) for entry in spelled}
        for name in by_normal.get(normal, ())
        if len(by_normal[normal]) > 1 and name not in spelled
    }
    for same in by_look.values():
        if len(same) > 1:
            refused |= dict.fromkeys(same, "another tool of this server has a name that looks the same")
    return refused
