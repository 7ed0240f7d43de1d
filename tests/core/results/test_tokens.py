"""How good the estimate of tokens is, against real tokenizers."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import bpe_openai
import pytest

from mcpproxy_py.core.results.limits import ResultLimits
from mcpproxy_py.core.results.tokens import about, tokens
from tests.servers.long_results import SHAPES, rows

ROOT = Path(__file__).parents[3]
ENCODINGS = [bpe_openai.get_encoding(name) for name in ("o200k_base", "cl100k_base")]
chance = random.Random(1)
TEXTS = {
    "prose": (ROOT / "docs/explanation/design.md").read_text(),
    "code": (ROOT / "mcpproxy_py/gateway/gateway.py").read_text(),
    "json": (ROOT / "mcpproxy_py/providers/catalog/data/servers.json").read_text()[:60_000],
    "rows": json.dumps(rows(500)),
    "table": "\n".join(",".join(str(chance.randrange(10**n)) for n in range(1, 8)) for _ in range(900)),
    "digits": "".join(str(chance.randrange(10)) for _ in range(40_000)),
    "base64": base64.b64encode(chance.randbytes(40_000)).decode(),
    "hex": chance.randbytes(30_000).hex(),
    "log": "\n".join(f"2026-11-20T02:{n % 60:02d}:{n % 59:02d}.{n:03d}Z INFO [{n}] GET /a/{n} 200" for n in range(99)),
    "german": "Über die Größe der Antwort entscheidet der Server, das Gateway kürzt sie, wo ihr Bau es erlaubt. " * 200,
    "russian": "Шлюз проверяет каждое намерение и записывает, что произошло. " * 200,
    "chinese": "网关把许多服务器放在一个地址后面，代理通过搜索找到工具，然后声明它想做什么。" * 200,
    "emoji": "🙂🚀🎉👍" * 2000,
}  # fmt: skip


@pytest.mark.proves("SURF-13")
@pytest.mark.parametrize("name", TEXTS)
def test_the_estimate_is_near_what_tokenizers_count(name: str) -> None:
    text = TEXTS[name]
    true = max(len(encoding.encode(text)) for encoding in ENCODINGS)
    assert 0.7 <= tokens(text.encode()) / true <= 1.5
    assert 0.6 <= about(text.encode()) / true <= 1.8


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_always_the_same_and_a_token_has_a_byte_at_least(shape: str) -> None:
    text = SHAPES[shape](50_000).encode()
    assert about(text) == about(text) <= len(text)
    assert tokens(text) <= len(text)


@pytest.mark.proves("SURF-13")
def test_the_limit_of_a_tool_is_its_own_then_that_of_a_glob_then_of_its_server_then_of_all() -> None:
    limits = ResultLimits(
        20_000, {"data": {"export_all": 0, "export_*": 50_000, "*_all": 40_000, "*": 5_000}, "b": {"x": 2_000}}
    )
    assert [limits.of("data", tool) for tool in ("export_all", "export_one", "Export_One", "see_all", "x")] == [
        0, 50_000, 50_000, 40_000, 5_000
    ]  # fmt: skip
    assert (limits.of("b", "x"), limits.of("b", "y"), limits.of("other", "x")) == (2_000, 20_000, 20_000)
    assert limits.floor == 2_000 and limits.any
    assert not ResultLimits(0, {"a": {"*": 0}}).any
    assert ResultLimits(0, {"a": {"*": 1_000}}).floor == 1_000
