"""Talking to nodes over HTTP: calls that raise our errors, and the client that finds the leader. The door to httpx."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

import httpx
import tenacity

from spdist.cluster.wire import read_error
from spdist.errors import ClusterError, NotLeaderError, SiddhiAppError, StoreUnavailableError
from spdist.transports.tls import CertificateFiles, client_context, refusal_hint

if TYPE_CHECKING:
    from spdist.cluster.handle import Deployment
    from spdist.cluster.overview import ClusterStatus
    from spdist.language.ast import SiddhiApp

__all__ = ["Caller", "ClusterClient", "Reply", "UnreachableNode", "may_follow"]

# A line for every request would be a line for every heartbeat, in the saved notebook of a worker.
logging.getLogger("httpx").setLevel(logging.WARNING)

_DEPLOY_S = 60.0
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class UnreachableNode(ConnectionError):
    """A node did not answer. ``sent`` is False where the request certainly never reached it."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: status, JSON value (None for an empty body, text where it is no JSON) and redirection target."""

    status: int
    body: Any
    location: str = ""


class Caller:
    """Calls nodes as one user. Safe to use from several threads.

    Redirections are not followed blindly: the password goes to the addresses that the user of this class chooses.

    Parameters
    ----------
    username, password : str
        HTTP Basic credentials.
    trust_file : Path, optional
        PEM file with the authorities to trust for https; the system's if not given.
    certificate : Certificate, path or pair of paths, optional
        What is shown to nodes that ask for a certificate: a PEM file with its key, or certificate and key.
    timeout_s : float
        For connecting, and for each wait on the network.
    """

    def __init__(
        self,
        username: str,
        password: str,
        *,
        trust_file: Path | None = None,
        certificate: CertificateFiles | None = None,
        timeout_s: float = 5.0,
    ) -> None:
        self.username = username
        self._http = httpx.Client(
            auth=httpx.BasicAuth(username, password),
            verify=client_context(trust_file, certificate),
            timeout=timeout_s,
            # Nodes address each other directly; a proxy for the outside world must not see their passwords.
            trust_env=False,
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def call(
        self,
        method: str,
        url: str,
        *,
        content: str | None = None,
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Reply:
        """Send a request and return the answer, whatever its status.

        Raises
        ------
        UnreachableNode
            There was none.
        """
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_s is None else httpx.Timeout(timeout_s)
        try:
            answer = self._http.request(method, url, content=content, headers=headers, params=params, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise UnreachableNode(f"{url}: {_reason(url, error)}", sent=False) from error
        except httpx.TransportError as error:
            raise UnreachableNode(f"{url}: {_reason(url, error)}", sent=True) from error
        try:
            body = answer.json() if answer.content else None
        except ValueError:
            body = answer.text
        return Reply(answer.status_code, body, answer.headers.get("Location", ""))


def _reason(url: str, error: httpx.TransportError) -> str:
    """Return what went wrong in words: httpx leaves the text of time-outs empty, OpenSSL has its own words."""
    hint = refusal_hint(error) if url.startswith("https:") else ""
    return (str(error) or type(error).__name__) + (f" ({hint})" if hint else "")


class ClusterClient:
    """A cluster as its users see it: apps go in, states come out. Finds the leader, also after a failover.

    Parameters
    ----------
    managers : sequence of str
        Base URLs of managers; one that answers is enough.
    username, password : str
        A user of ``auth.configs``.
    trust_file : Path, optional
        PEM file with the authorities to trust for https.
    certificate : Certificate, path or pair of paths, optional
        For nodes that ask for one: a PEM file with its key, or certificate and key.
    patience_s : float
        How long a call looks for a leader before it gives up.

    State
    -----
    In which order managers are asked: first who answered last as the leader, at the end who did not answer at all.
    """

    def __init__(
        self,
        managers: Sequence[str],
        username: str,
        password: str,
        *,
        trust_file: Path | None = None,
        certificate: CertificateFiles | None = None,
        patience_s: float = 20.0,
    ) -> None:
        if not managers:
            raise ClusterError("a client needs the address of at least one manager, such as http://127.0.0.1:9543")
        self.managers = [_base_url(url) for url in managers]
        self._caller = Caller(username, password, trust_file=trust_file, certificate=certificate)
        self._patience_s = patience_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ClusterClient({', '.join(self.managers)})"

    def close(self) -> None:
        """Close all connections."""
        self._caller.close()

    # ------------------------------------------------------------------------------------------------------------- apps
    def deploy(self, app: str | SiddhiApp, *, replace: bool = True) -> Deployment:
        """Hand an app to the cluster; it is stored when this returns, and `Deployment.wait` tells when it runs.

        Parameters
        ----------
        app : str or SiddhiApp
            SiddhiQL with ``@app:name``.
        replace : bool
            Whether an app of that name is replaced; so running a notebook's cell again changes nothing. What became of
            its groups and elements is the `change` of the handle then.

        Raises
        ------
        SiddhiAppError
            The app is wrong; ``errors`` holds all that was found, and each shows the place.
        ConflictError
            The name is taken, and `replace` is False.
        ClusterError
            No manager leads, or the cluster cannot do it.
        """
        text = app if isinstance(app, str) else _text_of(app)
        try:
            # Planning takes its time on a busy machine; asking again meanwhile would be a second request.
            body = self.call(
                "PUT" if replace else "POST", "/siddhi-apps", content=text, headers=_TEXT, timeout_s=_DEPLOY_S
            )
        except SiddhiAppError as error:
            for one in (error, *error.errors):
                one.text = text  # so that each shows its line
            raise
        from spdist.cluster.handle import Deployment
        from spdist.planning.change import TopologyChange

        change = TopologyChange.from_dict(body["change"]) if "change" in body else None
        return Deployment(self, body["name"], change)

    def deployment(self, name: str) -> Deployment:
        """Return the handle of an app, deployed or not; it is only a name and this client."""
        from spdist.cluster.handle import Deployment

        return Deployment(self, name)

    def apps(self) -> list[str]:
        """Return the names of all deployed apps."""
        names: list[str] = self.call("GET", "/siddhi-apps")
        return names

    # ------------------------------------------------------------------------------------------------------------ nodes
    def nodes(self) -> dict[str, Any]:
        """Return leader, term, managers and workers, as ``GET /managers/nodes`` gives them."""
        view: dict[str, Any] = self.call("GET", "/managers/nodes")
        return view

    def leader(self) -> str:
        """Return the base URL of the manager that leads."""
        nodes = self.nodes()
        url: str = next(m["url"] for m in nodes["managers"] if m["leads"])
        return url

    def status(self) -> ClusterStatus:
        """Return nodes and apps as a value that shows itself in a notebook or as text."""
        from spdist.cluster.overview import ClusterStatus

        nodes = self.nodes()
        return ClusterStatus.from_views(
            nodes, [self.call("GET", f"/siddhi-apps/{_quoted(n)}/status") for n in self.apps()]
        )

    # ------------------------------------------------------------------------------------------------------- the leader
    def call(
        self,
        method: str,
        path: str,
        *,
        content: str | None = None,
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Ask the leader and return the JSON value it answers with.

        Tried again, with growing pauses, while nobody leads, managers cannot be reached, or the database is away. A
        POST that may have reached a manager is not repeated.

        Raises
        ------
        SpdistError
            What the leader reported, or that none was found in time.
        """

        def attempt() -> Any:
            return self._ask_leader(method, path, content=content, headers=headers, params=params, timeout_s=timeout_s)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((NotLeaderError, StoreUnavailableError, _NobodyAnswered)),
            stop=tenacity.stop_after_delay(self._patience_s),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=1.0),
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _NobodyAnswered as error:
            raise ClusterError(
                f"no manager answered: {error}", hint="are they up, and are these their addresses?"
            ) from None

    def _ask_leader(self, method: str, path: str, **request: Any) -> Any:
        """Ask one manager after the other, and at once the one that another names as the leader."""
        waiting = list(self.managers)
        asked: list[str] = []
        silent: list[str] = []
        followed: NotLeaderError | None = None
        while waiting:
            url = waiting.pop(0)
            asked.append(url)
            try:
                reply = self._caller.call(method, url + path, **request)
            except UnreachableNode as error:
                if error.sent and method == "POST":
                    self._put_last(url)
                    raise ClusterError(
                        f"{method} {path} was sent, but not answered: {error}",
                        hint="look at what it did, then try again",
                    ) from error
                silent.append(str(error))
                self._put_last(url)
                continue
            if reply.status < 300:
                self._prefer(url)
                return reply.body
            problem = read_error(reply.body, f"{method} {url}{path} ({reply.status})")
            if not isinstance(problem, NotLeaderError):
                raise problem
            followed = problem
            if problem.leader and problem.leader not in asked and may_follow(url, problem.leader):
                waiting.insert(0, problem.leader)
        if followed is not None:
            raise followed
        raise _NobodyAnswered("; ".join(silent))

    def _prefer(self, url: str) -> None:
        """Ask this manager first from now on."""
        if self.managers[0] != url:
            self.managers = [url, *(other for other in self.managers if other != url)]

    def _put_last(self, url: str) -> None:
        """Ask this manager last from now on: it has kept us waiting once, and others may answer."""
        if url in self.managers:
            self.managers = [*(other for other in self.managers if other != url), url]


class _NobodyAnswered(Exception):
    """No manager could be reached in this round."""


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        # A port that is none is found only where it is read.
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.path.strip("/")
    except ValueError:
        usable = False
    if not usable:
        raise ClusterError(f"{url!r} is no address of a manager", hint="write it like http://127.0.0.1:9543")
    return url.rstrip("/")


def may_follow(url: str, leader: str) -> bool:
    """Return False where following would show the password in clear after it was asked for over TLS."""
    return not (url.startswith("https:") and leader.startswith("http:"))


def _text_of(app: SiddhiApp) -> str:
    from spdist.language.format import format_app

    return str(format_app(app))


def _quoted(name: str) -> str:
    return quote(name, safe="")
