"""The variables that clients write into their files, as references of ours. Pure.

`${VAR}`, `${VAR:-x}`, `$VAR`, `${env:VAR}`, `{env:VAR}` and `{file:PATH}` become `${env:VAR}`, `${env:VAR:-x}` and
`${file:PATH}`. What stands for a place of this machine becomes that place. Each client knows some of these and leaves
the others as they are, and so does the translation: text that is no variable there is none here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcpproxy_py.settings.secret_references import KINDS

_NAME: Final = r"[A-Za-z_]\w*"
_BRACED: Final = rf"\$\{{(?P<braced>{_NAME})(?::-(?P<default>[^}}]*))?\}}"
_BARE: Final = rf"\$(?P<bare>{_NAME})"
_EDITOR: Final = r"\$\{(?P<kind>env|input|file|command|config):(?P<named>[^{}]+)\}"
_PLACE: Final = (
    r"\$\{(?P<place>userHome|workspaceFolderBasename|workspaceFolder|workspaceRoot|pathSeparator|/)(?::[^{}]*)?\}"
)
_CURLY: Final = r"\{(?P<curly>env|file):(?P<inside>[^{}]+)\}"
_OURS: Final = re.compile(r"\$\{\w+:[^{}]*\}")

_SYNTAX: Final[Mapping[str, tuple[str, ...]]] = {
    "claude-code": (_BRACED,),
    "gemini-cli": (_BRACED, _BARE),
    "cursor": (_EDITOR, _PLACE),
    "vscode": (_EDITOR, _PLACE),
    "windsurf": (_EDITOR, _PLACE),
    "cline": (_EDITOR, _PLACE),
    "opencode": (_CURLY,),
    "goose": (_BRACED, _BARE),
    "file": (_EDITOR, _PLACE, _BRACED),
}
"""By client. The others put nothing in for a variable."""
_NOTHING: Final = re.compile(r"(?!)")
_PATTERNS: Final = {client: re.compile("|".join(patterns)) for client, patterns in _SYNTAX.items()}


class NotCarriedOver(Exception):
    """Why a server, or a part of it, cannot be taken."""


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A value that a client asks a person for when it starts a server: an input of VS Code, a key that Goose keeps."""

    name: str
    about: str = ""
    secret: bool = True
    default: str | None = None
    choices: tuple[str, ...] = ()
    needed: bool = True
    """Whether there is no other way to get the value."""


@dataclass(frozen=True, slots=True)
class ImportPlace:
    """What a translation may know of the machine: handed in, so that it does nothing but compute."""

    home: str
    environ: Mapping[str, str]
    base: str = ""
    """The directory of the client's file."""
    project: str | None = None
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    read_env_file: Callable[[str], Mapping[str, str]] = lambda path: {}
    """Raises `NotCarriedOver` where the file cannot be read."""


