"""Settings from `MCPPROXY_*` variables.

Written for pydantic-settings' own extension point instead of using its reader: that one lower-cases the whole
name, and `MCPPROXY_MCPSERVERS__GITHUB__ENV__GITHUB_TOKEN` has to keep the case of the last part; it also
cannot say which variables it did not understand.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from mcpproxy_py.settings.document import Problem, flaws, parse, without_comments
from mcpproxy_py.settings.models import ENV_DELIMITER, ENV_PREFIX, Settings
from mcpproxy_py.settings.tree import fields_by_key, is_model, known_keys, plain, step

Names = tuple[str, ...]
# They choose what is read, so they are no settings themselves.
NOT_SETTINGS: Final = (ENV_PREFIX + "CONFIG",)
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class EnvironmentSource(PydanticBaseSettingsSource):
    """The layer that the environment gives, with the variable each key came from."""

    def __init__(self, environ: Mapping[str, str], settings_cls: type[BaseSettings] = Settings) -> None:
        super().__init__(settings_cls)
        self.layer: dict[str, Any] = {}
        self.variables: dict[Names, str] = {}
        self.warnings: list[str] = []
        self.problems: list[Problem] = []
        for name in sorted(environ):
            if name.upper().startswith(ENV_PREFIX) and name.upper() not in NOT_SETTINGS and environ[name] != "":
                self._read(name, environ[name])

    def _read(self, name: str, text: str) -> None:
        """An empty variable counts as unset: that is how compose files pass on what nobody gave."""
        found = find_setting(name[len(ENV_PREFIX) :].split(ENV_DELIMITER))
        if found is None:
            self.warnings.append(_unknown(name))
            return
        path, annotation = found
        self.variables[path] = name
        value, problems = decode(text, annotation)
        self.problems += [Problem((*path, *problem.path), problem.text) for problem in problems]
        _put(self.layer, path, value)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self.layer.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self.layer


def find_setting(parts: list[str]) -> tuple[Names, Any] | None:
    """Where a variable's parts lead, and the type there. Below a plain mapping the rest is one key, verbatim."""
    path: Names = ()
    at: Any = Settings
    while parts:
        if get_origin(at) is dict and not is_model(step(at, "")):
            key, parts = ENV_DELIMITER.join(parts), []
        else:
            key, parts = _key(at, parts[0]), parts[1:]
        at = step(at, key) if key else None
        if at is None:
            return None
        path = (*path, key)
    return path, at


def _key(at: Any, part: str) -> str:
    if get_origin(at) is dict:
        return part.lower()
    if not is_model(at):
        return ""
    return next((key for key in fields_by_key(at) if key.lower() == part.lower()), "")


def decode(text: str, annotation: Any) -> tuple[Any, list[Problem]]:
    """The value a variable means for a type; text that does not fit is left for validation to report."""
    at = plain(annotation)
    if is_model(at) or get_origin(at) in (dict, tuple):
        return _structure(text, at)
    return _scalar(text, at), list(flaws(text))


def _scalar(text: str, at: Any) -> Any:
    if at is bool:
        return _BOOLEANS.get(text.strip().lower(), text)
    if at in (int, float):
        with suppress(ValueError):
            return at(text)
    return text


def _structure(text: str, at: Any) -> tuple[Any, list[Problem]]:
    """JSON; a list of plain texts may also be written with commas, and one class stands for an override."""
    if get_origin(at) is tuple and not text.lstrip().startswith(("[", "{")):
        takes_texts = not is_model(plain(get_args(at)[0]))
        return ([part.strip() for part in text.split(",") if part.strip()] if takes_texts else text), []
    value, problems = parse(text)
    return without_comments(value), problems


def _put(layer: dict[str, Any], path: Names, value: Any) -> None:
    """Sorted names put `A` before `A__B`, so the parts of a structure land on top of the whole."""
    *parents, last = path
    for key in parents:
        inner = layer.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        layer = inner
    layer[last] = value


def variable_for(key: str) -> str:
    return ENV_PREFIX + key.replace(".", ENV_DELIMITER).upper()


def _unknown(name: str) -> str:
    known = [variable_for(key) for key, _ in known_keys()] + list(NOT_SETTINGS)
    near = get_close_matches(name.upper(), known, n=1, cutoff=0.75)
    return f"{name} is not a setting and was ignored" + (f"; did you mean {near[0]}?" if near else "")
