"""Who may come in: authentication, then authorization, before anything else is looked at."""

from starlette.types import Scope

from adapter.server.authn import Authenticator
from adapter.server.authz import Authorizer, build_metric_question, build_path_question, is_open_path


class Door:
    """Lets a request pass, or raises why not."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def check_admission(self, scope: Scope, target: tuple[str, str] | None) -> None:
        """Return if the request may be answered; *target* is the (namespace, metric) of a metric's path.

        Raises: Unauthenticated, Forbidden. The probes' paths are open to everyone.
        """
        if target is None and is_open_path(scope["path"]):
            return
        user = await self._authenticator.authenticate(scope)
        question = build_path_question(scope) if target is None else build_metric_question(scope["method"], *target)
        await self._authorizer.check_access(user, question)
