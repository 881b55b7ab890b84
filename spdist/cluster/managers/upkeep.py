"""What operators ask of a leader to look after its workers: cordon and empty them, and even out their load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spdist.cluster.leader.state import ManagerState
from spdist.cluster.managers.state_loop import StateLoop
from spdist.cluster.protocol.messages import AnswerRebalance, CordonRequested, Move, RebalanceRequested
from spdist.cluster.security.access import CALLER

__all__ = ["Upkeep"]


class _Ask(Protocol):
    """Answers what only a leader knows; NotLeaderError from a standby."""

    def __call__(self, question: Callable[[ManagerState, int], tuple[Move, ...]], /) -> tuple[Move, ...]: ...


class Upkeep:
    """The operators' side of placement.

    Parameters
    ----------
    state_loop : StateLoop
        Of the manager that is asked.
    ask : callable
        Asks it a question, if it leads.
    """

    def __init__(self, state_loop: StateLoop, ask: _Ask) -> None:
        self._state_loop = state_loop
        self._ask = ask

    def cordon(self, worker: str, *, drain: bool) -> None:
        """Let a worker be given nothing new; with `drain`, what it has goes elsewhere, one group after the other.

        It stays so when the worker or the leader is another process, until `uncordon`. A new version of a group that a
        worker has is nothing new.

        Raises
        ------
        NotFoundError
            No such worker has joined.
        NotLeaderError
            This is a standby.
        StoreUnavailableError
            It is not known whether that was written; asking again does no harm.
        """
        self._state_loop.request(CordonRequested(worker, drain, CALLER.get()))

    def uncordon(self, worker: str) -> None:
        """Let a worker be given groups again; raises as `cordon` does."""
        self._state_loop.request(CordonRequested(worker, None, CALLER.get()))

    def rebalance(self, *, dry_run: bool) -> tuple[Move, ...]:
        """Even out the load now, also where that would wait for workers that have just joined; return the moves.

        Parameters
        ----------
        dry_run : bool
            Only say what would be moved.

        Raises
        ------
        NotLeaderError
            This is a standby.
        """
        if dry_run:
            return self._ask(lambda state, now_ms: state.placing.plan(now_ms))
        answer: AnswerRebalance = self._state_loop.request(RebalanceRequested())
        return answer.moves
