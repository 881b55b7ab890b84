"""The ports of HTTP sources at a server of a group: who is passive answers 503 there, and a balancer goes elsewhere.

A server listens at the addresses of all its apps, whether it is active or not. A source that begins listens at the same
socket (`spdist.connectors.http.ports`), so no connection is refused while it takes over, and one that ends leaves the
answer 503 behind. Servers on one machine cannot share an address: there it belongs to the active one.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from spdist.config import Config
from spdist.config.allowed import allowed_of
from spdist.errors import SpdistError
from spdist.planning.topology import Assignment
from spdist.transports.sockets.connections import limits_of

if TYPE_CHECKING:
    from spdist.connectors.http.addresses import HttpAddress
    from spdist.connectors.http.ports import HttpPort

__all__ = ["SourcePorts", "SourceRole", "closed_answer", "kept_ports"]

_log = logging.getLogger("spdist.cluster.server")

#: Host and port.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SourceRole:
    """A server of a group as those see it who send to its sources.

    Parameters
    ----------
    node, url : str
        Its id, and where it is reached.
    known : bool
        Whether the election has told it anything yet.
    active : bool
        Whether it runs the apps.
    leader : str
        Id of the other server that is active; empty where none is known to be.
    seen_url : str
        Where the other server is reached that was seen to be active last; empty where none was.
    """

    node: str
    url: str
    known: bool
    active: bool
    leader: str = ""
    seen_url: str = ""

    @property
    def host(self) -> str:
        """The host at which it is reached."""
        return urlsplit(self.url).hostname or ""

    @property
    def seen_host(self) -> str:
        """The host of the other one."""
        return urlsplit(self.seen_url).hostname or ""


def kept_ports(
    addresses: Iterable[HttpAddress], role: SourceRole, *, shares_machine: bool
) -> dict[Place, list[HttpAddress]]:
    """Return at which ports a server listens whether or not a source does. Pure.

    Alone on its machine it listens at all of them. Of two servers on one machine the active one has them; the other one
    has those of a host by which itself is reached, and the active one is not. As long as the election has not told
    anything, and at ports that the system chooses, it listens nowhere.

    Parameters
    ----------
    addresses : iterable of HttpAddress
        Where the sources of its apps listen.
    role : SourceRole
        What it is.
    shares_machine : bool
        Whether the other server of `role` is on this machine.
    """
    kept: dict[Place, list[HttpAddress]] = {}
    for one in addresses if role.known else ():
        own = role.active or not shares_machine or role.host == one.host != role.seen_host
        if one.port and own:
            kept.setdefault((one.host, one.port), []).append(one)
    return kept


def closed_answer(role: SourceRole, paths: Iterable[str], path: str) -> Mapping[str, Any] | None:
    """Return what is answered with 503 at a path where no source listens; None where the server knows of none. Pure.

    Parameters
    ----------
    role : SourceRole
        What the server is.
    paths : iterable of str
        Those of its sources at the port, which may be about to begin.
    path : str
        The one that was asked for.
    """
    if not role.active:
        why = f"{role.leader} is active" if role.leader else "no server is known to be active"
        told = {"error": f"server {role.node} is passive: {why}", "status": "passive", "node": role.node}
        return told | ({"active": role.leader} if role.leader else {})
    if path in paths:
        return {"error": f"the source at {path} is not running", "status": "inactive", "node": role.node}
    return None


class SourcePorts:
    """The ports of the HTTP sources of a server of a group; a context, which closes them.

    Parameters
    ----------
    config : Config
        Of the server: the limits of its listener, and what its apps may refer to.
    role : callable
        Returns what the server is at the moment; quick, from any thread.

    State
    -----
    The addresses of each app, the ports that are open, and why others are not.
    """

    def __init__(self, config: Config, role: Callable[[], SourceRole]) -> None:
        self._role = role
        self._limits = limits_of(config.listener)
        self._allowed = allowed_of(config)
        self._addresses: dict[str, tuple[Assignment, list[HttpAddress]]] = {}
        self._paths: dict[Place, set[str]] = {}
        self._open: dict[Place, HttpPort] = {}
        self._here: tuple[str, bool] = "", False
        #: what was logged of an app or a place and still holds
        self._logged: dict[str | Place, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for place in [*self._open]:
            self._leave(place)

    def keep(self, assignments: Sequence[Assignment]) -> None:
        """Listen where these apps ask for it; what cannot be had is tried again by the next call.

        It may wait, for who resolves the name of a server and for requests under way: call it in a thread of its own.
        """
        role = self._role()
        addresses = [one for assignment in assignments for one in self._of(assignment)]
        names = {assignment.name for assignment in assignments}
        self._addresses = {name: known for name, known in self._addresses.items() if name in names}
        kept = kept_ports(addresses, role, shares_machine=self._is_here(role.seen_host))
        self._paths = {place: {one.path for one in several} for place, several in kept.items()}
        for place, port in [*self._open.items()]:
            if place not in kept or port.address.certificate != kept[place][0].certificate:
                self._leave(place)
        for one in addresses:
            if one.port and role.known and (one.host, one.port) not in kept:
                where = f"{one.host}:{one.port}"
                self._log((one.host, one.port), f"{where} is left to the active server, which is on this machine")
        for place, (first, *_) in kept.items():
            if place not in self._open:
                self._listen(place, first)

    def _of(self, assignment: Assignment) -> list[HttpAddress]:
        """Return where the sources of an app listen; none where that cannot be told, as a file is missing here."""
        from spdist.connectors.http.addresses import sources_at

        known = self._addresses.get(assignment.name)
        # The same object until the app is deployed anew
        if known is not None and known[0] is assignment:
            return known[1]
        try:
            found = sources_at(assignment, self._allowed)
        except SpdistError as error:
            self._log(assignment.name, f"nothing listens for app {assignment.name}: {error.message}")
            return []
        self._logged.pop(assignment.name, None)
        self._addresses[assignment.name] = assignment, found
        return found

    def _is_here(self, host: str) -> bool:
        """Tell whether a host is this machine, as far as this process sees it."""
        # Only for another host, as resolving a name may take long
        if host != self._here[0]:
            self._here = host, _is_of_this_machine(host)
        return self._here[1]

    def _listen(self, place: Place, address: HttpAddress) -> None:
        from spdist.connectors.http.ports import HttpPort

        def closed(path: str) -> Mapping[str, Any] | None:
            return closed_answer(self._role(), self._paths.get(place, ()), path)

        try:
            port = HttpPort.shared(address, self._limits, closed)
        except SpdistError as error:
            self._log(place, f"{error.message}; tried again")
            return
        self._open[place] = port
        self._logged.pop(place, None)
        _log.info("%s answers 503 wherever no source does", port.url)

    def _leave(self, place: Place) -> None:
        port = self._open.pop(place)
        # A source may still use the port: its other paths are answered with 404 again
        port.closed = None
        port.leave()

    def _log(self, what: str | Place, why: str) -> None:
        """Log once why there is no answer somewhere."""
        if self._logged.get(what) != why:
            self._logged[what] = why
            _log.warning("%s", why)


def _is_of_this_machine(host: str) -> bool:
    """Tell whether a socket can have this address here; a name that nobody knows is another machine's."""
    with contextlib.suppress(OSError, UnicodeError):
        # UDP at any port: whether the address is ours does not depend on who listens there
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as trial:
                trial.bind(address)
                return True
    return False
