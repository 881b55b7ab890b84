"""``spdist login`` and ``spdist logout``: at the identity provider of a cluster, in a browser (RFC 8252).

The browser is led back to a port of this machine that nobody else reaches, with a code that is good only with what this
process knows (RFC 7636). The tokens are written to a file that only its owner may read.
"""

from __future__ import annotations

import hmac
import time
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from spdist.commands.connection import TrustFile, Url, default_url, waiting
from spdist.commands.explained import explained
from spdist.errors import ClusterError, UnauthorizedError

if TYPE_CHECKING:
    from spdist.cluster.security.stored_login import StoredLogin

__all__ = ["login", "logout"]

#: How long somebody may take on the provider's pages, s; and how often the wait is looked at.
_PATIENCE_S, _LOOK_S = 300.0, 0.5
_PATH = "/callback"

Port = Annotated[
    int,
    typer.Option("--port", min=0, max=65535, help="Where the browser is led back to; 0: any, where that is allowed."),
]
Browser = Annotated[bool, typer.Option(help="Open a browser here; else open the address yourself.")]
ProviderTrust = Annotated[
    Path | None, typer.Option("--provider-trust-file", help="PEM file with the authorities to trust for the provider.")
]


def login(
    url: Url = default_url,
    trust_file: TrustFile = None,
    provider_trust_file: ProviderTrust = None,
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """Log in at the identity provider of a cluster; later commands and `spdist.connect` show its token."""
    from spdist.cluster.security.stored_login import StoredLogin, login_file

    with explained():
        managers = tuple(one.strip().rstrip("/") for one in url.split(","))
        told = _way_in(managers, trust_file)
        begun = StoredLogin(
            managers=managers,
            username="",
            issuer=told["issuer"],
            client_id=told["publicClientId"],
            scope=told["scope"],
            trust_file=None if provider_trust_file is None else provider_trust_file.absolute(),
        )
        done = _logged_in(begun, port, browser)
        file = login_file()
        file.keep(done)
    typer.echo(f"{done.username or 'you'} logged in; the token is in {file.path}")


def logout(url: Url = default_url) -> None:
    """Forget the login for a cluster, and end its tokens at the identity provider."""
    from spdist.cluster.security.claims import RefusedToken
    from spdist.cluster.security.provider import ProviderAway
    from spdist.cluster.security.stored_login import login_file

    with explained():
        managers, file = url.split(","), login_file()
        found = file.find(managers)
        if found is None:
            raise typer.BadParameter("nobody has logged in there", param_hint="--url")
        # First: it is forgotten here also where the provider cannot be reached.
        file.remove(managers)
        provider = found.provider()
        try:
            for token in (found.refresh, found.access):
                if token:
                    provider.revoke(token)
        except (RefusedToken, ProviderAway) as error:
            typer.echo(f"forgotten here; at the provider the tokens end by themselves: {error}", err=True)
        finally:
            provider.close()
    typer.echo(f"{found.username or 'you'} logged out")


def _way_in(managers: tuple[str, ...], trust_file: Path | None) -> dict[str, str]:
    """Return what a manager says of how people log in."""
    from spdist.cluster.clients.asking import UnreachableNode
    from spdist.cluster.clients.calling import Caller
    from spdist.config.kinds import is_safe_url
    from spdist.errors import ClusterUnreachableError

    caller, silent = Caller("", "", trust_file=trust_file), []
    try:
        for url in managers:
            try:
                body = caller.call("GET", f"{url}/login/auth-type").body
            except UnreachableNode as error:
                silent.append(str(error))
                continue
            told = body if isinstance(body, dict) else {}
            if not told.get("issuer"):
                raise ClusterError(
                    f"{url} knows its users itself: there is nothing to log in to",
                    hint="set SPDIST_USER and SPDIST_PASSWORD, or use --user and --password-file",
                )
            # Somebody will type a password there, and whoever answered may be no manager.
            if not is_safe_url(str(told["issuer"])):
                raise ClusterError(f"{url} names an identity provider to which no password should go: {told['issuer']}")
            if not told.get("publicClientId"):
                raise ClusterError(
                    f"{url} names no client for this command", hint="its auth.configs.properties needs publicClientId"
                )
            return {name: str(told[name]) for name in ("issuer", "publicClientId", "scope")}
    finally:
        caller.close()
    raise ClusterUnreachableError(f"no manager answered: {'; '.join(silent)}", hint="are these their addresses?")


def _logged_in(begun: StoredLogin, port: int, browser: bool) -> StoredLogin:
    from spdist.cluster.security.claims import RefusedToken
    from spdist.cluster.security.provider import ProviderAway, random_text

    state, verifier, nonce = random_text(), random_text(), random_text()
    provider = begun.provider()
    try:
        with _Return(port) as back:
            where = provider.login_url(back.url, state, verifier, nonce)
            typer.echo(f"Log in here: {where}", err=True)
            if browser:
                webbrowser.open(where)
            with waiting("waiting for the login in the browser"):
                code = code_of(back.wait(_PATIENCE_S), state, begun.issuer)
            tokens = provider.redeem(code, back.url, verifier, nonce)
        proof = tokens.get("id_token")
        name = provider.signed(proof).get("sub") if isinstance(proof, str) else ""
        return begun.with_tokens(tokens, time.time()).model_copy(update={"username": str(name or "")})
    except (RefusedToken, ProviderAway) as error:
        raise UnauthorizedError(str(error)) from error
    finally:
        provider.close()


def code_of(said: dict[str, str] | None, state: str, issuer: str) -> str:
    """Return the code with which the browser came back.

    Parameters
    ----------
    said : dict of str to str or None
        The query of the address; None where it did not come back.
    state : str
        Of the login that was begun.
    issuer : str
        Where it was begun; a provider that names itself (RFC 9207) must be that.

    Raises
    ------
    UnauthorizedError
        There is none.
    """
    if said is None:
        raise UnauthorizedError("nobody has logged in in time", hint="run spdist login again")
    # Not every provider says who it is (RFC 9207); where one does, it must be this one.
    if not hmac.compare_digest(said.get("state", "").encode(), state.encode()) or said.get("iss", issuer) != issuer:
        raise UnauthorizedError("the browser came back from another login", hint="run spdist login again")
    if error := said.get("error"):
        raise UnauthorizedError(f"the identity provider let nobody in: {error[:200]}")
    if not said.get("code"):
        raise UnauthorizedError("the identity provider gave no code")
    return said["code"]


class _Return:
    """Where a browser is led back to: one request, on this machine's loopback."""

    def __init__(self, port: int) -> None:
        said: list[dict[str, str]] = []

        class LoginAnswer(BaseHTTPRequestHandler):
            # Requests are answered one by one: a connection that says nothing must not be waited for.
            timeout = 5

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                found = parts.path == _PATH and not said
                if found:
                    said.append({name: values[0] for name, values in parse_qs(parts.query).items()})
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(b"spdist goes on in your terminal; this page may be closed.\n" if found else b"")

            def log_message(self, *_: Any) -> None:
                """Say nothing: the address holds the code."""

        self._said = said
        try:
            self._server = HTTPServer(("127.0.0.1", port), LoginAnswer)
        except OSError as error:
            raise typer.BadParameter(f"port {port} cannot be used: {error.strerror}", param_hint="--port") from error
        # `handle_request` returns so often, to look at the deadline.
        self._server.timeout = _LOOK_S
        self.url = f"http://127.0.0.1:{self._server.server_port}{_PATH}"

    def __enter__(self) -> _Return:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def wait(self, patience_s: float) -> dict[str, str] | None:
        """Return the query with which the browser has come back; None where it has not."""
        end_s = time.monotonic() + patience_s
        while not self._said and time.monotonic() < end_s:
            self._server.handle_request()
        return self._said[0] if self._said else None
