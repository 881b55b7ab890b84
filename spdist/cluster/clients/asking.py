"""Which manager is asked, whether it may be asked again, and what its answer means: decisions of all clients. Pure.

A client keeps `Managers`. For each attempt of a request it makes a `Round`, asks whom `Round.next` names, and tells it
what came of that, until there is an answer. What may be repeated is repeated, as `may_repeat` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from spdist.cluster.protocol.wire_errors import read_error
from spdist.errors import (
    ClusterError,
    ClusterUnreachableError,
    NotLeaderError,
    StoreUnavailableError,
    TransportUnavailableError,
)

__all__ = ["Managers", "Reply", "Request", "Round", "UnreachableNode", "may_follow", "may_repeat"]

T = TypeVar("T")


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


def _as_it_is(body: Any) -> Any:
    return body


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """What is asked of the leader.

    Parameters
    ----------
    method, path : str
        Of HTTP; the path begins with a slash.
    read : callable
        From the JSON value of the answer to what the caller gets.
    content : str, optional
        The body.
    headers, params : dict of str to str, optional
        Headers, and the query of the address.
    timeout_s : float, optional
        For each wait on the network, where it takes longer than usual.
    harmless : bool
        Whether a POST may be repeated though it was carried out.
    """

    method: str
    path: str
    read: Callable[[Any], T] = _as_it_is
    content: str | None = None
    headers: dict[str, str] | None = None
    params: dict[str, str] | None = None
    timeout_s: float | None = None
    harmless: bool = False

    @property
    def repeatable(self) -> bool:
        """Whether it may be sent again where nobody knows what became of it."""
        return self.harmless or self.method != "POST"

    @property
    def parts(self) -> dict[str, Any]:
        """Body, headers, query and time limit."""
        return {
            "content": self.content,
            "headers": self.headers,
            "params": self.params,
            "timeout_s": self.timeout_s,
        }


def may_repeat(request: Request[Any], error: BaseException) -> bool:
    """Return whether a request that has led to `error` is to be made again after a pause."""
    # Nobody has carried it out: what may have arrived, and is not repeatable, raises another ClusterError
    if isinstance(error, NotLeaderError | ClusterUnreachableError):
        return True
    # The database may have written it before the answer got lost
    if isinstance(error, StoreUnavailableError):
        return request.repeatable
    # Some events may have been appended: sent again, only those with numbers of a producer count once
    return isinstance(error, TransportUnavailableError) and request.harmless


class Managers:
    """The base URLs of managers, in the order in which they are asked.

    Parameters
    ----------
    urls : sequence of str
        One that answers is enough.

    Raises
    ------
    ClusterError
        There is none, or one is no address.

    State
    -----
    The order: first who answered last as the leader, at the end who did not answer at all. Who answered as the leader,
    and in which term that was, if anybody has told.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        if not urls:
            raise ClusterError("a client needs the address of at least one manager, such as http://127.0.0.1:9543")
        self.urls = [_base_url(url) for url in urls]
        self.leader = ""
        self.term: int | None = None

    def __str__(self) -> str:
        return ", ".join(self.urls)

    def prefer(self, url: str) -> None:
        """Ask this manager first from now on: it leads."""
        if self.leader != url:
            self.leader, self.term = url, None
        if self.urls[0] != url:
            self.urls = [url, *(other for other in self.urls if other != url)]

    def put_last(self, url: str) -> None:
        """Ask this manager last from now on: it has kept us waiting once, and others may answer."""
        if url in self.urls:
            self.urls = [*(other for other in self.urls if other != url), url]


@dataclass
class Round:
    """One attempt: each manager is asked once, and next the one that another names as the leader.

    Parameters
    ----------
    managers : Managers
        Whom to ask; learns who leads and who is silent.
    request : Request
        What is asked.
    """

    managers: Managers
    request: Request[Any]
    _waiting: list[str] = field(default_factory=list)
    _asked: list[str] = field(default_factory=list)
    _silent: list[str] = field(default_factory=list)
    _followed: NotLeaderError | None = None

    def __post_init__(self) -> None:
        self._waiting = list(self.managers.urls)

    def next(self) -> str:
        """Return the base URL of whom to ask now.

        Raises
        ------
        NotLeaderError
            All were asked, and none leads.
        ClusterUnreachableError
            None of them answered.
        """
        if self._waiting:
            self._asked.append(self._waiting.pop(0))
            return self._asked[-1]
        # A manager that has answered tells more than the silence of the others
        if self._followed is not None:
            raise self._followed
        raise ClusterUnreachableError(
            f"no manager answered: {'; '.join(self._silent)}", hint="are they up, and are these their addresses?"
        )

    def unreachable(self, error: UnreachableNode) -> None:
        """Take in that the one who was asked last did not answer.

        Raises
        ------
        ClusterError
            The request may have been carried out, and must not be repeated.
        """
        self.managers.put_last(self._asked[-1])
        if error.sent and not self.request.repeatable:
            raise ClusterError(
                f"{self.request.method} {self.request.path} was sent, but not answered: {error}",
                hint="look at what it did, then try again",
            ) from error
        self._silent.append(str(error))

    def answered(self, reply: Reply) -> bool:
        """Take in what the one who was asked last has answered; return whether that is the answer.

        Raises
        ------
        SpdistError
            What the leader reported.
        """
        url = self._asked[-1]
        if reply.status < 300:
            self.managers.prefer(url)
            return True
        problem = read_error(reply.body, f"{self.request.method} {url}{self.request.path} ({reply.status})")
        if not isinstance(problem, NotLeaderError):
            raise problem
        self._followed = problem
        leader = problem.leader
        if leader and leader not in self._asked and may_follow(url, leader):
            self._waiting = [leader, *(other for other in self._waiting if other != leader)]
        return False


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        # A port that is none is found only where it is read.
        address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        usable = address and not (parts.path.strip("/") or parts.query or parts.fragment)
        named = "@" in parts.netloc
    except ValueError:
        usable, named = False, "@" in url
    if named:  # and what stands before the @ may be a password
        raise ClusterError(
            "an address of a manager has no user and no password in it", hint="write it like http://127.0.0.1:9543"
        )
    if not usable:
        raise ClusterError(f"{url!r} is no address of a manager", hint="write it like http://127.0.0.1:9543")
    return url.rstrip("/")


def may_follow(url: str, leader: str) -> bool:
    """Return False where following would show the password in clear after it was asked for over TLS."""
    return not (url.startswith("https:") and leader.startswith("http:"))
