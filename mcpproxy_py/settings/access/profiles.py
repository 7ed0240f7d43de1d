"""A profile as it is configured: what of the gateway there is for one project or one kind of work (SURF-12).

It narrows and tightens, and has no key that could do anything else.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field

from mcpproxy_py.core.policy.scope import Scope, check_tool_glob
from mcpproxy_py.core.values import RANK, ConfirmBy, Operation
from mcpproxy_py.settings.fields import Flag, Text
from mcpproxy_py.settings.servers import FROZEN, RESERVED, check_name

PROFILE_NAME_RULE: Final = "a name of 1 to 32 of `a-z 0-9 _ -`, starting with a letter or digit"
_PROFILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_NOT_EMPTY: Final[dict[str, Any]] = {"minItems": 1}
CEILINGS: Final[tuple[Operation, ...]] = ("read", "write", "destructive")


def check_profile_name(name: str) -> str:
    if not _PROFILE_NAME.fullmatch(name):
        raise ValueError(PROFILE_NAME_RULE)
    return name


def _server_of_a_profile(name: str) -> str:
    """The built-in ones may be named as well."""
    return name if name in RESERVED else check_name(name)


def _tool_glob(text: str) -> str:
    check_tool_glob(text)
    return text


def _named(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("at least one name; a profile without any would have nothing in it")
    return names


def _ceiling(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Risk is one scale (GATE-12): who may write may read."""
    given = sorted(set(operations), key=RANK.__getitem__)
    if not given or given != list(CEILINGS[: len(given)]):
        raise ValueError("read, or read and write, or all three, since a call of higher risk includes what is below it")
    return tuple(given)


ProfileName = Annotated[str, AfterValidator(check_profile_name)]
ServerOfAProfile = Annotated[str, AfterValidator(_server_of_a_profile)]
ToolGlob = Annotated[Text, AfterValidator(_tool_glob)]


class Profile(BaseModel):
    """What there is in one profile."""

    model_config = FROZEN

    servers: Annotated[tuple[ServerOfAProfile, ...], AfterValidator(_named)] = Field(
        json_schema_extra=_NOT_EMPTY,
        description="The upstreams that are in it, by name; `catalog` too, where it is wanted.",
    )
    tools: Annotated[tuple[ToolGlob, ...], AfterValidator(_named)] | None = Field(
        default=None,
        description="If given, only these of their tools: `server:tool` or, of any of them, `tool`; names or globs.",
    )
    operations: Annotated[tuple[Operation, ...], AfterValidator(_ceiling)] = Field(
        default=CEILINGS,
        json_schema_extra=_NOT_EMPTY,
        description="A ceiling on the risk of a call: `read`, `read` and `write`, or all three.",
    )
    unannotated: Literal["allow", "write", "destructive"] = Field(
        default="allow", description="What a tool without hints counts as at least."
    )
    confirm: Literal["none", "write", "destructive"] = Field(
        default="none", description="Before calls of this risk and above a person is asked, whatever its server says."
    )
    confirm_by: ConfirmBy = Field(
        default="either",
        description="Where they say yes, as for a server; of the two, `page` counts before `client`, and both before "
        "`either`.",
    )
    strict: Flag = Field(
        default=False, description="Refuse contradictions, where `strict_server_validation` only warns."
    )
    description: Annotated[Text, Field(max_length=200)] | None = Field(
        default=None, description="What it is for; shown by `mcpproxy profiles`."
    )

    @property
    def ceiling(self) -> Operation:
        return self.operations[-1]

    @property
    def scope(self) -> Scope:
        return Scope(
            servers=(self.servers,),
            tools=() if self.tools is None else (self.tools,),
            ceiling=self.ceiling,
            strict=self.strict,
            unannotated=self.unannotated,
            confirm=self.confirm,
            confirm_by=self.confirm_by,
        )
