"""Checks one piece of a document against its keys, and says in our own words what pydantic found."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from adapter.config.positions import Document
from adapter.config.problems import KeyPath, Kind, Problem, find_nearest, format_value, quote_value
from adapter.config.schema import UNION_TAGS

T = TypeVar("T")

_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "expected text",
    "string_unicode": "expected text, not half a character",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "list_type": "expected a list",
    "dict_type": "expected a mapping of keys to values",
    "model_type": "expected a mapping of keys to values",
    "too_short": "expected at least one item",
}


def validate_piece(adapter: TypeAdapter[T], value: object, path: KeyPath, document: Document) -> T | list[Problem]:
    """Return *value*, which stands at *path* of *document*, as what *adapter* makes of it, or all its problems."""
    problems = [
        Problem(
            path=null,
            kind=Kind.REQUIRED,
            detail="the key has no value; write one, or remove the key",
            file=document.file,
            line=document.get_line(null),
        )
        for null in _find_nulls(value, path)
    ]
    try:
        piece = adapter.validate_python(_drop_nulls(value) if problems else value)
    except ValidationError as error:
        missing = {problem.path for problem in problems}
        found = (_build_problem(details, path, document, adapter) for details in error.errors(include_url=False))
        return [*problems, *(problem for problem in found if problem.path not in missing)]
    return problems or piece


def build_unknown_key(path: KeyPath, known: Iterable[str], document: Document, hint: str = "") -> Problem:
    """Return the problem of the key at *path*, which is none of *known*; *hint* stands in place of a guess."""
    names = list(known)
    nearest = find_nearest(str(path[-1]), names)
    guess = f'did you mean "{nearest}"?' if nearest else f"known here: {', '.join(names)}"
    return Problem(
        path=path, kind=Kind.UNKNOWN_KEY, detail=hint or guess, file=document.file, line=document.get_line(path)
    )


def list_known_keys(adapter: TypeAdapter[Any], path: KeyPath = ()) -> list[str]:
    """Return the keys that *adapter*'s mapping takes at *path*, as its JSON Schema names them."""
    root = adapter.json_schema(by_alias=True)
    nodes: list[Mapping[str, Any]] = [root]
    for part in path:
        nodes = [child for node in nodes for child in _descend(node, part, root)]
    return [key for node in nodes for resolved in _resolve(node, root) for key in resolved.get("properties", {})]


def _build_problem(details: Any, base: KeyPath, document: Document, adapter: TypeAdapter[Any]) -> Problem:  # noqa: ANN401 - pydantic's ErrorDetails
    parts = [part for part in details["loc"] if part not in UNION_TAGS]
    is_key = bool(parts) and parts[-1] == "[key]" and details["input"] == (parts[-2] if len(parts) > 1 else base[-1])
    local: KeyPath = tuple(parts[:-1] if is_key else parts)
    path = base + local
    line = document.get_line(path)
    kind: str = details["type"]
    if kind == "extra_forbidden":
        return build_unknown_key(path, list_known_keys(adapter, local[:-1]), document)
    if kind == "missing":
        return Problem(path=path, kind=Kind.REQUIRED, detail="this key is needed", file=document.file, line=line)
    value: object = details["input"]
    return Problem(
        path=path,
        kind=Kind.INVALID,
        value=quote_value(value) if is_key else format_value(path, value),
        detail=_describe(kind, details, value),
        file=document.file,
        line=line,
    )


def _describe(kind: str, details: Any, value: object) -> str:  # noqa: ANN401 - pydantic's ErrorDetails
    context: Mapping[str, Any] = details.get("ctx", {})
    match kind:
        case "refused":
            return str(context["detail"])
        case "literal_error":
            return f"expected {str(context['expected']).replace(chr(39), '')}"
        case "greater_than_equal":
            return f"expected at least {context['ge']}"
        case "less_than_equal":
            return f"expected at most {context['le']}"
        case "string_type" if isinstance(value, bool | int | float):
            return "expected text: put it in quotes"
        case _:
            return _EXPECTED.get(kind, str(details["msg"]))


def _find_nulls(value: object, path: KeyPath) -> Iterator[KeyPath]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _find_nulls(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_nulls(child, (*path, index))


def _drop_nulls(value: object) -> object:
    """Return *value* without keys that have no value; a list keeps its places."""
    if isinstance(value, dict):
        return {key: _drop_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_drop_nulls(child) for child in value]
    return value


def _descend(node: Mapping[str, Any], part: str | int, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resolved in _resolve(node, root):
        if isinstance(part, int):
            children = [resolved.get("items")]
        else:
            children = [resolved.get("properties", {}).get(part, resolved.get("additionalProperties"))]
        yield from (child for child in children if isinstance(child, dict))


def _resolve(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that *node* stands for: references followed, every form of a union."""
    if "$ref" in node:
        yield from _resolve(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    forms = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for form in forms:
        yield from _resolve(form, root)
    if not forms:
        yield node
