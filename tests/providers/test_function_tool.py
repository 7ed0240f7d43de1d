"""From a Python function to a tool: schema, texts, arguments, defaults (PROV-2)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import inspect
import keyword
import string
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from mcpproxy_py.providers import Context, Text, ToolSpec
from mcpproxy_py.providers.function_tool import EXACT, Function
from mcpproxy_py.providers.results import ToolError
from mcpproxy_py.providers.spec import ProviderError
from tests.providers.helpers import Tools, of, served, text

pytestmark = [pytest.mark.proves("PROV-2"), pytest.mark.anyio]
NO_CONTEXT: Any = None


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    city: str = "Ulm"


class Folder(BaseModel):
    name: str
    inside: list[Folder] = []


@dataclasses.dataclass
class Point:
    x: int
    y: int


def google(path: str, depth: int = 2) -> str:
    """Walk a tree.

    Stops at the given depth.

    Args:
        path: Where to start.
        depth (int): How far to go.
            At most ten.

    Returns:
        The names found.
    """
    return path * depth


def numpy(path: str, depth: int = 2) -> str:
    """Walk a tree.

    Stops at the given depth.

    Parameters
    ----------
    path : str
        Where to start.
    depth : int, optional
        How far to go.
        At most ten.
    """
    return path * depth


def sphinx(path: str, depth: int = 2) -> str:
    """Walk a tree.

    Stops at the given depth.

    :param path: Where to start.
    :param int depth: How far to go.
        At most ten.
    :returns: The names found.
    """
    return path * depth


@pytest.mark.parametrize("function", [google, numpy, sphinx])
async def test_texts_come_from_the_docstring_in_any_of_three_styles(function: Any) -> None:
    (tool,) = await (await of(function)).list_tools()
    assert tool["description"] == "Walk a tree.\n\nStops at the given depth."
    assert tool["inputSchema"] == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where to start."},
            "depth": {"type": "integer", "default": 2, "description": "How far to go. At most ten."},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_a_docstring_of_no_style_is_the_description_as_it_stands() -> None:
    def odd() -> None:
        """:param: :::\n\n    Args\n  ---- :returns"""

    assert Function(odd).description


def test_a_description_in_the_hint_beats_the_one_in_the_docstring() -> None:
    def f(a: Annotated[int, Field(description="from the hint", ge=1)]) -> None:
        """Do.

        Args:
            a: from the docstring
        """

    assert Function(f).input_schema["properties"]["a"] == {
        "type": "integer", "description": "from the hint", "minimum": 1,
    }  # fmt: skip


async def test_what_a_spec_says_beats_what_the_function_says() -> None:
    own = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 3}}}
    spec = ToolSpec("other", google, "Title", "Said otherwise", {"readOnlyHint": True}, own)
    (tool,) = await (await served(Tools(spec))).list_tools()
    assert tool == {
        "name": "other", "title": "Title", "description": "Said otherwise", "inputSchema": own,
        "annotations": {"readOnlyHint": True},
    }  # fmt: skip


async def test_a_tool_without_a_function_is_the_method_of_its_name() -> None:
    class Provider:
        def tools(self) -> list[ToolSpec]:
            return [ToolSpec("twice")]

        def twice(self, n: int) -> int:
            return 2 * n

    assert (await (await served(Provider())).call_tool("twice", {"n": 21}))["structuredContent"] == {"result": 42}


async def test_the_context_stays_out_of_the_schema_and_is_filled_in() -> None:
    def f(a: int, ctx: Context, b: int = 1, *, other: Context | None = None) -> str:
        return f"{a} {b} {type(ctx).__name__} {other is ctx}"

    made = await of(f)
    (tool,) = await made.list_tools()
    assert set(tool["inputSchema"]["properties"]) == {"a", "b"}
    assert text(await made.call_tool("f", {"a": 1})) == "1 1 Context True"
    assert "Extra" in text(await made.call_tool("f", {"a": 1, "ctx": {}}))


async def test_defaults_are_the_functions_own() -> None:
    marker = object()

    def f(a: Any = marker, b: int = Field(7, description="said"), schema: str = "s", _x: int = 3) -> str:
        return f"{a is marker} {b} {schema} {_x}"

    made = await of(f)
    (tool,) = await made.list_tools()
    assert "required" not in tool["inputSchema"]
    assert set(tool["inputSchema"]["properties"]) == {"a", "b", "schema", "_x"}
    assert text(await made.call_tool("f", {})) == "True 7 s 3"
    assert text(await made.call_tool("f", {"_x": 4, "schema": "t"})) == "True 7 t 4"


async def test_rich_types_are_read_from_their_json() -> None:
    def f(
        day: datetime.date, colour: Colour, home: Address, at: Point, kind: Literal["a", "b"], more: list[Address]
    ) -> str:
        return f"{day.year} {colour.name} {home.city} {at.x} {kind} {len(more)}"

    arguments = {
        "day": "2026-11-18", "colour": "red", "home": {"street": "s"}, "at": {"x": 1, "y": 2}, "kind": "a",
        "more": [{"street": "t"}],
    }  # fmt: skip
    assert text(await (await of(f)).call_tool("f", arguments)) == "2026 RED Ulm 1 a 1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "n: Field required"),
        ({"n": "5"}, "n: Input should be a valid integer"),
        ({"n": 1.5}, "n: Input should be a valid integer"),
        ({"n": True}, "n: Input should be a valid integer"),
        ({"n": None}, "n: Input should be a valid integer"),
        ({"n": 1, "m": 2}, "m: Extra inputs are not permitted"),
        ({"n": 1, "home": {"city": 3}}, "home.street: Field required; home.city: Input should be a valid string"),
        ({"n": "\ud800"}, "cannot be read"),
    ],
)
async def test_wrong_arguments_are_a_readable_tool_error_and_nothing_is_called(arguments: Any, words: str) -> None:
    called = []

    def f(n: int, home: Address | None = None) -> None:
        called.append(n)

    result = await (await of(f)).call_tool("f", arguments)
    assert result["isError"] is True
    assert words in text(result)
    assert called == []


async def test_a_schema_of_the_authors_own_is_kept_to_and_read_only_where_it_is() -> None:
    own = {"type": "object", "properties": {"n": {"maximum": 3}, "r": {"$ref": "https://example.com/x.json"}}}
    with pytest.raises(Exception, match="does not compile"):
        await served(Tools(ToolSpec("f", lambda n: n, input_schema=own)))
    made = await served(
        Tools(ToolSpec("f", lambda n: n, input_schema={"type": "object", "properties": {"n": {"maximum": 3}}}))
    )
    assert "Invalid arguments. n: " in text(await made.call_tool("f", {"n": 4}))


async def test_integers_may_be_written_as_json_writes_numbers() -> None:
    def f(n: int, x: float, huge: int) -> str:
        return f"{n!r} {x!r} {huge!r}"

    made = await of(f)
    result = await made.call_tool("f", {"n": 5.0, "x": 2, "huge": 10**40})
    assert text(result) == f"5 2.0 {10**40}"
    rounded = await made.call_tool("f", {"n": float(EXACT), "x": 2, "huge": 1})
    assert "n: Input should be a valid integer" in text(rounded), "it may have been another number"


async def test_the_return_annotation_is_the_output_schema() -> None:
    def number() -> int:
        return 3

    def model() -> Address:
        return Address(street="s")

    def nested() -> Folder:
        return Folder(name="a", inside=[Folder(name="b")])

    def maybe() -> int | None:
        return None

    def nothing() -> None: ...

    def words() -> str:
        return "w"

    def items() -> list[Text]:
        return [Text("a")]

    made = await of(number, model, nested, maybe, nothing, words, items)
    schemas = {tool["name"]: tool.get("outputSchema") for tool in await made.list_tools()}
    assert schemas["number"]["properties"] == {"result": {"type": "integer"}}
    assert schemas["model"]["required"] == ["street"]
    assert schemas["nested"]["type"] == "object"
    assert [schemas[name] for name in ("nothing", "words", "items")] == [None, None, None]
    for name in ("number", "model", "nested", "maybe"):
        result = await made.call_tool(name, {})
        jsonschema_rs.validator_for(schemas[name]).validate(result["structuredContent"])
    assert text(await made.call_tool("nothing", {})) == "Success"
    assert text(await made.call_tool("maybe", {})) == "Success"
    assert text(await made.call_tool("number", {})) == "3"


async def test_partials_callables_and_decorated_functions_are_functions_too() -> None:
    def base(a: int, b: int) -> int:
        """Add."""
        return a + b

    class Callable:
        """Called."""

        async def __call__(self, a: int) -> int:
            return a

    @functools.wraps(base)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        return base(*args, **kwargs)

    specs = ToolSpec("p", functools.partial(base, b=2)), ToolSpec("c", Callable()), ToolSpec("w", wrapped)
    made = await served(Tools(*specs))
    assert [tool["description"] for tool in await made.list_tools()] == ["Add.", "Called.", "Add."]
    assert text(await made.call_tool("p", {"a": 1})) == "3"
    assert text(await made.call_tool("c", {"a": 1})) == "1"
    assert text(await made.call_tool("w", {"a": 1, "b": 4})) == "5"


def takes_any_number(*args: int) -> None: ...
def takes_any_key(**more: int) -> None: ...
def only_by_place(a: int, /) -> None: ...
def of_a_lost_type(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def of_no_schema(a: Tools) -> None: ...
def returns_no_schema() -> Tools: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (takes_any_number, "'args' is variadic positional"),
        (takes_any_key, "'more' is variadic keyword"),
        (only_by_place, "'a' is positional-only"),
        (of_a_lost_type, "'Missing' is not defined"),
        (of_no_schema, "its parameters have no JSON Schema"),
        (returns_no_schema, "its return type has no JSON Schema"),
        (print, "variadic"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why(function: Any, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        Function(function)


# Whatever signature: the schema and the check are one.

HINTS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([int, float, str, bool, type(None), Colour, Point, Address]),
    lambda inner: st.builds(lambda t: list[t], inner) | st.builds(lambda t: dict[str, t], inner)
    | st.builds(lambda a, b: a | b, st.sampled_from([int, str, bool, type(None)]), st.sampled_from([float, None])),
    max_leaves=4,
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-EXACT, EXACT, exclude_min=True, exclude_max=True)
    | st.sampled_from(["red", "blue", "", "5", "x"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["x", "y", "street", "city", "k"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
NAMES = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8).filter(str.isidentifier)


def function_of(params: list[tuple[str, Any, bool]]) -> Any:
    """A function with these parameters: name, hint, whether it has a default. Returns what it was given."""

    def f(**given: Any) -> dict[str, Any]:
        return given

    f.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name + "_" * keyword.iskeyword(name), inspect.Parameter.KEYWORD_ONLY,
                              annotation=hint, default=None if has_default else inspect.Parameter.empty)
            for name, hint, has_default in params
        ]
    )  # fmt: skip
    return f


@given(
    params=st.lists(st.tuples(NAMES, HINTS, st.booleans()), max_size=4, unique_by=lambda param: param[0]),
    data=st.data(),
)
def test_arguments_are_taken_exactly_where_the_schema_takes_them(
    params: list[tuple[str, Any, bool]], data: st.DataObject
) -> None:
    function = Function(function_of(params))
    validator = jsonschema_rs.validator_for(function.input_schema)
    names = list(function.input_schema["properties"])
    arguments = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys([*names, "surplus"], JSON)))
    try:
        bound = function.bind(arguments, NO_CONTEXT)
    except ToolError as error:
        assert not validator.is_valid(arguments), f"the schema takes {arguments}, the tool says {error}"
    else:
        assert validator.is_valid(arguments)
        assert set(bound) == set(arguments)
