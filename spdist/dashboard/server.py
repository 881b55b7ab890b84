"""A dashboard as a server: Voila's settings and kernels, our users, our routes."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jupyter_server.base.websocket import WS_PING_INTERVAL
from jupyter_server.services.contents.largefilemanager import LargeFileManager
from tornado.httpserver import HTTPServer
from tornado.ioloop import PeriodicCallback
from tornado.netutil import bind_sockets
from tornado.web import Application
from traitlets.config import Config
from voila.app import Voila
from voila.configuration import VoilaConfiguration

from spdist.config import LOOPBACK
from spdist.dashboard.handlers import routes
from spdist.dashboard.kernels import ALLOWED_MESSAGES, OwnKernels, OwnPython, SessionUsers, VisitorKernels
from spdist.dashboard.sessions import UserSessions
from spdist.dashboard.upstream import Upstream
from spdist.errors import ConfigError, TransportError
from spdist.transports.sockets.tls import Certificate, server_context

__all__ = ["DashboardSettings", "serve_dashboard"]

_HERE = Path(__file__).parent
_SWEEP_S = 5.0
#: Nothing comes from elsewhere, and nobody else may frame it. JupyterLab's widgets compile functions.
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
#: JupyterLab's extensions that the pages load; others of this installation are none of theirs.
_EXTENSIONS = ["@jupyter-widgets/jupyterlab-manager", "@voila-dashboards/widgets-manager8"]


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """What a dashboard is told.

    Parameters
    ----------
    upstream : Upstream
        The managers.
    host : str
        Where it listens.
    port : int
        0 lets the system choose.
    certificate : Certificate, optional
        For https; without it only this machine may call.
    idle_s : float
        Without a click for so long a session ends, s.

    Raises
    ------
    ConfigError
        Passwords would cross the network in clear.
    """

    upstream: Upstream
    host: str = "127.0.0.1"
    port: int = 8899
    certificate: Certificate | None = None
    idle_s: float = 3600.0

    def __post_init__(self) -> None:
        if self.certificate is None and self.host not in LOOPBACK:
            raise ConfigError(
                f"without TLS passwords would cross the network to {self.host} in clear",
                hint="give --tls-cert-file and --tls-key-file (spdist tls add makes them), or --host 127.0.0.1",
            )


def serve_dashboard(settings: DashboardSettings, stop: threading.Event, told: Callable[[str], None]) -> None:
    """Answer until `stop` is set.

    Parameters
    ----------
    settings : DashboardSettings
        What it is to be.
    stop : threading.Event
        Ends it, and all kernels.
    told : callable
        Called with the URL when it answers.

    Raises
    ------
    SpdistError
        No manager answers, the address cannot be listened on, or a file cannot be used.
    """
    settings.upstream.check()
    asyncio.run(_serve(settings, stop, told))


async def _serve(settings: DashboardSettings, stop: threading.Event, told: Callable[[str], None]) -> None:
    tls = None if settings.certificate is None else server_context(settings.certificate)
    host = settings.host.strip("[]")
    try:
        sockets = bind_sockets(settings.port, host)
    except OSError as error:
        raise TransportError(f"cannot listen on {settings.host}:{settings.port}: {error}", hint="--port") from error
    port = sockets[0].getsockname()[1]
    sessions = UserSessions(settings.idle_s)
    with tempfile.TemporaryDirectory(prefix="spdist-dashboard-") as connections:
        # Browsers keep cookies by host, not by port: each dashboard of a machine needs a name of its own.
        application, kernels = _application(settings, sessions, connections, f"spdist-dashboard-{port}")
        server = HTTPServer(application, ssl_options=tls)
        server.add_sockets(sockets)

        async def sweep() -> None:
            sessions.expire()
            await kernels.sweep()

        sweeping = PeriodicCallback(sweep, _SWEEP_S * 1000)
        sweeping.start()
        told(f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}/")
        try:
            await asyncio.to_thread(stop.wait)
        finally:
            sweeping.stop()
            # First: while kernels end no page may start another one.
            server.stop()
            await kernels.shutdown_all(now=True)


def _application(
    settings: DashboardSettings, sessions: UserSessions, connections: str, cookie: str
) -> tuple[Application, VisitorKernels]:
    """Return what answers, and its kernels."""
    voila = Voila(config=_config(cookie), root_dir=str(_HERE / "pages"), connection_dir=connections, log_level="WARN")
    voila.voila_configuration = VoilaConfiguration(parent=voila)
    voila.setup_template_dirs()
    # Ours first: one of the same name covers that of Voila.
    voila.template_paths = [str(_HERE / "templates"), *voila.template_paths]
    jupyter: dict[str, Any] = voila.init_settings()
    kernels: VisitorKernels = jupyter["kernel_manager"]
    kernels.upstream, kernels.allowed_message_types = settings.upstream, list(ALLOWED_MESSAGES)
    jupyter["identity_provider"].sessions = sessions
    own = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE / "templates"), autoescape=True)
    jupyter |= {
        "contents_manager": _Notebooks(parent=voila),
        "ws_ping_timeout": WS_PING_INTERVAL,
        "jinja2_env": own,
        "login_url": "/login",
        "headers": {"Content-Security-Policy": _POLICY, "Referrer-Policy": "same-origin"},
        "xsrf_cookie_kwargs": {"samesite": "Strict", "secure": settings.certificate is not None},
    }
    return Application(routes(voila, settings.upstream), **jupyter), kernels


class _Notebooks(LargeFileManager):
    """The notebooks of the pages. They are the package's own: no database of signatures has to know them."""

    def mark_trusted_cells(self, nb: Any, path: str = "") -> None:
        """Do nothing."""


def _config(cookie: str) -> Config:
    """Return what Voila is told; no file of the user's or the machine's changes it."""
    return Config(
        {
            "Voila": {"identity_provider_class": SessionUsers, "authorizer_class": OwnKernels},
            "SessionUsers": {"cookie_name": cookie},
            "VoilaConfiguration": {
                "multi_kernel_manager_class": VisitorKernels,
                "kernel_spec_manager_class": OwnPython,
                "extension_allowlist": _EXTENSIONS,
                "extension_denylist": [],
                "allow_template_override": "NO",
                "allow_theme_override": "YES",
                "file_allowlist": [],
                "show_tracebacks": False,
            },
            "VoilaExecutor": {"cell_error_instruction": "Load the page again; the log of the dashboard says more."},
            # Encrypted: other users of this machine reach the loopback, too.
            "MappingKernelManager": {"allow_tracebacks": False, "transport_encryption": "auto"},
            # A kernel that was started again would know nothing of its page.
            "KernelRestarter": {"restart_limit": 0},
        }
    )
