"""A worker's way to its leader: heartbeats to the one it knows; while that is lost, all managers are asked who leads.

All at the same time, and again and again, so that a manager that is silent never delays one that lives. They are asked
a question, not sent the heartbeat: a worker has one heartbeat under way at a time, and obeys the answer to its latest
only (`spdist.cluster.protocol.messages`). Two managers that both answered one heartbeat would each believe that it told
*them* all that runs here. So the question finds the leader, and one heartbeat with a number of its own goes to that
one.

Source: RFC 8305 ("happy eyeballs") for trying several addresses side by side.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spdist.cluster.clients.client import Caller, Reply, UnreachableNode, may_follow
from spdist.cluster.elections.timing import LOST_RETRY_MS
from spdist.cluster.protocol.group_lists import KnownAssignments
from spdist.cluster.protocol.messages import AnswerHeartbeat
from spdist.cluster.protocol.wire import (
    HeartbeatAnswer,
    HeartbeatRequest,
    Leader,
    LeaderClaim,
    OrderMessage,
    parse_message,
)
from spdist.cluster.security.node_token import node_token
from spdist.cluster.workers.known_managers import MOST_MANAGERS, KnownManagers
from spdist.config import Config
from spdist.errors import ClusterError, UnauthorizedError
from spdist.transports.sockets.tls import certificate_of

__all__ = ["LeaderLink", "jittered"]

_log = logging.getLogger("spdist.cluster.worker")
_HEARTBEAT = "/resourceManager/heartbeat"
_LEADER = "/resourceManager/leader"
#: How long the question who leads may take on its way; a manager is asked again only after that.
_QUESTION_S = 1.0
#: How long a heartbeat waits for its answer before other managers are asked as well, and between such questions.
_PATIENCE_S = LOST_RETRY_MS / 1000


def jittered(value: float) -> float:
    """Return `value`, up to a fifth more or less: workers that lost one leader must not come back in step."""
    return value * random.uniform(0.8, 1.2)


@dataclass(frozen=True, slots=True)
class _CallOutcome:
    """What came of one call: ``ticket`` is 0 for a question, else the number of the heartbeat."""

    url: str
    ticket: int
    reply: Reply | None
    error: str = ""


@dataclass(slots=True)
class _Round:
    """One call of `LeaderLink.send`."""

    end_s: float
    ask_at_s: float
    #: manager that has the heartbeat of this round, and the term in which it is taken for the leader
    waiting_for: str | None = None
    term: int = 0
    #: managers that had a heartbeat of this round: none is sent a second one
    tried: set[str] = field(default_factory=set)


class LeaderLink:
    """Sends heartbeats to the leader, and finds it. Used by one thread; the calls themselves have threads of their own.

    Parameters
    ----------
    config : Config
        Its ``deployment.config``: managers, credentials for each, our own credentials for managers learnt later.
    timeout_s : float
        How long a heartbeat may take.
    assignments : callable, optional
        Returns the assignments that are here already: an answer may leave them out.
    known : KnownManagers, optional
        Where the managers that the leader names are kept for the next start.

    State
    -----
    The addresses of the configured managers and of up to 20 that leaders have named; one question under way for each,
    and the heartbeats that were given up and have not yet run into their time limit.
    """

    def __init__(
        self,
        config: Config,
        timeout_s: float,
        assignments: Callable[[], KnownAssignments] = KnownAssignments,
        known: KnownManagers | None = None,
    ) -> None:
        self._assignments = assignments
        self._kept = known
        deployment = config.deployment
        interface = deployment.https_interface
        own = (interface.username, interface.password.reveal() if interface.password else "")
        self._credentials = {
            m.url: (m.username, m.password.reveal()) if m.username and m.password else own
            for m in deployment.resource_managers
        }
        self._own = own
        self._token = node_token(config)
        self._callers: dict[tuple[str, str], Caller] = {}
        self._trust_file, self._certificate = config.http.trust_file, certificate_of(config.listener)
        self._timeout_s = timeout_s
        stored = () if known is None else known.read()
        # Where all settings speak of TLS, a file does not talk us into showing the password without.
        may = [url for url in stored if any(may_follow(manager, url) for manager in self._credentials)]
        self._learnt: dict[str, None] = dict.fromkeys(url for url in may if url not in self._credentials)
        self._leader: str | None = None
        self._term = 0
        self._silent: set[str] = set()
        self._refused: dict[str, UnauthorizedError] = {}
        self._asking: set[str] = set()
        self._ticket = 0
        self._heard: queue.SimpleQueue[_CallOutcome] = queue.SimpleQueue()
        self._closed = False

    def close(self) -> None:
        """Close all connections; calls under way are dropped."""
        self._closed = True
        for caller in self._callers.values():
            caller.close()
        if self._token is not None:
            self._token.close()

    def set_timeout(self, timeout_s: float) -> None:
        """Let heartbeats take that long from now on."""
        self._timeout_s = timeout_s

    def send(self, beat: Callable[[], HeartbeatRequest]) -> tuple[AnswerHeartbeat, list[OrderMessage]] | None:
        """Make one round and return the leader's answer and its orders, None if nobody answered as leader.

        The leader that is known gets the heartbeat. If it has not answered after 250 ms the other managers are asked
        who leads, every 250 ms; the first that says it leads in a later term gets a new heartbeat, and an answer to the
        one before counts no more. While no leader is known a round ends when all have answered the question, or after
        1 s, in which those that have answered are asked again every 250 ms.

        Parameters
        ----------
        beat : callable
            Makes a new heartbeat each time that one is sent: a number is never sent twice.

        Raises
        ------
        UnauthorizedError
            Nobody answered as leader: managers refused our credentials, and all others are silent.
        """
        now_s = time.monotonic()
        this = _Round(end_s=now_s + _QUESTION_S, ask_at_s=now_s)
        if self._leader is not None:
            self._send_to(self._leader, self._term, this, beat)
        while True:
            now_s = time.monotonic()
            if now_s >= this.ask_at_s:
                self._ask_all(this)
            if now_s >= this.end_s or (this.waiting_for is None and not self._asking):
                break
            try:
                heard = self._heard.get(timeout=max(0.0, min(this.ask_at_s, this.end_s) - now_s))
            except queue.Empty:
                continue
            answer = self._take_in(heard, this, beat)
            if answer is not None:
                return answer
        # The next round begins with the question who leads
        self._leader = None
        if self._refused and all(url in self._refused or url in self._silent for url in self._known()):
            raise next(iter(self._refused.values()))
        return None

    # ------------------------------------------------------------------------------------------------------------ calls
    def _send_to(self, url: str, term: int, this: _Round, beat: Callable[[], HeartbeatRequest]) -> None:
        """Send a heartbeat; one that is under way is given up."""
        now_s = time.monotonic()
        this.waiting_for, this.term = url, term
        this.end_s, this.ask_at_s = now_s + self._timeout_s, now_s + jittered(_PATIENCE_S)
        this.tried.add(url)
        self._ticket += 1
        self._begin(url, self._ticket, "POST", _HEARTBEAT, self._timeout_s, beat().to_json())

    def _ask_all(self, this: _Round) -> None:
        """Ask every manager who leads, except who is being asked or has the heartbeat."""
        this.ask_at_s = time.monotonic() + jittered(_PATIENCE_S)
        for url in self._known():
            if url != this.waiting_for:
                self._ask(url)

    def _known(self) -> tuple[str, ...]:
        return (*self._credentials, *self._learnt)

    def _ask(self, url: str) -> None:
        # One question for each at a time: a manager that is silent must not collect threads
        if url not in self._asking:
            self._asking.add(url)
            self._begin(url, 0, "GET", _LEADER, min(_QUESTION_S, self._timeout_s), None)

    def _begin(self, url: str, ticket: int, method: str, path: str, timeout_s: float, content: str | None) -> None:
        """Make a call in a thread of its own, which ends within the time limit of the call."""
        # Here and not in the thread of the call, as only one thread may use `_callers`
        caller = self._caller(url)

        def call() -> None:
            try:
                headers = {"Content-Type": "application/json"} if content is not None else None
                reply = caller.call(method, url + path, content=content, headers=headers, timeout_s=timeout_s)
                self._heard.put(_CallOutcome(url, ticket, reply))
            except UnreachableNode as error:
                self._heard.put(_CallOutcome(url, ticket, None, str(error)))
            except UnauthorizedError as error:  # no token
                self._heard.put(_CallOutcome(url, ticket, None, f"{url}, which is not asked: {error.message}"))
            except Exception as error:  # closed meanwhile, or a defect: either way nobody has answered
                if not self._closed:
                    _log.exception("a call of manager %s failed; this is a defect", url)
                self._heard.put(_CallOutcome(url, ticket, None, repr(error)))

        threading.Thread(target=call, name="spdist-link", daemon=True).start()

    def _caller(self, url: str) -> Caller:
        credentials = self._credentials.get(url, self._own)
        caller = self._callers.get(credentials)
        if caller is None:
            caller = self._callers[credentials] = Caller(
                *credentials,
                trust_file=self._trust_file,
                certificate=self._certificate,
                bearer=self._token if credentials == self._own else None,
            )
        return caller

    # ---------------------------------------------------------------------------------------------------------- answers
    def _take_in(
        self, heard: _CallOutcome, this: _Round, beat: Callable[[], HeartbeatRequest]
    ) -> tuple[AnswerHeartbeat, list[OrderMessage]] | None:
        """Take in what came of a call; return the leader's answer if it is that."""
        url, reply = heard.url, heard.reply
        self._note_contact(heard)
        if heard.ticket == 0:
            self._asking.discard(url)
        elif heard.ticket != self._ticket or this.waiting_for is None:
            return None  # a heartbeat that was given up: its answer is not to be obeyed
        else:
            this.waiting_for = None
            if reply is not None and reply.status == 200 and (answer := self._read_answer(url, reply)) is not None:
                self._leader, self._term = url, max(self._term, answer[0].term)
                return answer
            now_s = time.monotonic()
            # This one has not answered as the leader, so the others are asked without a pause
            this.ask_at_s, this.end_s = now_s, now_s + _QUESTION_S
        if reply is None:
            return None
        if reply.status == 200 and heard.ticket == 0:
            self._follow_claim(url, reply, this, beat)
        elif reply.status == 301 and (leader := self._read_leader(url, reply)) not in {None, *this.tried}:
            # Asked, not sent the heartbeat: the one that a standby names may lead no longer
            self._ask(str(leader))
        return None

    def _follow_claim(self, url: str, reply: Reply, this: _Round, beat: Callable[[], HeartbeatRequest]) -> None:
        """Send the heartbeat to a manager that says it leads, unless somebody is known who led later."""
        try:
            claim = parse_message(LeaderClaim, reply.body)
        except ClusterError as error:
            _log.error("manager %s: %s", url, error)
            return
        later = this.waiting_for is None or claim.term > this.term
        if claim.term >= self._term and later and url not in this.tried:
            self._send_to(url, claim.term, this, beat)

    def _note_contact(self, heard: _CallOutcome) -> None:
        """Log that a manager does not answer or refuses us, once until that changes."""
        url, reply = heard.url, heard.reply
        if reply is None:
            if url not in self._silent and not self._closed:
                self._silent.add(url)
                _log.warning("manager does not answer: %s", heard.error)
            return
        self._silent.discard(url)
        if reply.status not in (401, 403):
            self._refused.pop(url, None)
            return
        # With 403 the token is good and its role is not: a new one would say the same
        if self._token is not None and reply.status == 401:
            self._token.refused()
        if url not in self._refused:
            self._refused[url] = self._refusal(url, reply)
            _log.error("%s", self._refused[url])

    def _read_answer(self, url: str, reply: Reply) -> tuple[AnswerHeartbeat, list[OrderMessage]] | None:
        try:
            message = parse_message(HeartbeatAnswer, reply.body)
            answer = message.to_answer(self._assignments())
        except ClusterError as error:
            _log.error("manager %s: %s", url, error)
            return None
        self._learn(url, (address.url for address in message.connected_managers))
        if self._kept is not None:
            self._kept.write(self._learnt)
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
                # To the end of the order: those that were not named for longest make room
                self._learnt.pop(url, None)
                self._learnt[url] = None
        while len(self._learnt) > MOST_MANAGERS:  # one that was replaced makes room
            del self._learnt[next(iter(self._learnt))]

    def _refusal(self, url: str, reply: Reply) -> UnauthorizedError:
        credentials = self._credentials.get(url, self._own)
        if self._token is not None and credentials == self._own:
            told = reply.body.get("message") if isinstance(reply.body, dict) else None
            return UnauthorizedError(
                f"the token of this node was refused by manager {url}: {told or reply.status}",
                hint="map nodeScope of this node to the role worker in roleMapping of the manager, and see that "
                "audience there is that of the token",
            )
        username = credentials[0]
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
