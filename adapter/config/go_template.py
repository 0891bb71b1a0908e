"""Go's text/template with the delimiters `<<` and `>>`, as far as prometheus-adapter's rules use it: fields only."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ACTION: Final = re.compile(r"<<(?P<left>-[ \t\r\n])?(?P<body>.*?)(?P<right>[ \t\r\n]-)?>>", re.DOTALL)
_BLANKS: Final = " \t\r\n"


class BadAction(ValueError):
    """An action that is not read here. *construct* is its text; `str()` says what is wrong."""

    def __init__(self, construct: str, detail: str) -> None:
        super().__init__(detail)
        self.construct = construct


def list_actions(text: str) -> list[str]:
    """Return what stands between the delimiters of *text*, in order, comments left out."""
    return [body for body in (action["body"].strip() for action in _ACTION.finditer(text)) if not _is_comment(body)]


def render_fields(text: str, fields: Mapping[str, str]) -> str:
    """Return *text* with `<<.Name>>` replaced by `fields[".Name"]`; `<<-` and `->>` trim the blanks beside them.

    Raises: BadAction for everything but fields and comments.
    """
    return "".join(_render(text, fields))


def _render(text: str, fields: Mapping[str, str]) -> Iterator[str]:
    position = 0
    is_trimmed = False
    for action in _ACTION.finditer(text):
        literal = text[position : action.start()]
        literal = literal.lstrip(_BLANKS) if is_trimmed else literal
        yield literal.rstrip(_BLANKS) if action["left"] else literal
        position = action.end()
        is_trimmed = bool(action["right"])
        body = action["body"].strip()
        if body in fields:
            yield fields[body]
        elif not _is_comment(body):
            raise BadAction(body, f"only {', '.join(f'<<{name}>>' for name in fields)} can stand here")
    rest = text[position:]
    if "<<" in rest:
        raise BadAction(rest[rest.index("<<") + 2 :].strip(), "<< begins a template action that does not end")
    yield rest.lstrip(_BLANKS) if is_trimmed else rest


def _is_comment(body: str) -> bool:
    return body.startswith("/*") and body.endswith("*/")
