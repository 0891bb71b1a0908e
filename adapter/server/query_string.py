"""The query parameters that the Kubernetes API gives a meaning, read as the Go API servers read them.

Sources: apimachinery pkg/runtime/conversion.go (every `watch` but "false" and "0" means true, an empty one too) and
apiserver pkg/endpoints/handlers/negotiation (`pretty` as strconv.ParseBool has it; an empty one is none).
"""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl

from starlette.types import Scope

from adapter.errors import BadSelector

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_KEPT = 4096
_LONGEST_KEPT_BYTES = 1024
_PEOPLE = (b"curl", b"Wget", b"Mozilla/")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What a request asks beyond its path.

    *selector* is the labelSelector's text, empty for none; *is_pretty* is None where nothing is said of it.
    """

    selector: str = ""
    is_watch: bool = False
    is_pretty: bool | None = None


def parse_options(raw: bytes) -> QueryOptions:
    """Return the options in a query string.

    Raises BadSelector for what would be a filter and cannot be one: a broken encoding, two labelSelectors, a
    fieldSelector. Ignoring a filter would answer with more than was asked for.
    """
    return _parse(raw) if len(raw) <= _LONGEST_KEPT_BYTES else _parse.__wrapped__(raw)


@lru_cache(_KEPT)
def _parse(raw: bytes) -> QueryOptions:
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise BadSelector(selector="", detail="the query string is not percent-encoded UTF-8") from error
    options = dict(reversed(pairs))  # of several, the first counts
    selector = options.get("labelSelector", "")
    if sum(name == "labelSelector" for name, _ in pairs) > 1:
        raise BadSelector(selector=selector, detail="labelSelector is given more than once")
    for name, value in pairs:
        if name == "fieldSelector" and value:
            raise BadSelector(selector=value, detail="external metrics have no field selectors")
    pretty = options.get("pretty")
    return QueryOptions(
        selector=selector,
        is_watch=options.get("watch", "0").lower() not in {"0", "false"},
        is_pretty=pretty in _TRUE if pretty else None,
    )


def is_person(scope: Scope) -> bool:
    """Return whether the request comes from a tool for people, which is given indented JSON unless it says otherwise.

    Source: apiserver pkg/endpoints/handlers/negotiation, isPrettyPrint.
    """
    for name, value in scope["headers"]:
        if name == b"user-agent":
            return bool(value.startswith(_PEOPLE))
    return False
