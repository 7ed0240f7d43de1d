"""Texts as vectors, with the optional extra: what they must be for whoever ranks by them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mcpproxy_py import word_vectors
from mcpproxy_py.word_vectors import MOST_CHARACTERS, WIDTH, NoWordVectors, WordVectors

pytestmark = pytest.mark.proves("CAT-9")

needs_extra = pytest.mark.skipif(
    not word_vectors.installed() and not os.environ.get("CI"),
    reason="needs the extra: pip install 'mcpproxy-py[semantic]'",
)
REQUIREMENTS = Path(__file__).parents[1] / "requirements"


@pytest.fixture(scope="module")
def words() -> WordVectors:
    return word_vectors.load()


@needs_extra
@pytest.mark.parametrize(
    "text", ["a", "rotate the keys", "Größe ändern", "日本語", "🦆" * 300, "\x00\x01", "\ud800 alone"]
)
def test_a_text_is_a_vector_of_length_one(words: WordVectors, text: str) -> None:
    vector = words.embed(text)
    assert vector.shape == (WIDTH,)
    assert float(vector @ vector) == pytest.approx(1.0, abs=1e-5)
    assert (words.embed(text) == vector).all()


@needs_extra
def test_nothing_is_close_to_nothing(words: WordVectors) -> None:
    assert not words.embed("").any()


@needs_extra
def test_what_means_the_same_lies_closer_than_what_does_not(words: WordVectors) -> None:
    asked = words.embed("delete a file")
    assert asked @ words.embed("remove a document") > asked @ words.embed("play a song") + 0.2


@needs_extra
def test_case_does_not_count_and_neither_does_what_is_too_long(words: WordVectors) -> None:
    assert (words.embed("Delete A FILE") == words.embed("delete a file")).all()
    long = "word " * MOST_CHARACTERS
    assert (words.embed(long) == words.embed(long[:MOST_CHARACTERS])).all()


@needs_extra
@pytest.mark.parametrize("content", [b"", b"\x08", (5).to_bytes(8, "little") + b"[1,2]", b"\xff" * 64])
def test_a_table_that_is_none_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    (tmp_path / "broken").write_bytes(content)
    monkeypatch.setattr(word_vectors, "TABLE", str(tmp_path / "broken"))
    word_vectors.load.cache_clear()
    with pytest.raises(NoWordVectors, match="cannot be used"):
        word_vectors.load()
    word_vectors.load.cache_clear()


@needs_extra
def test_reading_them_runs_no_code_of_the_package_and_opens_no_connection() -> None:
    script = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "from mcpproxy_py import word_vectors\n"
        "word_vectors.load().embed('hello world')\n"
        "assert not {'wordllama', 'huggingface_hub', 'requests', 'torch', 'onnxruntime'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_neither_the_extra_nor_the_tests_install_a_framework_for_neural_networks() -> None:
    """They are gigabytes."""
    extras = tomllib.loads((REQUIREMENTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [Requirement(each).name for each in extras["optional-dependencies"]["semantic"]] == ["wordllama"]
    for lock in REQUIREMENTS.glob("*.txt"):
        names = {line.partition("==")[0] for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line}
        heavy = {
            name for name in names if name.startswith(("nvidia-", "torch", "onnx", "triton", "cuda", "transformers"))
        }
        assert heavy == set(), lock.name
