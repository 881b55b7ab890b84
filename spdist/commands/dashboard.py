"""``spdist dashboard``: the panels as web pages, behind the users of the managers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spdist.commands.connection import reaching
from spdist.errors import ConfigError
from spdist.headless import stop_signal

if TYPE_CHECKING:
    from spdist.dashboard.upstream import Upstream

__all__ = ["dashboard"]


@reaching
def dashboard(
    upstream: Upstream,
    host: Annotated[str, typer.Option("--host", help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 for a free one.")] = 8899,
    tls_cert_file: Annotated[
        Path | None,
        typer.Option("--tls-cert-file", help="PEM file with the certificate that the pages show, for https."),
    ] = None,
    tls_key_file: Annotated[
        Path | None, typer.Option("--tls-key-file", help="Its key, where that is not in the same file.")
    ] = None,
    idle: Annotated[
        float, typer.Option("--idle", min=0.01, help="Minutes without a click until a session ends.")
    ] = 60.0,
) -> None:
    """Serve the monitor and the deploy panel as web pages, until it is told to stop (SIGTERM or Ctrl-C).

    Users log in with their names and passwords at the managers, and may do on the pages what they may do there; the
    dashboard itself needs no user.
    """
    try:
        from spdist.dashboard.server import DashboardSettings, serve_dashboard
    except ImportError as error:
        raise ConfigError(f"the dashboard needs Voila: {error}", hint="pip install 'spdist[dashboard]'") from error
    from spdist.transports.sockets.tls import Certificate

    if tls_key_file is not None and tls_cert_file is None:
        raise typer.BadParameter("a key is of a certificate: give --tls-cert-file, too", param_hint="--tls-key-file")
    certificate = Certificate.named(tls_cert_file, tls_key_file)
    settings = DashboardSettings(upstream, host, port, certificate, idle * 60)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tornado").setLevel(logging.ERROR)  # else it tells of each request that is refused, three times
    with stop_signal() as stop:
        serve_dashboard(settings, stop, lambda url: typer.echo(f"Dashboard of {', '.join(upstream.managers)}: {url}"))
