"""Talking to nodes over HTTP: calls that raise our errors, and how the leader is found. A door to httpx."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import tenacity

from spdist.cluster.clients.asking import Managers, Reply, Request, Round, UnreachableNode, may_repeat
from spdist.cluster.clients.requests import NodeAnswer, answer_of
from spdist.display import Shown, table_html
from spdist.errors import ClusterError, SpdistError
from spdist.transports.sockets.tls import CertificateFiles, client_context, refusal_hint

__all__ = [
    "TIMEOUT_S",
    "AnyClient",
    "Caller",
    "LeaderClient",
    "auth_of",
    "closed",
    "http_settings",
    "limit_of",
    "log",
    "reply_of",
    "retrying",
    "unreachable",
]

# A line for every request would be a line for every heartbeat, in the saved notebook of a worker.
logging.getLogger("httpx").setLevel(logging.WARNING)
log = logging.getLogger(__name__)

#: For connecting, and for each wait on the network, unless told otherwise.
TIMEOUT_S = 5.0

T = TypeVar("T")
Json = dict[str, Any]


class _TokenAuth(httpx.Auth):
    """A token in each request (RFC 6750); getting it may take a while, as it may have to be renewed."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token()}"
        yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        # In a thread: a token that is renewed waits for the provider
        request.headers["Authorization"] = f"Bearer {await asyncio.to_thread(self._token)}"
        yield request


def auth_of(username: str, password: str, bearer: Callable[[], str] | None) -> httpx.Auth:
    """Return what a user shows: a token, or name and password; nothing without a name."""
    if bearer is not None:
        return _TokenAuth(bearer)
    return httpx.BasicAuth(username, password) if username else httpx.Auth()


def http_settings(
    auth: httpx.Auth, trust_file: Path | None, certificate: CertificateFiles | None, timeout_s: float
) -> dict[str, Any]:
    """Return how httpx calls nodes as a user."""
    return {
        "auth": auth,
        "verify": client_context(trust_file, certificate),
        "timeout": timeout_s,
        # Nodes address each other directly; a proxy for the outside world must not see their passwords.
        "trust_env": False,
    }


def limit_of(timeout_s: float | None) -> Any:
    """Return a time limit as httpx takes it."""
    return httpx.USE_CLIENT_DEFAULT if timeout_s is None else httpx.Timeout(timeout_s)


def reply_of(answer: httpx.Response) -> Reply:
    """Return what a node has answered."""
    try:
        body = answer.json() if answer.content else None
    except ValueError:
        body = answer.text
    return Reply(answer.status_code, body, answer.headers.get("Location", ""))


def unreachable(url: str, error: httpx.RequestError) -> UnreachableNode:
    """Return what went wrong in words: httpx leaves the text of time-outs empty, OpenSSL has its own words."""
    # With these no byte of the request has left
    before = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    hint = refusal_hint(error) if url.startswith("https:") else ""
    reason = (str(error) or type(error).__name__) + (f" ({hint})" if hint else "")
    return UnreachableNode(f"{url}: {reason}", sent=not before)


def closed(url: str, error: RuntimeError, is_closed: bool) -> Exception:
    """Return what to say of a call by a client that was closed; `error` itself where it was not."""
    if not is_closed:
        return error
    return ClusterError(
        f"this client was closed, or its cluster was stopped: {url} is not asked any more",
        hint="connect again with spdist.connect, or start the cluster again",
    )


