"""The masker of a running gateway: the core's rules, with engines that the core does without.

Nearly every text is clean, so finding that out is what masking costs. The engine for it is the one that pydantic
brings: it takes time in proportion to the text, whatever the text is, about 2 microseconds per KB.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from pydantic_core import SchemaValidator, core_schema, to_json

from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.record.secret_signs import SHAPES, SIGNS
from mcpproxy_py.core.values import Refusal


def _finder(pattern: str) -> Callable[[str | bytes], bool]:
    """Bytes are searched as they are, which spares a text its decoding. What is no UTF-8 holds nothing for it."""
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")).isinstance_python


MASKER: Final = Masker(_finder(SIGNS), _finder(SHAPES), partial(to_json, inf_nan_mode="strings"))


def without_secrets(refusal: Refusal) -> Refusal:
    """In its details stands what a server answered, which is passed on as it is, and what a tool listed."""
    name = refusal.name and MASKER.mask_text(refusal.name)
    return replace(refusal, message=MASKER.mask_text(refusal.message), name=name)


def suspicious(text: str | bytes) -> bool:
    """Whether there is anything in a text to look at closely."""
    return MASKER.named(text) or MASKER.shaped(text)
