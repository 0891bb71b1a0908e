"""The query parameters that the Kubernetes API gives a meaning, read as the Go API servers read them.

Sources: apimachinery pkg/runtime/conversion.go (every `watch` but "false" and "0" means true, an empty one too) and
apiserver pkg/endpoints/handlers/negotiation (`pretty` as strconv.ParseBool has it; an empty one is none).
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.types import Scope

from adapter.errors import BadSelector

_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_PEOPLE = (b"curl", b"Wget", b"Mozilla/")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What a request asks beyond its path; *selector* is the labelSelector's text, empty for none."""

    selector: str = ""
    is_watch: bool = False
    is_pretty: bool = False


def parse_options(scope: Scope) -> QueryOptions:
    """Return the options of a request.

    Raises BadSelector for what would be a filter and cannot be one: a broken encoding, two labelSelectors, a
    fieldSelector. Ignoring a filter would answer with more than was asked for.
    """
    raw: bytes = scope["query_string"]
    if not raw:
        return QueryOptions(is_pretty=_is_person(scope))
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
        is_pretty=pretty in _TRUE if pretty else _is_person(scope),
    )


def _is_person(scope: Scope) -> bool:
    return any(name == b"user-agent" and value.startswith(_PEOPLE) for name, value in scope["headers"])
