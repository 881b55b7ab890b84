"""What a dashboard answers: the login, the index, the pages with panels, and the connection of a page to its kernel."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.auth.login import LoginFormHandler
from jupyter_server.base.handlers import FileFindHandler, JupyterHandler, Template404
from jupyter_server.services.kernels.handlers import KernelsAPIHandler
from jupyterlab_server.themes_handler import ThemesHandler
from tornado import web
from voila.app import Voila
from voila.static_file_handler import MultiStaticFileHandler, TemplateStaticFileHandler
from voila.tornado.handler import TornadoVoilaHandler
from voila.tornado.kernel_websocket_handler import VoilaKernelWebsocketHandler

from spdist.dashboard.kernels import SessionUsers
from spdist.dashboard.sessions import UserSessions
from spdist.dashboard.upstream import Upstream
from spdist.errors import ClusterUnreachableError, SpdistError, UnauthorizedError
from spdist.transports.sockets.guesses import GuessingQueue, TooManyGuesses
from spdist.transports.sockets.logins import WrongLogins

__all__ = ["PAGES", "routes"]

_log = logging.getLogger("spdist.dashboard")
_wrong_logins = WrongLogins(_log)
#: Page → what it is for.
PAGES = {
    "monitor": "Who leads, what runs where, how far each group is behind.",
    "deploy": "Write, check and deploy apps.",
}
#: What became of a question to the managers → status; 429: they slow down guesses, too.
_STATUS: dict[type[SpdistError], int] = {ClusterUnreachableError: 503, UnauthorizedError: 429}
_KERNEL = r"(?P<kernel_id>[\w-]+)"


def routes(app: Voila, upstream: Upstream) -> list[tuple[Any, ...]]:
    """Return all that is answered; of Voila and Jupyter only what the pages need."""
    page = {"template_paths": app.template_paths, "config": app.config, "voila_configuration": app.voila_configuration}
    extensions = {"path": app.labextensions_path, "no_cache_paths": ["/"]}
    themes = {"themes_url": "/voila/api/themes", "path": app.themes_dir, "labextensions_path": app.labextensions_path}
    static = {"paths": app.static_paths, "default_filename": "index.html"}
    return [
        (r"/", IndexPage),
        (r"/login", LoginPage, {"upstream": upstream, "guesses": GuessingQueue()}),
        (r"/logout", LogoutPage),
        (rf"/({'|'.join(PAGES)})", PanelPage, page),
        (rf"/api/kernels/{_KERNEL}", KernelModel),
        (rf"/api/kernels/{_KERNEL}/channels", KernelChannels),
        (rf"/voila/api/shutdown/{_KERNEL}", KernelEnd),
        (r"/voila/templates/([\w-]+/static/.*)", TemplateStaticFileHandler),
        (r"/voila/static/(.*)", MultiStaticFileHandler, static),
        (r"/voila/api/themes/(.*)", ThemesHandler, themes),
        (r"/voila/labextensions/(.*)", FileFindHandler, extensions),
        (r".*", Template404),
    ]


def sessions_of(handler: JupyterHandler) -> UserSessions:
    """Return the sessions that the users of a request belong to."""
    assert isinstance(handler.identity_provider, SessionUsers)
    return handler.identity_provider.sessions


# --- people
class LoginPage(LoginFormHandler):
    """A form for name and password; a manager says whether they are right."""

    def initialize(self, upstream: Upstream, guesses: GuessingQueue) -> None:
        """Know whom to ask."""
        self._upstream, self._guesses = upstream, guesses

    @allow_unauthenticated
    async def post(self) -> None:
        """Begin a session."""
        username, address = self.get_body_argument("username", ""), self.request.remote_ip or ""
        # Blanks may be part of a password.
        password = self.get_body_argument("password", "", strip=False)
        try:
            granted = await self._guesses.verified(
                username, address, partial(self._upstream.may_look, username, password)
            )
        except TooManyGuesses as refused:
            self.set_header("Retry-After", str(refused.retry_after_s))
            self._refuse(429, str(refused))
        except SpdistError as error:
            self._refuse(_STATUS.get(type(error), 502), error.message)
        else:
            if granted:
                self._let_in(username, password)
            elif granted is None:
                _wrong_logins.add(username, address)
                self._refuse(401, "user name or password are wrong")
            else:
                self._refuse(403, "this user may not look at the cluster: it needs the permission siddhiApp.view")

    def _let_in(self, username: str, password: str) -> None:
        sessions = sessions_of(self)
        # Its cookie is replaced, and it would stay until it has been idle for long enough.
        if self.current_user:
            sessions.end(self.current_user.session)
        name, secure = self.identity_provider.get_cookie_name(self), self.request.protocol == "https"
        session_id = sessions.begin(username, password)
        # Strict: no page of another site can have the browser act as this user.
        self.set_cookie(name, session_id, httponly=True, samesite="Strict", secure=secure, path="/")
        _log.info("user %r from %s has logged in", username, self.request.remote_ip)
        self._redirect_safe(self.get_argument("next", "/"))

    def _refuse(self, status: int, message: str) -> None:
        self.set_status(status)
        self._render(message)


class LogoutPage(JupyterHandler):
    """A button that ends the session, and its kernels with it."""

    def get(self) -> None:
        """Ask."""
        self.write(self.render_template("logout.html", user=self.current_user))

    async def post(self) -> None:
        """End the session; it is over when this is answered."""
        sessions_of(self).end(self.current_user.session)
        await self.kernel_manager.sweep()  # type: ignore[attr-defined]
        self.clear_cookie(self.identity_provider.get_cookie_name(self))
        self.redirect("/login")


class IndexPage(JupyterHandler):
    """Which pages there are."""

    def get(self) -> None:
        """Show the links."""
        self.write(self.render_template("index.html", user=self.current_user, pages=PAGES))


class PanelPage(TornadoVoilaHandler):  # type: ignore[misc]
    """A page with a panel, and a kernel of its own behind it."""

    async def get(self, name: str) -> None:
        """Start the kernel, and show the panel as soon as it is there."""
        if self.get_argument("theme", "light") not in ("light", "dark"):
            raise web.HTTPError(400, "theme is light or dark")
        sessions_of(self).use(self.current_user.session)
        await super().get(f"{name}.ipynb")


# --- their kernels
class KernelModel(KernelsAPIHandler):
    """A kernel of this session, for its page."""

    @authorized
    async def get(self, kernel_id: str) -> None:
        """Tell how it is."""
        self.finish(self.kernel_manager.kernel_model(kernel_id))


class KernelEnd(KernelsAPIHandler):
    """The end of a kernel whose page is left."""

    @authorized
    async def post(self, kernel_id: str) -> None:
        """End it."""
        await self.kernel_manager.end(kernel_id)  # type: ignore[attr-defined]
        self.set_status(204)
        self.finish()


class KernelChannels(VoilaKernelWebsocketHandler):  # type: ignore[misc]
    """The connection of a page to its kernel: what widgets say to each other."""

    async def open(self, kernel_id: str) -> None:
        """Begin."""
        self.kernel_manager.connected(kernel_id, self)
        await super().open(kernel_id)

    def on_message(self, message: str | bytes) -> None:
        """Hand on what the page says; a session is used as long as somebody clicks."""
        session = self.current_user.session
        # A connection is authenticated when it is opened, and may outlive its session.
        if session.ended:
            self.close()
            return
        sessions_of(self).use(session)
        super().on_message(message)

    def on_close(self) -> None:
        """End."""
        self.kernel_manager.disconnected(self.path_kwargs["kernel_id"], self)
        super().on_close()
