"""YAML as plain data, with the line of every value.

Built from PyYAML's events, not by its loader: so duplicate keys are seen, no tag creates an object, aliases cannot
multiply without bound and nesting cannot exhaust the stack.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from adapter.config.problems import KeyPath, Kind, Problem, quote_value

DEPTH_LIMIT: Final = 40
VALUES_LIMIT: Final = 500_000

_PREFIX: Final = "tag:yaml.org,2002:"
_AS_TEXT: Final = frozenset({_PREFIX + name for name in ("str", "timestamp", "value", "merge")})
_TRUE: Final = frozenset({"yes", "true", "on"})
_FALSE: Final = frozenset({"no", "false", "off"})
_PLAIN_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_PLAIN_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][-+]?[0-9]{1,5})?")
_NOT_TEXT: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Document:
    """One file's data, and where each value of it stands."""

    file: str
    data: object
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...] = ()

    def get_line(self, path: KeyPath) -> int:
        """Return the line of *path*, or of the nearest thing around it, counted from 1."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return self.lines.get((), 1)


@dataclass(slots=True)
class _Node:
    """A value with its line; *entries* are a mapping's (key, line, node) or a list's (index, line, node)."""

    line: int
    scalar: object = None
    entries: list[tuple[str | int, int, "_Node"]] | None = None
    is_mapping: bool = False
    values: int = 1


class _Refused(Exception):
    def __init__(self, line: int, detail: str, kind: Kind = Kind.SYNTAX) -> None:
        super().__init__(detail)
        self.line = line
        self.detail = detail
        self.kind = kind


def parse_document(content: bytes, file: str) -> Document:
    """Return the one YAML document in *content*; what is wrong with it is in its `problems`.

    Keys are their text, whatever YAML would make of them (`on`, `1`); dates and times are text too. The data is None
    if nothing could be read.
    """
    try:
        text = _decode(content)
        builder = _Builder(text, file)
        root = builder.build()
    except _Refused as refused:
        problem = Problem(path=(), kind=refused.kind, detail=refused.detail, file=file, line=refused.line)
        return Document(file=file, data=None, lines={(): refused.line}, problems=(problem,))
    lines: dict[KeyPath, int] = {(): root.line}
    return Document(file=file, data=_flatten(root, (), lines), lines=lines, problems=tuple(builder.problems))


def _decode(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _Refused(1, "the file is UTF-16; save it as UTF-8", Kind.UNREADABLE)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise _Refused(line, f"not UTF-8 text (byte 0x{byte:02x})", Kind.UNREADABLE) from error
    if bad := _NOT_TEXT.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        raise _Refused(line, f"not a text file (character {bad[0]!a})", Kind.UNREADABLE)
    return text


def _flatten(node: _Node, path: KeyPath, lines: dict[KeyPath, int]) -> object:
    if node.entries is None:
        return node.scalar
    if node.is_mapping:
        mapping: dict[str, object] = {}
        for key, line, child in node.entries:
            lines[*path, key] = line
            mapping[str(key)] = _flatten(child, (*path, key), lines)
        return mapping
    items: list[object] = []
    for key, line, child in node.entries:
        lines[*path, key] = line
        items.append(_flatten(child, (*path, key), lines))
    return items


@dataclass(slots=True)
class _Builder:
    """Turns the events of one text into nodes."""

    text: str
    file: str
    problems: list[Problem] = field(default_factory=list)
    _anchors: dict[str, _Node] = field(default_factory=dict)
    _values: int = 0
    _loader: Any = None
    _events: Iterator[Any] = field(default_factory=lambda: iter(()))

    def build(self) -> _Node:
        loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._loader = loader_class(self.text)
        self._events = self._read_events()
        try:
            return self._build_document()
        finally:
            self._loader.dispose()

    def _read_events(self) -> Iterator[Any]:
        while True:
            try:
                event = self._loader.get_event()
            except yaml.MarkedYAMLError as error:
                raise _Refused(_error_line(error), self._describe(error)) from error
            except (yaml.YAMLError, ValueError, RecursionError) as error:
                raise _Refused(1, str(error)) from error
            if event is None:
                return
            yield event

    def _describe(self, error: yaml.MarkedYAMLError) -> str:
        problem, mark = error.problem or "not valid", error.problem_mark
        text = f"{problem} {error.context}" if error.context else problem
        if mark is None:
            return text
        line = self.text.split("\n")[mark.line : mark.line + 1]
        if line and line[0][mark.column : mark.column + 1] == "\t":
            return "a tab where YAML allows only spaces: indent with spaces"
        return f"{text}, column {mark.column + 1}"

    def _build_document(self) -> _Node:
        next(self._events)  # the stream's start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise _Refused(1, "the file is empty; at the least, write `metrics: []`", Kind.UNREADABLE)
        root = self._build_node(next(self._events), (), 0)
        next(self._events)  # the document's end
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise _Refused(
                event.start_mark.line + 1, "a second YAML document begins here; only one a file is read: split the file"
            )
        return root

    def _build_node(self, event: Any, path: KeyPath, depth: int) -> _Node:  # noqa: ANN401 - PyYAML is untyped
        line: int = event.start_mark.line + 1
        if depth > DEPTH_LIMIT:
            raise _Refused(line, f"nested more than {DEPTH_LIMIT} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event.anchor, line)
        self._count(1, line)
        node = _Node(line=line)
        if isinstance(event, yaml.ScalarEvent):
            node.scalar = self._build_scalar(event, path, line)
        else:
            self._check_tag(event, line)
            node.is_mapping = isinstance(event, yaml.MappingStartEvent)
            node.entries = self._build_mapping(node, path, depth) if node.is_mapping else self._build_list(path, depth)
            node.values += sum(child.values for _, _, child in node.entries)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _resolve_alias(self, anchor: str | None, line: int) -> _Node:
        node = self._anchors.get(anchor) if anchor is not None else None
        if node is None:
            raise _Refused(line, f"the alias *{anchor} names no finished anchor before it")
        self._count(node.values, line)
        return node

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > VALUES_LIMIT:
            raise _Refused(line, f"more than {VALUES_LIMIT} values, aliases counted as often as they are used")

    def _check_tag(self, event: Any, line: int) -> None:  # noqa: ANN401 - PyYAML is untyped
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _PREFIX + kind):
            raise _Refused(line, f"the tag {_show_tag(event.tag)} is not supported")

    def _build_list(self, path: KeyPath, depth: int) -> list[tuple[str | int, int, _Node]]:
        entries: list[tuple[str | int, int, _Node]] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            index = len(entries)
            line = event.start_mark.line + 1
            entries.append((index, line, self._build_node(event, (*path, index), depth + 1)))
        return entries

    def _build_mapping(self, node: _Node, path: KeyPath, depth: int) -> list[tuple[str | int, int, _Node]]:
        own: dict[str, tuple[int, _Node]] = {}
        merged: list[tuple[str | int, int, _Node]] = []
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            line = event.start_mark.line + 1
            key, is_merge = self._read_key(event, line)
            child = self._build_node(next(self._events), (*path, key), depth + 1)
            if is_merge:
                merged += _list_merged(child, line)
            elif key in own:
                self._report_duplicate((*path, key), line, own[key][0])
            else:
                own[key] = (line, child)
        if merged:
            node.values += len(merged)
            self._count(sum(child.values for _, _, child in merged), node.line)
        entries: dict[str | int, tuple[int, _Node]] = {key: entry for key, entry in own.items()}  # noqa: C416 - widens the key type
        for name, line, child in merged:
            entries.setdefault(name, (line, child))
        return [(name, line, child) for name, (line, child) in entries.items()]

    def _read_key(self, event: Any, line: int) -> tuple[str, bool]:  # noqa: ANN401 - PyYAML is untyped
        """Return a key's text, and whether it is YAML's merge key."""
        if isinstance(event, yaml.AliasEvent):
            key = self._resolve_alias(event.anchor, line).scalar
            if isinstance(key, str):
                return key, False
        elif isinstance(event, yaml.ScalarEvent):
            self._count(1, line)
            text: str = event.value
            if event.anchor:
                self._anchors[event.anchor] = _Node(line=line, scalar=text)
            return text, text == "<<" and event.implicit[0]
        raise _Refused(line, "a key must be plain text")

    def _report_duplicate(self, path: KeyPath, line: int, first_line: int) -> None:
        self.problems.append(
            Problem(
                path=path,
                kind=Kind.DUPLICATE,
                value=quote_value(path[-1]),
                detail=f"the same key stands at {self.file}:{first_line}",
                file=self.file,
                line=line,
            )
        )

    def _build_scalar(self, event: Any, path: KeyPath, line: int) -> object:  # noqa: ANN401 - PyYAML is untyped
        text: str = event.value
        tag: str | None = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit if tag is None else (False, True))
        try:
            return _convert_scalar(tag, text)
        except ValueError:
            kind = tag.removeprefix(_PREFIX)
            self.problems.append(
                Problem(
                    path=path,
                    kind=Kind.INVALID,
                    detail=f"not a number or constant that is read here (YAML's {kind}); put text in quotes",
                    file=self.file,
                    line=line,
                )
            )
            return text
        except LookupError:
            raise _Refused(line, f"the tag {_show_tag(tag)} is not supported") from None


def _convert_scalar(tag: str, text: str) -> object:
    """Return the value of a scalar; raises ValueError for a bad one, LookupError for a tag that is not read."""
    if tag in _AS_TEXT:
        return text
    match tag.removeprefix(_PREFIX):
        case "null":
            return None
        case "bool":
            if text.lower() in _TRUE | _FALSE:
                return text.lower() in _TRUE
            raise ValueError(text)
        case "int":
            if _PLAIN_INTEGER.fullmatch(text):
                return int(text)
            raise ValueError(text)
        case "float":
            number = float(text) if _PLAIN_FLOAT.fullmatch(text) else math.nan
            if math.isfinite(number):
                return number
            raise ValueError(text)
    raise LookupError(tag)


def _list_merged(node: _Node, line: int) -> list[tuple[str | int, int, _Node]]:
    """Return the entries that a merge key brings in: of one mapping, or of several, the first one winning."""
    sources = [node] if node.is_mapping else [child for _, _, child in node.entries or ()]
    if not sources or not all(source.is_mapping for source in sources):
        raise _Refused(line, "the merge key << needs a mapping or a list of mappings")
    return [entry for source in sources for entry in source.entries or ()]


def _error_line(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark is not None else 1


def _show_tag(tag: str) -> str:
    return quote_value(tag.replace(_PREFIX, "!!"))
