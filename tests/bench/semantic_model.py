"""Builds the two small files behind the semantic extra (CAT-9); needs `onnx`, which nothing else does.

`python -m tests.bench.semantic_model` writes the embedder's graph (without weights: those come with the extra) and the
vectors of the shipped capabilities. Run it again when the capabilities change; a test notices.
"""

from __future__ import annotations

from typing import Any, Final

import onnx
from onnx import TensorProto, helper

from mcpproxy_py.providers.catalog import semantic
from mcpproxy_py.providers.catalog.load import load

LAYERS: Final = 6
HEADS: Final = 12
WIDTH: Final = 384
EACH: Final = WIDTH // HEADS
OPSET: Final = 17
EPSILON: Final = 1e-12


class Graph:
    """A list of nodes that grows, each output named by its order; weights are named and stay outside."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: dict[str, tuple[int, ...]] = {}
        self.constants: list[Any] = []

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    def weight(self, name: str, *shape: int) -> str:
        self.weights[name] = shape
        return name

    def constant(self, kind: int, *values: Any, scalar: bool = False) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(helper.make_tensor(name, kind, [] if scalar else [len(values)], values))
        return name

    def linear(self, x: str, name: str, width: int, out: int) -> str:
        return self("Gemm", x, self.weight(f"{name}.weight", out, width), self.weight(f"{name}.bias", out), transB=1)

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight", WIDTH), self.weight(f"{name}.bias", WIDTH)
        return self("LayerNormalization", x, scale, bias, axis=-1, epsilon=EPSILON)


def embedder() -> bytes:
    """BERT over one text of N tokens: the mean of its last layer, at length one. Without a batch it needs no mask."""
    graph = Graph()
    out = _layers(graph, _embeddings(graph))
    mean = graph("ReduceMean", out, axes=[0], keepdims=0)
    graph.nodes.append(helper.make_node("LpNormalization", [mean], ["vector"], axis=0, p=2))
    made = helper.make_graph(
        graph.nodes,
        "embedder",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, [WIDTH])],
        [*graph.constants, *(_outside(name, shape) for name, shape in graph.weights.items())],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8).SerializeToString()


def _embeddings(graph: Graph) -> str:
    words = graph("Gather", graph.weight("embeddings.word_embeddings.weight", 30522, WIDTH), "ids")
    start, axis = graph.constant(TensorProto.INT64, 0), graph.constant(TensorProto.INT64, 0)
    positions = graph.weight("embeddings.position_embeddings.weight", 512, WIDTH)
    places = graph("Slice", positions, start, graph("Shape", "ids"), axis)
    kind = graph("Gather", graph.weight("embeddings.token_type_embeddings.weight", 2, WIDTH), _zero(graph))
    return graph.norm(graph("Add", graph("Add", words, places), kind), "embeddings.LayerNorm")


def _zero(graph: Graph) -> str:
    return graph.constant(TensorProto.INT64, 0, scalar=True)


def _layers(graph: Graph, x: str) -> str:
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        x = graph.norm(
            graph("Add", x, _attention(graph, x, f"{layer}.attention")), f"{layer}.attention.output.LayerNorm"
        )
        wide = _gelu(graph, graph.linear(x, f"{layer}.intermediate.dense", WIDTH, 4 * WIDTH))
        narrow = graph.linear(wide, f"{layer}.output.dense", 4 * WIDTH, WIDTH)
        x = graph.norm(graph("Add", x, narrow), f"{layer}.output.LayerNorm")
    return x


def _attention(graph: Graph, x: str, name: str) -> str:
    query, key, value = (
        graph("Transpose", _by_head(graph, graph.linear(x, f"{name}.self.{part}", WIDTH, WIDTH)), perm=order)
        for part, order in (("query", [1, 0, 2]), ("key", [1, 2, 0]), ("value", [1, 0, 2]))
    )
    root = graph.constant(TensorProto.FLOAT, EACH**0.5, scalar=True)
    weights = graph("Softmax", graph("Div", graph("MatMul", query, key), root), axis=-1)
    seen = graph("Transpose", graph("MatMul", weights, value), perm=[1, 0, 2])
    joined = graph("Reshape", seen, graph.constant(TensorProto.INT64, -1, WIDTH))
    return graph.linear(joined, f"{name}.output.dense", WIDTH, WIDTH)


def _by_head(graph: Graph, x: str) -> str:
    return graph("Reshape", x, graph.constant(TensorProto.INT64, -1, HEADS, EACH))


def _gelu(graph: Graph, x: str) -> str:
    root, one, half = (graph.constant(TensorProto.FLOAT, number, scalar=True) for number in (2**0.5, 1.0, 0.5))
    bent = graph("Add", graph("Erf", graph("Div", x, root)), one)
    return graph("Mul", graph("Mul", x, bent), half)


def _outside(name: str, shape: tuple[int, ...]) -> Any:
    """A weight that is only named here; `semantic` hands the values in."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.append(onnx.StringStringEntryProto(key="location", value="weights"))
    return tensor


def main() -> None:
    semantic.GRAPH.write_bytes(embedder())
    print(f"{semantic.GRAPH.name}: {semantic.GRAPH.stat().st_size} bytes")
    semantic.VECTORS.write_text(semantic.vectors_of(load().names.terms, semantic.Embedder()), encoding="utf-8")
    print(f"{semantic.VECTORS.name}: {semantic.VECTORS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
