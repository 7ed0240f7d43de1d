"""Where servers that can be added are looked for beside the shipped catalog (CAT-5): registries, by address or file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from mcpproxy_py.settings.access.auth import escaped, is_trustworthy
from mcpproxy_py.settings.servers import FROZEN

MOST_REGISTRIES: Final = 8
MOST_TEXT: Final = 512
_VISIBLE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def _registry_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        fits = bool(parts.hostname) and (parts.port is None or parts.port > 0) and is_trustworthy(value)
    except ValueError:
        fits = False
    else:
        fits = fits and "@" not in parts.netloc and "?" not in value and "#" not in value
    if not fits or not _VISIBLE.fullmatch(value) or len(value) > MOST_TEXT:
        raise ValueError(
            "an https address such as https://registry.modelcontextprotocol.io (http only on this machine), without a "
            "password and a query"
        )
    return value.rstrip("/")


def _registry_file(value: str) -> str:
    path = Path(value).expanduser()
    if not path.is_absolute() or "\0" in value or len(value) > 4096:
        raise ValueError("the absolute path of a file")
    return str(path)


def _digest(value: str) -> str:
    found = value.lower().removeprefix("sha256:")
    if not _DIGEST.fullmatch(found):
        raise ValueError("64 hexadecimal digits, as `sha256sum FILE` prints")
    return found


def _as_registry(value: object) -> object:
    if not isinstance(value, str):
        return value
    return {"url": value} if "://" in value else {"file": value}


class RegistrySettings(BaseModel):
    """One registry: an address that speaks the official registry API v0.1, a file with what it answers, or the address
    of such a file, with its digest."""

    model_config = FROZEN

    url: Annotated[str, AfterValidator(_registry_url)] | None = Field(
        default=None,
        description="Where the API is, such as `https://registry.modelcontextprotocol.io`; with `sha256`, the address "
        "of a file with all of it.",
    )
    file: Annotated[str, AfterValidator(_registry_file)] | None = Field(
        default=None, description="A file with what a registry lists, by its absolute path."
    )
    sha256: Annotated[str, AfterValidator(_digest)] | None = Field(
        default=None, description="What the file has to be, bit by bit. Anything else is not used."
    )

    @model_validator(mode="after")
    def _one_place(self) -> RegistrySettings:
        if (self.url is None) == (self.file is None):
            raise ValueError("exactly one of `url` and `file`")
        return self

    @property
    def label(self) -> str:
        """What people are told it is."""
        if self.file is not None:
            return Path(self.file).name
        return urlsplit(self.url or "").netloc


class CatalogSettings(BaseModel):
    """Where servers are found that can be added."""

    model_config = FROZEN

    registries: Annotated[
        tuple[
            Annotated[RegistrySettings, BeforeValidator(_as_registry, json_schema_input_type=str | RegistrySettings)],
            ...,
        ],
        Field(max_length=MOST_REGISTRIES),
    ] = Field(
        default=(),
        description="Registries that `mcpproxy catalog search` asks beside the shipped catalog, best first: an "
        "address, a file, or an object with `url` or `file`, and `sha256`. Only commands of a person ask them, never "
        "agents.",
    )


def registries_changed(
    was: Sequence[RegistrySettings], now: Sequence[RegistrySettings]
) -> Iterable[tuple[Literal["looser", "tighter"], str]]:
    """One that is held to a digest no more is another one."""
    for each in now:
        if each not in was:
            yield "looser", f"{{key}}: servers of {escaped(each.label)} are offered"
    for each in was:
        if each not in now:
            yield "tighter", f"{{key}}: {escaped(each.label)} is left out"
