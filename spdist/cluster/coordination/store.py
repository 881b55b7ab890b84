"""The coordination database: who leads, which managers and workers there are, which apps are deployed. All its SQL.

SQLite for the managers of one machine, PostgreSQL, MySQL or MariaDB for several. Two rules:

* time is the **database's**: every timestamp comes from its clock (`database_now`);
* cluster state is written only **under a term**: in the same transaction the leader row is locked and must still
  have the writer's term and node id, otherwise nothing is written (`StaleTermError`).
Source: RDBMS coordination strategy of WSO2 carbon-coordination 2.1 (what is stored; not how).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from spdist.cluster.coordination.database import (
    CORDON,
    DEPLOYMENT,
    LEADER,
    MANAGER,
    ORIGIN,
    WORKER,
    WORKER_LIST,
    Transactions,
    database_now,
)
from spdist.cluster.coordination.journal_rows import JournalRows
from spdist.cluster.elections.election import LeaderRow
from spdist.cluster.leader.members import LONGEST_ID
from spdist.cluster.protocol.messages import AppVersion, Desired
from spdist.config.datasources import DEFAULT_POOL, Datasource, Pool
from spdist.errors import ClusterError, StaleTermError
from spdist.planning.updates.succession import stored_origins

__all__ = ["CoordinationStore", "ManagerRow", "StoredDeployment", "open_store"]

#: Managers that did not report for this long are struck off the list.
_STRIKE_OFF_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ManagerRow:
    """A manager that is alive: its id, base URL, and last heartbeat (ms since epoch, the database's clock)."""

    node_id: str
    url: str
    last_heartbeat: int


@dataclass(frozen=True, slots=True)
class StoredDeployment:
    """A deployment as it is stored.

    Parameters
    ----------
    name, text, version, desired
        As in `spdist.cluster.protocol.messages.AppVersion`.
    term : int
        Of the leader that wrote it.
    created_ms, updated_ms : int
        First and last time it was written: ms since epoch, the database's clock.
    origins : dict
        What `spdist.planning.updates.succession.stored_origins` has kept of its instances.
    """

    name: str
    text: str
    version: int
    desired: Desired
    term: int
    created_ms: int
    updated_ms: int
    origins: Mapping[str, Any] = field(default_factory=dict)


class CoordinationStore:
    """The rows of one group of managers. Safe to use from several threads; opening it asks nothing of the database.

    Parameters
    ----------
    url, username, password, pool
        As in `spdist.stores.engines.open_engine`.
    group_id : str
        ``cluster.config.groupId``; several groups may share a database.
    timeout_ms : int
        As in `Transactions`; what concerns the election is urgent. Choose it shorter than the lease: what comes later
        is too late.

    Raises
    ------
    ConfigError
        The URL names a database that cannot be used, or its driver is not installed.
    """

    def __init__(
        self,
        url: str,
        group_id: str,
        *,
        username: str = "",
        password: str = "",
        timeout_ms: int = 1_000,
        pool: Pool = DEFAULT_POOL,
    ) -> None:
        self.group_id = group_id
        self._database = Transactions(url, username, password, timeout_ms, pool)
        #: what has happened
        self.journal = JournalRows(self._database, group_id)

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self._database.close()

    def prepare(self) -> None:
        """See to it that the tables can be used; see `Transactions.prepare`."""
        self._database.prepare()

    # -------------------------------------------------------------------------------------------------------- election
    def read_leader(self) -> tuple[LeaderRow | None, int]:
        """Return the leader row, None if there never was a leader, and the database's clock at that moment."""

        def work(connection: Connection) -> tuple[LeaderRow | None, int]:
            row = connection.execute(  # One statement, so that row and clock are of one moment
                select(LEADER, database_now().label("now")).where(LEADER.c.group_id == self.group_id)
            ).one_or_none()
            if row is None:
                return None, connection.execute(select(database_now())).scalar_one()
            return LeaderRow(row.group_id, row.node_id, row.term, row.last_heartbeat, row.url), row.now

        return self._database.read(work, urgent=True)

    def renew(self, term: int, node_id: str) -> bool:
        """Set the heartbeat of a leadership to now; False if the row belongs to another by now."""
        change = update(LEADER).where(self._led_by(term, node_id)).values(last_heartbeat=database_now())
        return self._database.write(lambda connection: connection.execute(change).rowcount == 1, urgent=True)

    def try_acquire(self, expected: LeaderRow | None, node_id: str, url: str) -> int | None:
        """Replace the leader row by one of the next term, if it still is exactly `expected`.

        Parameters
        ----------
        expected : LeaderRow, optional
            The row as it was read; None if there was none. A renewal in between changes the heartbeat, so it is
            noticed like a change of leader.
        node_id, url : str
            The new leader.

        Returns
        -------
        int, optional
            The new term; None if somebody was faster. After a connection broke down the swap may have succeeded
            without our knowing: that term is then used by nobody and expires.
        """
        row = {"node_id": node_id, "url": url, "last_heartbeat": database_now()}
        if expected is None:
            first = insert(LEADER).values(group_id=self.group_id, term=1, **row)
            return 1 if self._database.write(lambda connection: _inserted(connection, first), urgent=True) else None
        swap = (
            update(LEADER)
            .where(self._led_by(expected.term, expected.node_id))
            .where(LEADER.c.last_heartbeat == expected.last_heartbeat)
            .values(term=expected.term + 1, **row)
        )
        taken = self._database.write(lambda connection: connection.execute(swap).rowcount == 1, urgent=True)
        return expected.term + 1 if taken else None

    def resign(self, term: int, node_id: str) -> None:
        """Let others take over immediately; call it after the last act of a leadership. No effect if that is over."""
        change = update(LEADER).where(self._led_by(term, node_id)).values(last_heartbeat=0)
        self._database.write(lambda connection: connection.execute(change), urgent=True)

    def _led_by(self, term: int, node_id: str) -> Any:
        return (LEADER.c.group_id == self.group_id) & (LEADER.c.term == term) & (LEADER.c.node_id == node_id)

    # --------------------------------------------------------------------------------------------------------- managers
    def heartbeat_manager(self, node_id: str, url: str) -> None:
        """Note that a manager is alive. Managers that have been silent for a day are struck off."""

        def work(connection: Connection) -> None:
            mine = (MANAGER.c.group_id == self.group_id) & (MANAGER.c.node_id == node_id)
            row = {"url": url, "last_heartbeat": database_now()}
            if connection.execute(update(MANAGER).where(mine).values(**row)).rowcount == 0:
                connection.execute(insert(MANAGER).values(group_id=self.group_id, node_id=node_id, **row))
                old = MANAGER.c.last_heartbeat < database_now() - _STRIKE_OFF_MS  # Looked for only when one joins
                connection.execute(delete(MANAGER).where((MANAGER.c.group_id == self.group_id) & old))

        self._database.write(work)

    def live_managers(self, max_age_ms: int) -> tuple[ManagerRow, ...]:
        """Return the managers whose heartbeat is not older than `max_age_ms`, by id."""
        query = (
            select(MANAGER.c.node_id, MANAGER.c.url, MANAGER.c.last_heartbeat)
            .where(MANAGER.c.group_id == self.group_id)
            .where(MANAGER.c.last_heartbeat >= database_now() - max_age_ms)
            .order_by(MANAGER.c.node_id)
        )
        return self._database.read(lambda connection: tuple(ManagerRow(*row) for row in connection.execute(query)))

    # ---------------------------------------------------------------------------------------------------------- workers
    def workers(self, term: int) -> dict[str, str] | None:
        """Return the list of workers that the term before `term` has left; see `spdist.cluster.leader.roster`.

        Read it after `term` was taken: from then on nobody of an earlier term can write.

        Returns
        -------
        dict of str to str, optional
            Id to incarnation; None if the term before has not written the list.
        """
        header = select(WORKER_LIST.c.term).where(WORKER_LIST.c.group_id == self.group_id)
        rows = select(WORKER.c.node_id, WORKER.c.incarnation).where(WORKER.c.group_id == self.group_id)

        def work(connection: Connection) -> dict[str, str] | None:
            if term == 1:
                return {}  # nobody has ever led
            if connection.execute(header).scalar_one_or_none() != term - 1:
                return None
            return {row.node_id: row.incarnation for row in connection.execute(rows)}

        return self._database.read(work)

    def save_workers(self, term: int, node_id: str, workers: Mapping[str, str]) -> None:
        """Write the list of workers (id to incarnation) in place of the one before. Durable on return.

        Raises
        ------
        StaleTermError
            The leadership is over; nothing was written.
        StoreUnavailableError
            It is not known whether it was written.
        """
        mine, c = WORKER.c.group_id == self.group_id, WORKER.c

        def work(connection: Connection) -> None:
            _fence(connection, self.group_id, term, node_id)
            known = {r.node_id: r.incarnation for r in connection.execute(select(c.node_id, c.incarnation).where(mine))}
            for id in known.keys() - workers.keys():
                connection.execute(delete(WORKER).where(mine & (c.node_id == id)))
            for id, incarnation in workers.items():
                row = {"incarnation": incarnation, "registered_ms": database_now()}
                if id not in known:
                    connection.execute(insert(WORKER).values(group_id=self.group_id, node_id=id, **row))
                elif known[id] != incarnation:  # Of the same process `registered_ms` stays
                    connection.execute(update(WORKER).where(mine & (c.node_id == id)).values(**row))
            header = update(WORKER_LIST).where(WORKER_LIST.c.group_id == self.group_id).values(term=term)
            if connection.execute(header).rowcount == 0:
                connection.execute(insert(WORKER_LIST).values(group_id=self.group_id, term=term))

        self._database.write(work)

    def cordons(self) -> dict[str, bool]:
        """Return the workers that are given nothing new; True for those that are drained."""
        query = select(CORDON.c.node_id, CORDON.c.drain).where(CORDON.c.group_id == self.group_id)
        return self._database.read(
            lambda connection: {row.node_id: bool(row.drain) for row in connection.execute(query)}
        )

    def save_cordon(self, term: int, node_id: str, worker: str, drain: bool | None) -> None:
        """Write that a worker is cordoned, drained or (None) neither. Durable on return.

        Raises
        ------
        StaleTermError
            The leadership is over; nothing was written.
        StoreUnavailableError
            It is not known whether it was written: give up the term, so that the next leader reads what is there.
        """
        mine = (CORDON.c.group_id == self.group_id) & (CORDON.c.node_id == worker)

        def work(connection: Connection) -> None:
            _fence(connection, self.group_id, term, node_id)
            connection.execute(delete(CORDON).where(mine))  # An upsert is another statement in each database
            if drain is not None:
                row = {"drain": int(drain), "since_ms": database_now()}
                connection.execute(insert(CORDON).values(group_id=self.group_id, node_id=worker, **row))

        self._database.write(work)

    # ------------------------------------------------------------------------------------------------------ deployments
    def deployments(self) -> tuple[StoredDeployment, ...]:
        """Return all deployments, by name. A new leader reads them after it took its term."""
        c, o = DEPLOYMENT.c, ORIGIN.c
        same = (o.group_id == c.group_id) & (o.name == c.name) & (o.version == c.version)
        query = (
            select(c.name, c.text, c.version, c.desired, c.term, c.created_ms, c.updated_ms, o.origins)
            .select_from(DEPLOYMENT.outerjoin(ORIGIN, same))
            .where(c.group_id == self.group_id)
            .order_by(c.name)
        )
        return self._database.read(
            lambda connection: tuple(
                StoredDeployment(
                    *(r.name, r.text, r.version, Desired(r.desired), r.term, r.created_ms, r.updated_ms),
                    json.loads(r.origins or "{}"),
                )
                for r in connection.execute(query)
            )
        )

    def versions(self) -> dict[str, int]:
        """Return the version of each deployment, by name: what `deployments` would read, without the texts."""
        query = select(DEPLOYMENT.c.name, DEPLOYMENT.c.version).where(DEPLOYMENT.c.group_id == self.group_id)
        return self._database.read(lambda connection: {row.name: row.version for row in connection.execute(query)})

    def save_deployment(self, term: int, node_id: str, deployment: AppVersion) -> None:
        """Write a version of an app: its name, text, version, origins and what is desired. Durable on return.

        Raises
        ------
        StaleTermError
            The leadership is over; nothing was written.
        ClusterError
            The database refuses the row; nothing was written.
        StoreUnavailableError
            It is not known whether it was written: give up the term, so that the next leader reads what is there.
        """
        if len(deployment.name) > LONGEST_ID:
            raise ClusterError(
                f"the name of app {deployment.name[:40]}… has {len(deployment.name)} characters",
                hint=f"{LONGEST_ID} are the most",
            )

        def work(connection: Connection) -> None:
            _fence(connection, self.group_id, term, node_id)
            mine = (DEPLOYMENT.c.group_id == self.group_id) & (DEPLOYMENT.c.name == deployment.name)
            # Asked once: PostgreSQL reads its clock each time that a statement names it.
            now = connection.scalar(select(database_now()))
            row = {
                "text": deployment.text,
                "version": deployment.version,
                "desired": deployment.desired.value,
                "term": term,
                "updated_ms": now,
            }
            if connection.execute(update(DEPLOYMENT).where(mine).values(**row)).rowcount == 0:
                new = {"group_id": self.group_id, "name": deployment.name, "created_ms": now}
                connection.execute(insert(DEPLOYMENT).values(**new, **row))
            connection.execute(delete(ORIGIN).where(self._origins(deployment.name)))
            if origins := stored_origins(deployment.assignments):
                connection.execute(
                    insert(ORIGIN).values(
                        group_id=self.group_id,
                        name=deployment.name,
                        version=deployment.version,
                        origins=json.dumps(origins),
                    )
                )

        self._database.write(work)

    def forget_deployment(self, term: int, node_id: str, name: str, version: int) -> None:
        """Delete the row of an undeployed app, unless it was deployed again since `version`.

        Raises
        ------
        StaleTermError
            The leadership is over; nothing was deleted.
        """
        c = DEPLOYMENT.c
        row = delete(DEPLOYMENT).where(
            (c.group_id == self.group_id)
            & (c.name == name)
            & (c.version == version)
            & (c.desired == Desired.REMOVED.value)
        )

        def work(connection: Connection) -> None:
            _fence(connection, self.group_id, term, node_id)
            if connection.execute(row).rowcount:
                connection.execute(delete(ORIGIN).where(self._origins(name)))

        self._database.write(work)

    def _origins(self, name: str) -> Any:
        return (ORIGIN.c.group_id == self.group_id) & (ORIGIN.c.name == name)


def open_store(source: Datasource, group_id: str, timeout_ms: int) -> CoordinationStore:
    """Return the rows of a group in a database of ``wso2.datasources``; see `CoordinationStore`."""
    password = source.password.reveal() if source.password else ""
    return CoordinationStore(
        source.url, group_id, username=source.username, password=password, timeout_ms=timeout_ms, pool=source.pool
    )


def _fence(connection: Connection, group_id: str, term: int, node_id: str) -> None:
    """Hold the leader row until the transaction ends, so that nobody takes over in between; raise if it changed."""
    # SQLite knows no FOR UPDATE: there a transaction that writes has begun with the lock (`WRITE`)
    query = select(LEADER.c.term, LEADER.c.node_id).where(LEADER.c.group_id == group_id).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None or (row.term, row.node_id) != (term, node_id):
        now = "nobody leads" if row is None else f"{row.node_id} leads in term {row.term}"
        raise StaleTermError(f"manager {node_id} no longer leads in term {term}: {now}")


def _inserted(connection: Connection, row: Any) -> bool:
    """Insert a row in a transaction of its own; False if its key is taken."""
    try:
        connection.execute(row)
    except IntegrityError:
        # PostgreSQL commits nothing of a transaction in which a statement has failed
        connection.rollback()
        return False
    return True
