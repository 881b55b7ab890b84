"""The rows of the journal in the coordination database. All its SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select

from spdist.cluster.coordination.database import JOURNAL, Transactions, database_now
from spdist.cluster.leader.journal_entries import JournalEntry
from spdist.cluster.protocol.messages import Announce

__all__ = ["Happened", "JournalRows"]

#: Characters of a name that is looked for, and of a text, that are kept of it.
_NAME, _TEXT = 255, 4000
#: Rows that are deleted in one transaction: renewals of the lease wait for no more than that (SQLite has one writer).
_PORTION = 500


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that is to be written.

    Parameters
    ----------
    said : Announce
        What.
    term : int, optional
        In which term.
    steady_ms : int
        When: the steady clock of this process.
    mark : str
        Tells it from all others: what may have been written already is not written twice.
    """

    said: Announce
    term: int | None
    steady_ms: int
    mark: str


class JournalRows:
    """The journal of one group of managers. Safe to use from several threads; raises as `Transactions` does."""

    def __init__(self, database: Transactions, group_id: str) -> None:
        self._database = database
        self._mine = JOURNAL.c.group_id == group_id
        self._group_id = group_id

    def write(self, node_id: str, happened: Sequence[Happened], steady_ms: int) -> None:
        """Write what has happened, in that order; `steady_ms` is now. Durable on return."""
        marks = [one.mark for one in happened]

        def work(connection: Connection) -> None:
            now = connection.scalar(select(database_now())) or 0
            known = set(connection.scalars(select(JOURNAL.c.mark).where(JOURNAL.c.mark.in_(marks))))
            for one in happened:
                if one.mark not in known:
                    # Two steady readings of one process: their difference goes back from the database's now
                    time_ms = now - (steady_ms - one.steady_ms)
                    connection.execute(insert(JOURNAL).values(self._row(node_id, one, time_ms)))

        self._database.write(work)

    def _row(self, node_id: str, one: Happened, time_ms: int) -> dict[str, object]:
        said = one.said
        return {
            "group_id": self._group_id,
            "mark": one.mark,
            "time_ms": time_ms,
            "term": one.term,
            "node_id": node_id,
            "kind": said.event,
            "level": said.level.value,
            "app": _storable(said.app, _NAME),
            "instance": _storable(said.group, _TEXT),
            "worker": _storable(said.worker, _TEXT),
            "username": _storable(said.user, _TEXT),
            "reason": _storable(said.reason, _TEXT),
            "message": _storable(said.message, _TEXT),
        }

    def read(
        self,
        *,
        app: str | None = None,
        kinds: Iterable[str] = (),
        since_ms: int | None = None,
        until_ms: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[JournalEntry]:
        """Return entries, the newest first.

        Parameters
        ----------
        app : str, optional
            Only what concerns this app.
        kinds : iterable of str
            Only these kinds; empty for all.
        since_ms, until_ms : int, optional
            Only what happened then: ms since epoch; the second is not in it.
        before : int, optional
            Only what stands before the entry with this id: the last of an answer asks for the next.
        limit : int
            So many at most.
        """
        c = JOURNAL.c
        query = select(
            *(c.id, c.time_ms.label("time"), c.term, c.node_id.label("node"), c.kind, c.level, c.app),
            *(c.instance.label("group"), c.worker, c.username.label("user"), c.reason, c.message),
        ).where(self._mine)
        if app is not None:
            query = query.where(c.app == app)
        if wanted := list(kinds):
            query = query.where(c.kind.in_(wanted))
        if since_ms is not None:
            query = query.where(c.time_ms >= since_ms)
        if until_ms is not None:
            query = query.where(c.time_ms < until_ms)
        if before is not None:
            query = query.where(c.id < before)
        # By id, which no two entries share, so that `before` neither skips nor repeats one
        query = query.order_by(c.id.desc()).limit(limit)
        return self._database.read(
            lambda connection: [JournalEntry(**row) for row in connection.execute(query).mappings()]
        )

    def trim(self, rows: int, age_ms: int) -> int:
        """Delete all but the newest `rows`, and what is older than `age_ms`; return how many entries went."""
        c = JOURNAL.c
        # The newest of those that are too many: it goes, and all before it
        surplus = select(c.id).where(self._mine).order_by(c.id.desc()).offset(rows).limit(1)
        old = select(func.max(c.id)).where(self._mine & (c.time_ms < database_now() - age_ms))

        def boundary(connection: Connection) -> int:
            return max(connection.scalar(surplus) or 0, connection.scalar(old) or 0)

        # Read once: what is written while portions are deleted must not keep the loop going
        last = self._database.read(boundary)
        doomed = select(c.id).where(self._mine & (c.id <= last)).order_by(c.id).limit(_PORTION)

        def portion(connection: Connection) -> int:
            # Two statements, as MySQL takes no LIMIT in a subquery of IN
            ids = list(connection.scalars(doomed))
            return connection.execute(delete(JOURNAL).where(c.id.in_(ids))).rowcount if ids else 0

        gone = 0
        while deleted := self._database.write(portion):
            gone += deleted
        return gone


def _storable(text: str, longest: int) -> str:
    """Return a text as every database takes it: not too long, without NUL and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")[:longest]
