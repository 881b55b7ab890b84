"""The kernels of a dashboard: one for each page, with its user's credentials alone, for that user's session alone."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.auth import Authorizer
from jupyter_server.auth.identity import IdentityProvider, User
from jupyter_server.base.call_context import CallContext
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from tornado import web

from spdist.dashboard.sessions import KernelUse, UserSession, UserSessions, oldest_beyond
from spdist.dashboard.upstream import Upstream

if TYPE_CHECKING:
    from tornado.websocket import WebSocketHandler

__all__ = [
    "ALLOWED_MESSAGES",
    "OwnKernels",
    "OwnPython",
    "SessionUsers",
    "Visitor",
    "VisitorKernels",
    "kernel_environment",
]

#: What a page may say to its kernel: what widgets say, and what a connection begins with. No code.
ALLOWED_MESSAGES = ("comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request")
#: Variables of the dashboard's environment that kernels see; others may be secrets.
_SEEN = {
    *("CONDA_PREFIX", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
}


def kernel_environment(own: Mapping[str, str], upstream: Upstream, session: UserSession) -> dict[str, str]:
    """Return the environment of a kernel: what Python needs of `own`, where the managers are, and the user."""
    plain = {name: value for name, value in own.items() if name in _SEEN or name.startswith("LC_")}
    user = {"SPDIST_USER": session.username, "SPDIST_PASSWORD": session.password}
    return {**plain, **upstream.to_environment(), **user, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


@dataclass
class Visitor(User):
    """A user as Jupyter's server knows one, with the session."""

    session: UserSession | None = None


class SessionUsers(IdentityProvider):
    """Tells by the cookie with a session's id who calls; there are no tokens and no other ways in."""

    sessions: UserSessions

    def get_user(self, handler: web.RequestHandler) -> Visitor | None:
        """Return who calls; None for a stranger."""
        # Jupyter's server keeps there whom it has found for this request.
        known = getattr(handler, "_jupyter_current_user", None)
        if known is not None:
            return known  # type: ignore[no-any-return]
        session = self.sessions.find(handler.get_cookie(self.get_cookie_name(handler), "") or "")
        return None if session is None else Visitor(session.username, session=session)

    def is_token_authenticated(self, handler: web.RequestHandler) -> bool:
        """Return False: origin and XSRF token are always looked at."""
        return False


class OwnKernels(Authorizer):
    """Lets a user have the kernels of this session, and files of JupyterLab's extensions; nothing else."""

    def is_authorized(self, handler: Any, user: User, action: str, resource: str) -> bool:
        """Tell whether a request may go on."""
        if resource != "kernels":
            return action == "read"
        assert isinstance(user, Visitor)
        return bool(handler.kernel_manager.is_of(handler.path_kwargs.get("kernel_id", ""), user.session))


class OwnPython(KernelSpecManager):
    """Knows one kernel: the Python that this dashboard runs with."""

    def _kernel_dirs_default(self) -> list[str]:
        return []


class VisitorKernels(AsyncMappingKernelManager):
    """Starts kernels for the sessions of users, and ends them with these.

    State
    -----
    For each kernel its session, when its page was connected last, and the page's connections. Four kernels at most
    for each session.
    """

    upstream: Upstream

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._uses: dict[str, KernelUse] = {}
        self._pages: dict[str, set[WebSocketHandler]] = {}

    def is_of(self, kernel_id: str, session: UserSession | None) -> bool:
        """Tell whether a kernel was started for this session."""
        use = self._uses.get(kernel_id)
        return use is not None and use.session is session

    async def start_kernel(self, **given: Any) -> str:  # type: ignore[override] # as its parent has it
        """Start a kernel for the user of the request that is being answered, and return its id."""
        session: UserSession = CallContext.get(CallContext.JUPYTER_HANDLER).current_user.session
        for oldest in oldest_beyond(self._uses, session):
            await self.end(oldest)
        kernel_id = str(uuid.uuid4())
        self._uses[kernel_id] = KernelUse(session, time.monotonic())  # now: those that start are counted, too
        given |= {"kernel_id": kernel_id, "env": kernel_environment(os.environ, self.upstream, session)}
        await super().start_kernel(**given)
        # While it started the session may have ended, or another page have taken its place.
        if session.ended or kernel_id not in self._uses:
            await self.end(kernel_id)
            raise web.HTTPError(403, "this session has ended, or has opened too many pages")
        return kernel_id

    async def shutdown_kernel(  # type: ignore[override] # as its parent has it
        self, kernel_id: str, now: bool = False, restart: bool = False
    ) -> None:
        """End a kernel, and the connections of its page."""
        # Before it ends: from here on it is nobody's, and no request is let in to it.
        self._uses.pop(kernel_id, None)
        for page in self._pages.pop(kernel_id, ()):
            page.close()
        await super().shutdown_kernel(kernel_id, now=now, restart=restart)

    async def end(self, kernel_id: str) -> None:
        """Do the same to a kernel that may have ended meanwhile."""
        with suppress(web.HTTPError, KeyError):
            await self.shutdown_kernel(kernel_id, now=True)

    def connected(self, kernel_id: str, page: WebSocketHandler) -> None:
        """Note a connection of a page."""
        self._pages.setdefault(kernel_id, set()).add(page)

    def disconnected(self, kernel_id: str, page: WebSocketHandler) -> None:
        """Note that it is over."""
        self._pages.get(kernel_id, set()).discard(page)

    async def sweep(self) -> None:
        """End the kernels that nobody needs any more."""
        now_s = time.monotonic()
        # A copy: `end` waits, and kernels come and go meanwhile.
        for kernel_id, use in tuple(self._uses.items()):
            if self._pages.get(kernel_id):
                use.connected_s = now_s
            if use.is_over(now_s):
                await self.end(kernel_id)