def retrying(request: Request[Any], patience_s: float) -> Json:
    """Return how tenacity repeats a request: with growing pauses, as long as `may_repeat` says."""

    def told(state: tenacity.RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            error = state.outcome.exception()
            reason = error.message if isinstance(error, SpdistError) else error
            log.info("%s; tried again for %g s", reason, patience_s)

    return {
        "before_sleep": told,
        "retry": tenacity.retry_if_exception(lambda error: may_repeat(request, error)),
        "stop": tenacity.stop_after_delay(patience_s),
        "wait": tenacity.wait_random_exponential(multiplier=0.1, max=1.0),
        "reraise": True,
    }


class Caller:
    """Calls nodes as one user. Safe to use from several threads.

    Redirections are not followed blindly: the password goes to the addresses that the user of this class chooses.

    Parameters
    ----------
    username, password : str
        HTTP Basic credentials; nothing is shown where the name is empty.
    trust_file : Path, optional
        PEM file with the authorities to trust for https; the system's if not given.
    certificate : Certificate, path or pair of paths, optional
        What is shown to nodes that ask for a certificate: a PEM file with its key, or certificate and key.
    timeout_s : float
        For connecting, and for each wait on the network.
    bearer : callable, optional
        Returns the token that is shown in place of name and password.
    """

    def __init__(
        self,
        username: str,
        password: str,
        *,
        trust_file: Path | None = None,
        certificate: CertificateFiles | None = None,
        timeout_s: float = TIMEOUT_S,
        bearer: Callable[[], str] | None = None,
    ) -> None:
        self.username = username
        auth = auth_of(username, password, bearer)
        self._http = httpx.Client(**http_settings(auth, trust_file, certificate, timeout_s))

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
        timeout = limit_of(timeout_s)
        try:
            answer = self._http.request(method, url, content=content, headers=headers, params=params, timeout=timeout)
        except httpx.RequestError as error:
            raise unreachable(url, error) from error
        except RuntimeError as error:
            raise closed(url, error, self._http.is_closed) from None
        return reply_of(answer)


class AnyClient(Shown):
    """What clients with and without ``await`` have in common; the parameters are those of `ClusterClient`."""

    def __init__(
        self,
        managers: Sequence[str],
        username: str,
        password: str,
        *,
        trust_file: Path | None = None,
        certificate: CertificateFiles | None = None,
        patience_s: float = 20.0,
        bearer: Callable[[], str] | None = None,
    ) -> None:
        self._managers = Managers(managers)
        self._username = username
        self._patience_s = patience_s
        self._open(password, trust_file, certificate, bearer)

    @property
    def managers(self) -> list[str]:
        """The base URLs of the managers, in the order in which they are asked."""
        return self._managers.urls

    def __repr__(self) -> str:
        led = f"; led by {self._managers.leader}{self._in_term()}, as last heard" if self._managers.leader else ""
        return f"{type(self).__name__}({self._managers}{led})"

    def _in_term(self) -> str:
        return "" if self._managers.term is None else f" in term {self._managers.term}"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        leader = self._managers.leader
        rows = [(url, f"leads{self._in_term()}, as last heard" if url == leader else "") for url in self.managers]
        return table_html(("manager", "role"), rows, caption=f"{type(self).__name__} of {self._username}")

    def _seen(self, nodes: Json) -> Json:
        """Remember what `nodes` says, for those who look at this client."""
        self._managers.term = nodes.get("term")
        return nodes

    def _open(
        self,
        password: str,
        trust_file: Path | None,
        certificate: CertificateFiles | None,
        bearer: Callable[[], str] | None,
    ) -> None:
        """Make what sends the requests."""
        raise NotImplementedError


class LeaderClient(AnyClient):
    """Asks whoever leads, also after a failover; the parameters are those of `ClusterClient`."""

    def _open(
        self,
        password: str,
        trust_file: Path | None,
        certificate: CertificateFiles | None,
        bearer: Callable[[], str] | None,
    ) -> None:
        self._caller = Caller(self._username, password, trust_file=trust_file, certificate=certificate, bearer=bearer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._caller.close()

    def ask_node(self, place: tuple[str, str], request: Request[T]) -> NodeAnswer[T]:
        """Ask one node, whoever leads."""
        name, url = place
        try:
            reply = self._caller.call(request.method, url + request.path, **request.parts)
        except UnreachableNode as error:
            return NodeAnswer(name, None, str(error))
        return answer_of(name, url, request, reply)

    # ------------------------------------------------------------------------------------------------------- the leader
    def do(self, request: Request[T]) -> T:
        """Ask the leader and return what it answers.

        Tried again, with growing pauses, while nobody leads, managers cannot be reached, or the database is away. What
        may have been carried out is repeated only where that is harmless.

        Raises
        ------
        SpdistError
            What the leader reported, or that none was found in time.
        """
        answer: T = tenacity.Retrying(**retrying(request, self._patience_s))(self._attempt, request)
        return answer

    def glance(self, request: Request[T], timeout_s: float = 1.0) -> T:
        """Do the same without patience, for what is only shown: each manager is asked once.

        Raises
        ------
        SpdistError
            What the leader reported, or that none was found.
        """
        return self._attempt(replace(request, timeout_s=timeout_s))

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
        """Ask the leader for anything, and return the JSON value it answers with; see `do`."""
        request: Request[Any] = Request(
            method, path, content=content, headers=headers, params=params, timeout_s=timeout_s
        )
        return self.do(request)

    def _attempt(self, request: Request[T]) -> T:
        asked = Round(self._managers, request)
        while True:
            url = asked.next()
            try:
                reply = self._caller.call(request.method, url + request.path, **request.parts)
            except UnreachableNode as error:
                asked.unreachable(error)
                continue
            if asked.answered(reply):
                return request.read(reply.body)
