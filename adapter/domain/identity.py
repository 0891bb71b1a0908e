"""Who asks, and by whose word the server believes it."""

from dataclasses import dataclass

AUTHENTICATED_GROUP = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A Kubernetes user; *extra* is what the authenticator added, keys in lower case.

    Source: k8s.io/apiserver pkg/authentication/user.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def with_authenticated_group(self) -> "User":
        """Return this user as a member of system:authenticated, which every user is that some authenticator knows."""
        if AUTHENTICATED_GROUP in self.groups:
            return self
        return User(self.name, self.uid, (*self.groups, AUTHENTICATED_GROUP), self.extra)


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """Whom the cluster's API server lets speak for others, and which users have certificates.

    PEM bundles are empty where the cluster has none. *allowed_names* empty means any. Header names are in lower case.

    Source: ConfigMap kube-system/extension-apiserver-authentication.
    """

    requestheader_ca_pem: bytes = b""
    client_ca_pem: bytes = b""
    allowed_names: frozenset[str] = frozenset()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ("x-remote-uid",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_header_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """What a user wants to do. A *path* asks about a URL that is no resource; the rest is empty then."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """What the cluster's authorizer says, with its reason if it gave one."""

    is_allowed: bool
    reason: str = ""
