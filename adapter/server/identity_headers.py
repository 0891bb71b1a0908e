"""For whom a front proxy asks: the request's X-Remote-* headers.

Source: k8s.io/apiserver pkg/authentication/request/headerrequest.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from adapter.domain.identity import AuthenticationSettings, User

Header = tuple[bytes, bytes]

_USERS_KEPT = 4096
_LONGEST_KEPT_BYTES = 8192


class IdentityHeaders:
    """Reads users from headers by the names that *settings* give them, each combination of values once.

    The values are the same in request after request (there is one HPA controller), and reading them costs as much as
    the rest of an answer.
    """

    def __init__(self, settings: AuthenticationSettings) -> None:
        self._settings = settings
        names = (*settings.username_headers, *settings.uid_headers, *settings.group_headers)
        self._names = frozenset(name.encode() for name in names)
        self._prefixes = tuple(prefix.encode() for prefix in settings.extra_header_prefixes)
        self._users: dict[tuple[Header, ...], User | None] = {}

    def read(self, headers: Iterable[Header]) -> User | None:
        """Return the user whom the front proxy names, None if it names nobody. Header names are in lower case."""
        names, prefixes = self._names, self._prefixes
        said = tuple([header for header in headers if header[0] in names or header[0].startswith(prefixes)])
        if said in self._users:
            return self._users[said]
        user = self._build_user(said)
        if sum(len(name) + len(value) for name, value in said) <= _LONGEST_KEPT_BYTES:
            if len(self._users) >= _USERS_KEPT:
                self._users.clear()
            self._users[said] = user
        return user

    def _build_user(self, said: Iterable[Header]) -> User | None:
        settings = self._settings
        values: defaultdict[str, list[str]] = defaultdict(list)
        for raw_name, raw_value in said:
            values[raw_name.decode("latin-1")].append(raw_value.decode("utf-8", errors="replace").strip())
        name = _find_first(values, settings.username_headers)
        if not name:
            return None
        extra: defaultdict[str, list[str]] = defaultdict(list)
        for prefix in settings.extra_header_prefixes:
            for header, given in values.items():
                if header.startswith(prefix):
                    extra[unquote(header[len(prefix) :])] += given
        return User(
            name=name,
            uid=_find_first(values, settings.uid_headers),
            groups=tuple(group for header in settings.group_headers for group in values.get(header, ()) if group),
            extra=tuple(sorted((key, tuple(given)) for key, given in extra.items())),
        ).with_authenticated_group()


def _find_first(values: Mapping[str, list[str]], names: Sequence[str]) -> str:
    return next((given[0] for name in names if (given := values.get(name)) and given[0]), "")
