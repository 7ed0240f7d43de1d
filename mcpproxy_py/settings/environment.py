"""Settings from `MCPPROXY_*` variables.

Written for pydantic-settings' own extension point instead of using its reader: that one lower-cases the whole
name, and `MCPPROXY_MCPSERVERS__GITHUB__ENV__GITHUB_TOKEN` has to keep the case of the last part; it also
cannot say which variables it did not understand.

Finding one's way through the models by the keys people write: for variables, for suggestions, for the docs.

Whether traces are wanted, by OpenTelemetry's own variables; its SDK reads the rest of them.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.settings.document import ConfigProblem, flaws, parse, without_comments
from mcpproxy_py.settings.models import ENV_DELIMITER, ENV_PREFIX, Settings


def plain(annotation: Any) -> Any:
    """The type behind `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        some = [arg for arg in get_args(annotation) if arg is not type(None)]
        return plain(some[0]) if len(some) == 1 else annotation
    return annotation


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def written_name(name: str, field: FieldInfo) -> str:
    """The key of a field in the file."""
    return field.serialization_alias or name


def accepted_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    if isinstance(field.validation_alias, AliasChoices):
        return tuple(str(choice) for choice in field.validation_alias.choices)
    return (written_name(name, field),)


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Every key the model accepts."""
    return {key: field for name, field in model.model_fields.items() for key in accepted_names(name, field)}


def step(annotation: Any, key: str | int) -> Any:
    """The type one key further down, or `None` where the models end."""
    at = plain(annotation)
    if is_model(at):
        field = fields_by_key(at).get(str(key))
        return plain(field.annotation) if field else None
    arguments = get_args(at)
    if get_origin(at) is dict:
        return plain(arguments[1])
    return plain(arguments[0]) if get_origin(at) is tuple else None


def type_at(path: tuple[str | int, ...]) -> Any:
    at: Any = Settings
    for key in path:
        at = step(at, key)
    return at


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Each setting as `section.key`; a server's own keys are not among them."""
    for name, field in model.model_fields.items():
        at = plain(field.annotation)
        key = prefix + written_name(name, field)
        if is_model(at):
            yield from known_keys(at, key + ".")
        else:
            yield key, field


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
        self.problems: list[ConfigProblem] = []
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
        self.problems += [ConfigProblem((*path, *problem.path), problem.text) for problem in problems]
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


def decode(text: str, annotation: Any) -> tuple[Any, list[ConfigProblem]]:
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


def _structure(text: str, at: Any) -> tuple[Any, list[ConfigProblem]]:
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


DISABLED: Final = "OTEL_SDK_DISABLED"
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SPOKEN: Final = "http/protobuf"


class TraceExport(NamedTuple):
    """Whether traces are exported, and what the operator should know if they are not, though a variable asks for it.
    These variables are shared by all programs of a machine, so none of them keeps the gateway from starting."""

    on: bool
    problem: str | None = None


def trace_export(environ: Mapping[str, str] | None = None) -> TraceExport:
    environ = os.environ if environ is None else environ
    chosen, endpoint = _said(environ, EXPORTER).lower(), _first(environ, ENDPOINTS)
    exporters = {each.strip() for each in chosen.split(",")} - {""}
    if _said(environ, DISABLED).lower() == "true" or "none" in exporters or not (exporters or endpoint):
        return TraceExport(False)
    if exporters and "otlp" not in exporters:
        return TraceExport(False, f"{EXPORTER} is '{quoted(chosen)}', and traces can be exported by otlp only")
    if (protocol := _first(environ, PROTOCOLS)) not in ("", SPOKEN):
        problem = f"{PROTOCOLS[1]} is '{quoted(protocol)}', and only {SPOKEN} is supported (port 4318, as a rule)"
        return TraceExport(False, problem)
    if endpoint and not endpoint.startswith(("http://", "https://")):  # not shown: it may hold a password
        return TraceExport(False, f"{ENDPOINTS[1]} has to begin with http:// or https://")
    return TraceExport(True)


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next(filter(None, (_said(environ, name) for name in names)), "")


def _said(environ: Mapping[str, str], name: str) -> str:
    """An empty variable counts as unset, as the standard says."""
    return environ.get(name, "").strip()