@dataclass(slots=True)
class VariableTranslation:
    """The translation of one server's texts, and what came up in it."""

    client: str
    place: ImportPlace
    inputs: Mapping[str, AskedFor] = field(default_factory=dict[str, AskedFor])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """What a variable stands for where it does not mean the environment: Goose looks into the server's own `envs`."""
    unset: list[str] = field(default_factory=list[str])
    unanswered: list[AskedFor] = field(default_factory=list[AskedFor])
    secrets: set[str] = field(default_factory=set[str])
    notes: list[str] = field(default_factory=list[str])

    def reference(self, text: str) -> str:
        """For a place where references of ours are read."""
        made: list[str] = []

        def put(reference: str) -> str:
            made.append(reference)
            return reference

        done = _pattern(self.client).sub(lambda found: self._value(found, put), text)
        if len(_OURS.findall(done)) != len(made):
            raise NotCarriedOver("it holds text that would be read as a reference of ours, such as ${kind:name}")
        return done

    def value(self, text: str) -> str:
        """For a place where none are read: the value that the variable has now."""
        done = _pattern(self.client).sub(lambda found: self._value(found, self._now), text)
        if done != text:
            self.notes.append("variables in its command or directory were replaced by what they are now")
        return done

    def _now(self, reference: str) -> str:
        kind, _, name = reference[2:-1].partition(":")
        name, has_default, default = name.partition(":-")
        found = self.place.environ.get(name, "") if kind == "env" else ""
        if not found and not has_default:
            raise NotCarriedOver(f"its command or directory needs {kind} {name}, which has no value here")
        return found or default

    def _value(self, found: re.Match[str], put: Callable[[str], str]) -> str:
        group = found.groupdict()
        if name := group.get("braced") or group.get("bare"):
            if self.client == "goose":
                own = self.env.get(name, found[0])
                return put(own) if _OURS.fullmatch(own) else own
            return self._variable(name, group.get("default"), put)
        if group.get("curly") == "file":
            return put("${file:" + _path(group["inside"], self.place) + "}")
        if group.get("curly") == "env":
            return self._variable(group["inside"].strip(), None, put)
        if place := group.get("place"):
            return self._place(place)
        return self._editor(group["kind"], group["named"], found[0], put)

    def _variable(self, name: str, default: str | None, put: Callable[[str], str]) -> str:
        if default is not None and "{" in default:
            return self.place.environ.get(name) or default
        if default is None and not self.place.environ.get(name):
            self.unset.append(name)
        return put("${env:" + name + ("" if default is None else f":-{default}") + "}")

    def _place(self, name: str) -> str:
        if name == "userHome":
            return self.place.home
        if name in ("pathSeparator", "/"):
            return "/"
        if self.place.project is None:
            raise NotCarriedOver(f"${{{name}}} stands for a project; say which with --project DIR")
        return self.place.project.rstrip("/").rpartition("/")[2] if "Basename" in name else self.place.project

    def _editor(self, kind: str, name: str, whole: str, put: Callable[[str], str]) -> str:
        if kind == "env":
            return self._variable(name, None, put)
        if kind == "file" and self.client == "windsurf":
            return put("${file:" + _path(name, self.place) + "}")
        if kind == "input":
            return self.ask(self.inputs.get(name, AskedFor(name)))
        if kind == "file":
            return put(whole)  # ours already, in a file that may be one of ours
        raise NotCarriedOver(f"{whole} stands for something that only {self.client} knows")

    def ask(self, asked: AskedFor) -> str:
        """The answer of a person, or what stands in for it until there is one."""
        answer = self.place.answers.get(asked.name)
        if answer is None:
            self.unanswered.append(asked)
            return ""
        if asked.secret and answer:
            self.secrets.add(answer)
        return answer


def _pattern(client: str) -> re.Pattern[str]:
    return _PATTERNS.get(client, _NOTHING)


def _path(text: str, place: ImportPlace) -> str:
    text = text.strip()
    if text.startswith("~/"):
        return f"{place.home}{text[1:]}"
    return text if text.startswith("/") or not place.base else f"{place.base}/{text.removeprefix('./')}"


def inputs_of(document: Any) -> dict[str, AskedFor]:
    """The `inputs` of a VS Code file, by id. What has no proper shape is left out."""
    listed = document.get("inputs") if isinstance(document, Mapping) else None
    found: dict[str, AskedFor] = {}
    for item in _mappings(listed):
        name, default = item.get("id"), item.get("default")
        if isinstance(name, str):
            options = item.get("options")
            choices = tuple(each for each in options if isinstance(each, str)) if isinstance(options, list) else ()
            found[name] = AskedFor(
                name,
                str(item.get("description") or ""),
                item.get("password") is True,
                default if isinstance(default, str) else None,
                choices,
            )
    return found


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def references_in(text: str) -> list[str]:
    """The names of the variables that references of ours in this text need and have no default for."""
    found = (match[0][2:-1].partition(":") for match in _OURS.finditer(text))
    return [name for kind, _, name in found if kind == KINDS[0] and ":-" not in name]
