"""Texts as vectors, so that what means the same lies close together (CAT-9), with `mcpproxy-py[semantic]`.

The extra is the package `wordllama`: a table with a vector for each of 32,000 pieces of words, and the tokenizer that
cuts a text into these pieces. Both are read from there as data; none of its code is run, and nothing is fetched. A
text's vector is the mean of those of its pieces, so an embedding is a look-up and takes some microseconds.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

PACKAGE: Final = "wordllama"
NEEDED: Final = (PACKAGE, "numpy", "tokenizers")
TABLE: Final = "weights/l2_supercat_256.safetensors"
TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
TENSOR: Final = "embedding.weight"
WIDTH: Final = 256
MOST_CHARACTERS: Final = 4_000
"""Of a text; what is beyond them does not count."""


class NoWordVectors(Exception):
    """They are installed, and are not what we can read."""


def installed() -> bool:
    """Whether everything that the extra brings is there. Imports none of it."""
    return all(importlib.util.find_spec(name) for name in NEEDED)


class WordVectors:
    """Text to a vector of length one. One object serves all threads."""

    def __init__(self, table: Any, tokenizer: Any, version: str = "") -> None:
        import numpy

        self.name = f"{PACKAGE} {version} {TENSOR} {TABLE}"
        """Vectors can be compared where this is the same."""
        self._table = table
        self._tokenizer = tokenizer
        self._numpy = numpy

    def embed(self, text: str) -> Any:
        """All zeros for a text in which there is nothing, which is close to nothing."""
        pieces = self._tokenizer.encode(_plain(text), add_special_tokens=False).ids
        return self.unit(self._table[pieces].astype("float32").sum(axis=0))

    def unit(self, vector: Any) -> Any:
        """The same direction, at length one."""
        length = float(self._numpy.linalg.norm(vector))
        return vector / length if length else vector


def _plain(text: str) -> str:
    """Half of a surrogate pair cannot be written as UTF-8, which the tokenizer wants."""
    return text[:MOST_CHARACTERS].lower().encode("utf-8", "replace").decode("utf-8")


@cache
def load() -> WordVectors:
    """Read once for the whole process: 16 MB, mapped and not copied. Raises `NoWordVectors`."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NoWordVectors(f"{PACKAGE} is not installed; install mcpproxy-py[semantic]")
    home = Path(found.submodule_search_locations[0])
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(home / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        table = _table(home / TABLE)
        if tokenizer.get_vocab_size() > len(table):
            raise ValueError("the tokenizer knows more pieces than have vectors")
    except Exception as error:  # whatever another version of that package has made of its files
        raise NoWordVectors(f"{PACKAGE} cannot be used: {error}") from error
    return WordVectors(table, tokenizer, importlib.metadata.version(PACKAGE))


def _table(path: Path) -> Any:
    """The one tensor of a safetensors file: a length, a JSON header, and the values. Raises `ValueError`."""
    import numpy

    raw = numpy.memmap(path, dtype="uint8", mode="r")
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    entry = json.loads(raw[8:start].tobytes())[TENSOR]
    if entry["dtype"] != "F16" or entry["shape"][1] != WIDTH:
        raise ValueError(f"{path.name} holds {entry['dtype']} of {entry['shape']}")
    begin, end = entry["data_offsets"]
    return raw[start + begin : start + end].view("float16").reshape(entry["shape"])
