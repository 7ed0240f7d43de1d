"""A Python function as a tool: schemas from its hints, arguments checked and handed over (PROV-2).

A docstring taken apart: what the tool does, and what each parameter is.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_json

from mcpproxy_py.providers import results
from mcpproxy_py.providers.context import Context
from mcpproxy_py.providers.results import RESULTS, ToolError, Unsendable
from mcpproxy_py.providers.spec import ProviderError


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


WRAPPED: Final = "result"
"""A result schema has to be an object, so any other value goes out under this key."""
EXACT: Final = 2**53
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_PLAIN_RETURNS: Final = (inspect.Signature.empty, None, types.NoneType, Any, str, *RESULTS)


class Function:
    """Reads the function once. Raises `ProviderError` where it cannot be a tool, and says why."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        doc = read(fn)
        self.description = doc.description
        signature = _signature(fn)
        self._context = [name for name, param in signature.parameters.items() if _is_context(param.annotation)]
        params = [param for name, param in signature.parameters.items() if name not in self._context]
        self._names = [param.name for param in params]
        self._defaulted = {param.name for param in params if isinstance(param.default, FieldInfo)}
        self._model = _model(params)
        self.input_schema = _described(_schema(self._model), doc.params)
        self._returns = None if _is_plain(signature.return_annotation) else _adapter(signature.return_annotation)
        self.output_schema, self._wraps = _output(self._returns)

    def bind(self, arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        """The keyword arguments of the call: only those given, so that the function's own defaults hold. Raises
        `ToolError` with everything that is wrong."""
        try:
            # Through JSON and strictly: dates and enums are read from their text, and "5" is no number.
            checked = self._model.model_validate_json(to_json(_as_json_counts(arguments)), strict=True)
        except ValidationError as error:
            raise ToolError(_sentences(error)) from None
        except ValueError as error:
            raise ToolError(f"The arguments cannot be read: {error}") from None
        given = {name: getattr(checked, _field(number)) for number, name in enumerate(self._names)
                 if _field(number) in checked.model_fields_set or name in self._defaulted}  # fmt: skip
        return {**given, **dict.fromkeys(self._context, ctx)}

    def dress(self, value: Any) -> dict[str, Any]:
        """The raw result of the call. Raises `Unsendable` where the value is not what the function promises."""
        if self._returns is None or isinstance(value, RESULTS):
            return results.as_wire(value)
        try:
            plain = self._returns.dump_python(self._returns.validate_python(value), mode="json", by_alias=True)
        except Exception as error:
            raise Unsendable(f"it returned {type(value).__name__}, which is not what it declares: {error}") from None
        if not self._wraps:
            return results.structured(plain)
        return results.structured({WRAPPED: plain}, results.SUCCESS if value is None else results.compact(plain))


class _Quiet(GenerateJsonSchema):
    """No titles made from names, which cost an agent tokens and say nothing; and a default that JSON cannot hold
    stays the function's own business."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        if kind not in self.ignored_warning_kinds:
            raise ProviderError(detail)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        signature = inspect.signature(fn, eval_str=True)
    except NameError as error:
        raise ProviderError(f"its type hints cannot be resolved ({error}); import what they name at run time") from None
    except (TypeError, ValueError, SyntaxError) as error:
        raise ProviderError(f"its signature cannot be read: {error}") from None
    for param in signature.parameters.values():
        if param.kind not in _NAMED:
            raise ProviderError(f"its parameter {param.name!r} is {param.kind.description}; tools have named ones only")
    return signature


def _is_context(annotation: Any) -> bool:
    if get_origin(annotation) in (Annotated, Union, types.UnionType):
        return any(_is_context(part) for part in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)


def _field(number: int) -> str:
    """Fields are named by number and the parameter is their alias: `schema` or `_x` cannot be a field's name."""
    return f"p{number}"


def _model(params: list[inspect.Parameter]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for number, param in enumerate(params):
        hint = Any if param.annotation is param.empty else param.annotation
        default = ... if param.default is param.empty else param.default
        fields[_field(number)] = (Annotated[hint, Field(alias=param.name)], default)
    try:
        return create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    except Exception as error:
        raise ProviderError(f"its parameters have no JSON Schema ({_first_line(error)})") from None


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Quiet)
    except Exception as error:
        raise ProviderError(f"its parameters have no JSON Schema ({_first_line(error)})") from None
    return _without_title(schema)


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {}, **{key: value for key, value in schema.items() if key != "title"}}


def _described(schema: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """A description in the hint itself (`Annotated[…, Field(description=…)]`) beats the docstring's."""
    for name, described in schema["properties"].items():
        if name in texts:
            described.setdefault("description", texts[name])
    return schema


def _is_plain(annotation: Any) -> bool:
    """Whether a return annotation names what goes out as it is, with no schema to promise."""
    if get_origin(annotation) in (Union, types.UnionType, list, tuple):
        return any(part in RESULTS or (part is not types.NoneType and _holds_result(part))
                   for part in get_args(annotation))  # fmt: skip
    return annotation in _PLAIN_RETURNS if _hashable(annotation) else False


def _holds_result(annotation: Any) -> bool:
    return annotation in RESULTS or any(_holds_result(part) for part in get_args(annotation))


def _hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except Exception as error:
        raise ProviderError(
            f"its return type has no JSON Schema ({_first_line(error)}); leave the annotation out or return a model"
        ) from None


def _output(adapter: TypeAdapter[Any] | None) -> tuple[dict[str, Any] | None, bool]:
    """The output schema, and whether values are wrapped to fit it."""
    if adapter is None:
        return None, False
    try:
        schema = _rooted(adapter.json_schema(mode="serialization", schema_generator=_Quiet))
    except Exception as error:
        raise ProviderError(f"its return type has no JSON Schema ({_first_line(error)})") from None
    if schema.get("type") == "object":
        return _without_title(schema), False
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"type": "object", "properties": {WRAPPED: schema}, "required": [WRAPPED], **definitions}, True


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """A model that refers to itself has a bare `$ref` at its root, and clients want the object there."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definition = schema.get("$defs", {}).get(name, {})
    return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}} if definition else schema


def _as_json_counts(value: Any) -> Any:
    """JSON has one kind of number: 5.0 fits a schema of integers, so it has to fit the function too."""
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _as_json_counts(item) for key, item in value.items()}
    return [_as_json_counts(item) for item in value] if isinstance(value, list) else value


def _sentences(error: ValidationError) -> str:
    said = [f"{_where(problem['loc'])}: {problem['msg']}" for problem in error.errors(include_url=False)[:5]]
    return f"Invalid arguments. {'; '.join(said)}"


def _where(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".") or "arguments"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
