"""What text costs, by a real tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

ENCODING: Final = "o200k_base"
Count = Callable[[str], int]


def counter() -> Count | None:
    """Counts tokens, or `None` where no tokenizer is installed."""
    try:
        import bpe_openai
    except ImportError:
        return None
    encoding = bpe_openai.get_encoding(ENCODING)
    return lambda text: len(encoding.encode(text))


def compact(value: Any) -> str:
    """JSON without blanks, so that neither side of the comparison pays for layout."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def definitions(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools as a model gets them: hosts pass on name, description and input schema."""
    return compact([{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in tools])
