"""The settings: what each is, where it comes from, and changing those that a person may change while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import Field, WithJsonSchema
from pydantic.fields import FieldInfo

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.admin import put_all
from mcpproxy_py.serve.http.asgi import bad_request
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel
from mcpproxy_py.serve.rest.responses import ResponseModel
from mcpproxy_py.settings.changes import FIXED_AT_START
from mcpproxy_py.settings.environment import known_keys, plain

WAYS_IN: Final = "it says who can reach the gateway, and as whom"
ELSEWHERE: Final = "it has a place of its own"
NOT_HERE: Final[Mapping[str, str]] = {
    "data_dir": "it says where the record and the keys are",
    "activity.database_url": "it says where the record is",
    "activity.mask_patterns": "it says what must not be recorded",
    "sealing_keys": "it is a secret",
    **dict.fromkeys(
        ("listen", "require_mcp_auth", "mcp_token", "auth", "api_key", "allowed_hosts", "allowed_origins"), WAYS_IN
    ),
    **dict.fromkeys(("mcpServers", "providers", "profiles"), ELSEWHERE),
}
"""Keys that are changed where the file is, by who may write it: a session that was taken over must not open another
door, or lead the record elsewhere. And why."""


class SettingsBody(BodyModel):
    settings: Annotated[
        dict[str, Any],
        WithJsonSchema({"type": "object", "minProperties": 1, "maxProperties": 50, "additionalProperties": True}),
    ] = Field(
        min_length=1, max_length=50,
        description="By dotted key; null takes a key out of the file, so that its default applies",
    )  # fmt: skip


class SettingAnswer(ResponseModel):
    key: str = Field(description="Dotted, as in the configuration file")
    value: Any = Field(description="As it is written now; secrets are masked")
    default: Any
    source: str | None = Field(description="Where it comes from: the file, a variable; null is the default")
    description: str
    kind: Literal["flag", "choice", "choices", "number", "text", "other"]
    choices: list[str] = Field(description="Of a choice, what there is")
    changeable: bool
    why_not: str | None = Field(description="Why it cannot be changed here")
    applies: Literal["now", "restart"]
    overridden: bool = Field(description="Whether a variable or a flag is stronger than the file")


class SettingsAnswer(ResponseModel):
    settings: list[SettingAnswer]
    awaits_restart: list[str] = Field(description="Keys whose change since the start is not in force yet")
    file: str


class SettingsEffect(ResponseModel):
    """What a change does, in sentences."""

    looser: list[str] = Field(description="What is permitted that was refused before")
    tighter: list[str]
    after_restart: list[str] = Field(description="Keys whose change waits for a restart")


class SettingsChanged(SettingsEffect):
    settings: list[SettingAnswer] = Field(description="Those that were named, as they are now")


@cache
def _fields() -> Mapping[str, FieldInfo]:
    return {key: field for key, field in known_keys() if NOT_HERE.get(key) is not ELSEWHERE}


def _why_not(key: str) -> str | None:
    parts = key.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next((NOT_HERE[name] for name in names if name in NOT_HERE), None)


def _described(state: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, field in _fields().items():
        kind, choices = _kind(field.annotation)
        source = state["sources"].get(key)
        why_not = _why_not(key)
        yield {
            "key": key,
            "value": _at(state["values"], key),
            "default": _default(field),
            "source": source,
            "description": field.description or "",
            "kind": kind,
            "choices": choices,
            "changeable": why_not is None,
            "why_not": why_not,
            "applies": "restart" if key.split(".")[0] in FIXED_AT_START else "now",
            "overridden": source not in (None, "file", "default"),
        }


def _at(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _default(field: FieldInfo) -> Any:
    default = None if field.is_required() else field.default
    plain_value = isinstance(default, bool | int | float | str | None)
    return default if plain_value else list(default) if isinstance(default, tuple) else None


def _kind(annotation: Any) -> tuple[str, list[str]]:
    """What a person has to be shown to choose a value."""
    at = plain(annotation)
    if get_origin(at) is tuple and get_origin(inner := get_args(at)[0]) is Literal:
        return "choices", list(get_args(inner))
    if get_origin(at) is Literal:
        return "choice", list(get_args(at))
    return {bool: "flag", int: "number", float: "number", str: "text"}.get(at, "other"), []


async def list_settings(x: RestRequest) -> Mapping[str, Any]:
    state = x.parts.operator.settings_state()
    return {
        "settings": list(_described(state)), "awaits_restart": state["awaits_restart"], "file": state["file"],
    }  # fmt: skip


async def preview(x: RestRequest) -> Mapping[str, Any]:
    changes = _paths(x.body.settings)
    return await x.parts.operator.tried(lambda file: file.change(lambda document: put_all(changes, document)))


async def change(x: RestRequest) -> Mapping[str, Any]:
    changes = _paths(x.body.settings)
    effect = await x.parts.operator.change_settings(changes, x.caller)
    rows = {row["key"]: row for row in _described(x.parts.operator.settings_state())}
    return {**effect, "settings": [rows[key] for key in x.body.settings]}


def _paths(wanted: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Raises `GatewayError` for what is no setting, and for what is not changed here."""
    for key in wanted:
        if (why := _why_not(key)) is not None:
            remedy = f"Where the file is: `mcpproxy config set {key} VALUE`, and `mcpproxy restart`."
            if why is ELSEWHERE:
                remedy = "See `mcpproxy upstream`, `mcpproxy profiles` and `mcpproxy config edit`."
            message = f"{quoted(key)} cannot be changed over REST: {why}"
            raise GatewayError(Code.CONFLICT, message, details={"key": quoted(key), "remedy": remedy})
        if key not in _fields():
            near = nearest(key, _fields(), 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise bad_request(f"There is no setting '{quoted(key)}'{hint}", key=quoted(key), nearest=list(near))
    return {tuple(key.split(".")): value for key, value in wanted.items()}


_GROUP: Final = "Settings"
_CHANGES: Final = (Code.CONFLICT, Code.CONFIG_INVALID)
_MORE: Final = (
    "Who can reach the gateway, its secrets and where its record is are changed in the file only; servers, providers "
    "and profiles have places of their own. What is wrong as a value is `CONFIG_INVALID`, in the words of the file."
)

ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/settings", _GROUP, "Every setting: value, source, and whether it can be changed here",
                 list_settings, SettingsAnswer, masked=False),
    RestEndpoint("POST", "/api/v1/settings", _GROUP, "Change settings in the configuration file", change,
                 SettingsChanged, body=SettingsBody, refusals=(*_CHANGES, Code.STORE_UNAVAILABLE), masked=False,
                 more=_MORE),
    RestEndpoint("POST", "/api/v1/preview/settings", _GROUP, "What a change of settings would loosen and tighten",
                 preview, SettingsEffect, body=SettingsBody, refusals=_CHANGES, more="Nothing is written."),
)  # fmt: skip
