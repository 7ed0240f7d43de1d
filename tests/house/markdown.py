"""What there is to check in a Markdown page: its fenced blocks, its links, its code words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SHELL: Final = ("bash", "sh", "console")
_NOTE: Final = re.compile(r"<!-- (.*?) -->\n+", re.DOTALL)
_FENCE: Final = re.compile(
    rf"((?:^{_NOTE.pattern.replace('(.*?)', '(?:(?!-->).)*')})*)^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_CODE: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Fence:
    """A fenced block. `info` is what stands behind the language: `mcp_config` marks a configuration of ours. `notes`
    are the comments directly before it, which readers do not see."""

    language: str
    info: str
    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    path: Path

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def fences(self) -> list[Fence]:
        return [
            Fence(*_first_word(info), text, tuple(_NOTE.findall(notes)))
            for notes, info, text in _FENCE.findall(self.text)
        ]

    @cached_property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def code(self) -> list[str]:
        """What stands in backticks outside of fenced blocks."""
        return _CODE.findall(self.prose)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(_CODE.sub("code", self.prose))

    @property
    def anchors(self) -> set[str]:
        """The fragments that a link may end in, as GitHub makes them."""
        return {_anchor(heading) for heading in _HEADING.findall(self.prose)}

    def commands(self) -> Iterator[list[str]]:
        """Each simple command of the shell blocks, as words."""
        for fence in self.fences:
            if fence.language in SHELL:
                yield from simple_commands(fence.text)


def _first_word(info: str) -> tuple[str, str]:
    language, _, rest = info.strip().partition(" ")
    return language, rest


def _anchor(heading: str) -> str:
    kept = "".join(char for char in heading.strip().lower() if char.isalnum() or char in " -_")
    return kept.replace(" ", "-")


def simple_commands(script: str) -> Iterator[list[str]]:
    """A script split at newlines, pipes and `&&`. Redirections stay words: nothing here runs."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word and not word.strip("|&;"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def our_arguments(words: list[str]) -> list[str] | None:
    """What `mcpproxy` is given in this command, wherever it stands in it; `None` where it is not run."""
    if words[:2] == ["docker", "exec"]:
        return our_arguments(words[3:])
    if words[0] in ("claude", "codex"):
        return our_arguments(words[words.index("--") + 1 :]) if "--" in words else None
    ours = words[0] == "mcpproxy" or words[0].endswith("/mcpproxy")
    return words[1:] if ours else None


PAGES: Final = [
    Page(path)
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "SECURITY.md",
        *sorted(ROOT.glob("docs/**/*.md")),
    ]
]
