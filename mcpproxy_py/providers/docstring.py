"""A docstring taken apart: what the tool does, and what each parameter is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Doc:
    description: str = ""
    params: Mapping[str, str] = field(default_factory=dict[str, str])


def read(function: Callable[..., Any]) -> Doc:
    """Google, NumPy and Sphinx style alike. A docstring in no style at all is a description as it stands."""
    while isinstance(function, functools.partial):  # whose own docstring is about partial
        function = function.func
    text = inspect.getdoc(function) or ""
    import docstring_parser  # here, because only functions of the operator's own have a docstring that is read

    try:
        parsed = docstring_parser.parse(text)
    except Exception:  # the parser is not made for arbitrary text
        return Doc(text)
    parts = (parsed.short_description, parsed.long_description)
    params = {param.arg_name: " ".join((param.description or "").split()) for param in parsed.params}
    return Doc(
        "\n\n".join(part.strip() for part in parts if part), {name: text for name, text in params.items() if text}
    )
