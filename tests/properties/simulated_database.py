"""The coordination database of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.protocol.messages import AppVersion, Desired
from spdist.planning.topology import Assignment

__all__ = ["Database", "Unreachable", "assignments"]


class Unreachable(Exception):
    """The database did not answer in time."""


def assignments(app: str, version: int) -> tuple[Assignment, ...]:
    """Return what an app is planned into: the text of one group changes with each version, the others stay."""

    def one(group: str, i: int, text: str, receiver: bool = False) -> Assignment:
        return Assignment(f"{app}-{group}-{i}", app, f"{app}-{group}", text, False, (), (), receiver)

    out = [one("steady", 1, "same"), one("steady", 2, "same"), one("changing", 1, f"version {version}")]
    if version % 2:
        out.append(one("odd", 1, "same"))
    if app == "Beta":
        out.append(one("passthrough", 1, "same", receiver=True))
    return tuple(out)


@dataclass
class Row:
    """A deployment as the made-up database stores it."""

    text: str
    version: int
    desired: Desired


class Database:
    """The coordination database: atomic, with a clock of its own. Its methods follow `cluster.coordination.store`."""

    def __init__(self, clock: Callable[[], int], forgets: Callable[[str], None]) -> None:
        self.up = True
        self.clock = clock
        self.forgets = forgets
        self.leader: LeaderRow | None = None
        self.rows: dict[str, Row] = {}
        #: the list of workers, and the term that wrote it
        self.workers: dict[str, str] = {}
        self.workers_term = 0
        self.cordons: dict[str, bool] = {}

    def read_leader(self) -> tuple[LeaderRow | None, int]:
        return self.leader, self.clock()

    def renew(self, term: int, node: str) -> bool:
        if not self.has(term, node):
            return False
        self.leader = replace(self.leader, last_heartbeat=self.clock())
        return True

    def try_acquire(self, expected: LeaderRow | None, node: str) -> int | None:
        if self.leader != expected:
            return None
        term = 1 if expected is None else expected.term + 1
        self.leader = LeaderRow("sp", node, term, self.clock(), f"http://{node}")
        return term

    def has(self, term: int, node: str) -> bool:
        """Return True while the leader row has this term and node: what another one writes counts for nothing."""
        return self.leader is not None and (self.leader.term, self.leader.node_id) == (term, node)

    def save(self, term: int, node: str, deployment: AppVersion) -> bool:
        if not self.has(term, node):
            return False
        self.rows[deployment.name] = Row(deployment.text, deployment.version, deployment.desired)
        return True

    def forget(self, term: int, node: str, name: str, version: int) -> bool:
        if not self.has(term, node):
            return False
        row = self.rows.get(name)
        if row is not None and (row.version, row.desired) == (version, Desired.REMOVED):
            self.forgets(name)
            del self.rows[name]
        return True

    def save_workers(self, term: int, node: str, workers: Mapping[str, str]) -> bool:
        if not self.has(term, node):
            return False
        self.workers, self.workers_term = dict(workers), term
        return True

    def save_cordon(self, term: int, node: str, worker: str, drain: bool | None) -> bool:
        if not self.has(term, node):
            return False
        self.cordons = {id: known for id, known in self.cordons.items() if id != worker}
        if drain is not None:
            self.cordons[worker] = drain
        return True

    def known_workers(self, term: int) -> Mapping[str, str] | None:
        return self.workers if self.workers_term == term - 1 else None

    def deployments(self) -> tuple[AppVersion, ...]:
        return tuple(
            AppVersion(
                name,
                row.text,
                row.version,
                assignments(name, int(row.text)) if row.desired is Desired.RUNNING else (),
                row.desired,
            )
            for name, row in self.rows.items()
        )
