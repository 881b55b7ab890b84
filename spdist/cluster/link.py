"""A worker's way to its leader: rounds over the managers it knows, until one answers as the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from spdist.cluster.client import Caller, Reply, UnreachableNode, may_follow
from spdist.cluster.messages import AnswerHeartbeat
from spdist.cluster.wire import HeartbeatAnswer, HeartbeatRequest, Leader, OrderMessage, parse_message
from spdist.config import Config
from spdist.errors import ClusterError, UnauthorizedError

__all__ = ["LeaderLink"]

_log = logging.getLogger("spdist.cluster.worker")
_PATH = "/resourceManager/heartbeat"
#: Managers remembered besides the configured ones; one that was replaced makes room.
_LEARNT = 20


class LeaderLink:
    """Sends heartbeats. Asks the last leader first, then every manager it knows; goes where a standby points.

    Parameters
    ----------
    config : Config
        Its ``deployment.config``: managers, credentials for each, our own credentials for managers learnt later.
    timeout_s : float
        For each manager.

    State
    -----
    The addresses of the configured managers and of up to 20 that leaders have named.
    """

    def __init__(self, config: Config, timeout_s: float) -> None:
        deployment = config.deployment
        own = (deployment.https_interface.username, deployment.https_interface.password.reveal())
        self._credentials = {
            m.url: (m.username, m.password.reveal()) if m.username and m.password else own
            for m in deployment.resource_managers
        }
        self._own = own
        self._callers: dict[tuple[str, str], Caller] = {}
        self._trust_file = config.http.trust_file
        self._timeout_s = timeout_s
        self._learnt: dict[str, None] = {}
        self._leader: str | None = None
        self._silent: set[str] = set()

    def close(self) -> None:
        """Close all connections."""
        for caller in self._callers.values():
            caller.close()

    def set_timeout(self, timeout_s: float) -> None:
        """Wait that long for each manager from now on."""
        self._timeout_s = timeout_s

    def send(self, beat: Callable[[], HeartbeatRequest]) -> tuple[AnswerHeartbeat, list[OrderMessage]] | None:
        """Make one round and return the leader's answer and its orders, None if nobody answered as leader.

        Parameters
        ----------
        beat : callable
            Makes a new heartbeat for each manager that is asked: a number is never sent twice.

        Raises
        ------
        UnauthorizedError
            Nobody answered as leader, and a manager refused our credentials.
        """
        waiting = self._order()
        asked: set[str] = set()
        refused: UnauthorizedError | None = None
        while waiting:
            url = waiting.pop(0)
            if url in asked:
                continue
            asked.add(url)
            reply = self._ask(url, beat())
            if reply is None:
                continue
            if reply.status == 200 and (answer := self._read_answer(url, reply)) is not None:
                self._leader = url
                return answer
            if reply.status == 301 and (leader := self._read_leader(url, reply)) is not None:
                waiting.insert(0, leader)
            elif reply.status in (401, 403):
                refused = self._refusal(url, reply)
                _log.error("%s", refused)
        self._leader = None
        if refused is not None:
            raise refused
        return None

    def _order(self) -> list[str]:
        known = [*self._credentials, *self._learnt]
        return [self._leader, *(url for url in known if url != self._leader)] if self._leader else known

    def _ask(self, url: str, beat: HeartbeatRequest) -> Reply | None:
        """Send one heartbeat; None if nobody answered, which is logged once until somebody does."""
        credentials = self._credentials.get(url, self._own)
        caller = self._callers.get(credentials)
        if caller is None:
            caller = self._callers[credentials] = Caller(*credentials, trust_file=self._trust_file)
        try:
            reply = caller.call(
                "POST",
                url + _PATH,
                content=beat.to_json(),
                headers={"Content-Type": "application/json"},
                timeout_s=self._timeout_s,
            )
        except UnreachableNode as error:
            if url not in self._silent:
                self._silent.add(url)
                _log.warning("manager does not answer: %s", error)
            return None
        self._silent.discard(url)
        return reply

    def _read_answer(self, url: str, reply: Reply) -> tuple[AnswerHeartbeat, list[OrderMessage]] | None:
        try:
            message = parse_message(HeartbeatAnswer, reply.body)
            answer = message.to_answer()
        except ClusterError as error:
            _log.error("manager %s: %s", url, error)
            return None
        self._learn(url, (address.url for address in message.connected_managers))
        return answer, message.orders

    def _read_leader(self, url: str, reply: Reply) -> str | None:
        """Return where a standby sends us, unless that is not to be trusted with the password."""
        try:
            leader = parse_message(Leader, (reply.body or {}).get("leader") if isinstance(reply.body, dict) else None)
        except ClusterError as error:
            _log.error("manager %s: %s", url, error)
            return None
        target = leader.https_interface.url
        self._learn(url, [target])
        return target if may_follow(url, target) else None

    def _learn(self, source: str, urls: Iterable[str]) -> None:
        for url in urls:
            if url not in self._credentials and may_follow(source, url):
                self._learnt.pop(url, None)
                self._learnt[url] = None
        while len(self._learnt) > _LEARNT:
            del self._learnt[next(iter(self._learnt))]

    def _refusal(self, url: str, reply: Reply) -> UnauthorizedError:
        username = self._credentials.get(url, self._own)[0]
        if reply.status == 403:
            return UnauthorizedError(
                f"user {username!r} may not register a worker at manager {url}",
                hint="give that user the role worker in auth.configs of the manager",
            )
        return UnauthorizedError(
            f"user {username!r} was refused by manager {url}",
            hint="check the user name and the password in deployment.config.resourceManagers "
            "(or deployment.config.httpsInterface) of this worker against auth.configs of the manager",
        )
