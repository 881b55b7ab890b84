"""How the processes of a query are told to end, and say how far they are: files in a directory that is the query's own.

Each task notes there until when it waits for events only; so nothing wakes an idle query.

The stop flag itself asks that no batch begins any more. Next to it ``.seen`` says that none will; ``.sending`` is there
while a batch is over and what it has put out is still being sent; ``.now`` asks that nobody waits for a receiver. While
a sink waits for its receiver, a note ``waiting-….json`` of its producer says why.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from hashlib import sha256
from pathlib import Path

__all__ = ["IdleTasks", "StopFlag", "noted_reason"]

#: In the directory of the query's stop flag, one for each producer.
_WAITING = "waiting-*.json"


class StopFlag:
    """The stop flag of a query, and the files next to it.

    Parameters
    ----------
    path : str or path
        Of the flag. Once its directory is gone, the query is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._seen, self._sending, self._now = (
            self._path.with_name(self._path.name + suffix) for suffix in (".seen", ".sending", ".now")
        )

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._path.parent

    def ask(self) -> None:
        """Ask that no batch begins any more."""
        _touch(self._path)

    def is_asked(self) -> bool:
        """Whether that has been asked."""
        return self._path.exists()

    def obeyed(self) -> bool:
        """Whether that is asked; called between batches: no batch runs then, none will begin, and that is told."""
        if not self.is_asked():
            return False
        self._seen.touch()
        return True

    def begin_sending(self) -> None:
        """Tell that what a batch has put out is being sent after it."""
        _touch(self._sending)

    def end_sending(self) -> None:
        """Tell that nothing is being sent after its batch any more."""
        with contextlib.suppress(OSError):
            self._sending.unlink(missing_ok=True)

    def is_at_rest(self) -> bool:
        """Whether no batch runs nor will begin, and nothing is being sent."""
        return self._seen.exists() and not self._sending.exists()

    def stop_waiting(self) -> None:
        """Ask that nobody waits for a receiver: what was not sent is sent when the state is loaded again."""
        _touch(self._now)

    def waits_no_more(self) -> bool:
        """Whether nobody is to wait for a receiver any more."""
        return self._now.exists() or not self.directory.exists()

    def note_waiting(self, producer: str, why: str | None) -> None:
        """Tell for what a sink of a producer waits; None where it goes on."""
        note = self.directory / _WAITING.replace("*", sha256(producer.encode()).hexdigest()[:16])
        with contextlib.suppress(OSError):
            if why is None:
                note.unlink(missing_ok=True)
            else:
                note.write_text(json.dumps({"why": why, "at": int(time.time() * 1000)}), encoding="utf-8")

    def why_waiting(self) -> str | None:
        """Return for what a sink of the query waits; None where none does."""
        return noted_reason(self.directory, _WAITING)


class IdleTasks:
    """Until when the tasks of a query have nothing to do unless events come: a note of each.

    Parameters
    ----------
    directory : Path
        That of the query's stop flag.

    State
    -----
    What was noted last, by task.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._noted: dict[int, int | None] = {}

    def note(self, task: int, until_ms: int | None) -> None:
        """Note it for a task; None where only events wake it."""
        if task not in self._noted or self._noted[task] != until_ms:
            with contextlib.suppress(OSError):  # then it is woken as often as others
                self._file(task).write_text(json.dumps({"until": until_ms}), encoding="utf-8")
                self._noted[task] = until_ms

    def until(self, tasks: int) -> int | None:
        """Return until when all of so many have nothing to do, ms; 0 where one has not said it."""
        try:
            # A note that is just being written counts as none: the query is woken, which does no harm
            notes = [json.loads(self._file(task).read_text(encoding="utf-8"))["until"] for task in range(tasks)]
        except (OSError, ValueError, KeyError):
            return 0
        return min((until for until in notes if until is not None), default=None)

    def _file(self, task: int) -> Path:
        return self._directory / f"idle-{task}.json"


def noted_reason(directory: Path, pattern: str) -> str | None:
    """Return the reason in the first note of a query that can be read, by name; None where there is none.

    Parameters
    ----------
    directory : Path
        That of the query's stop flag, in which its processes leave notes for the group's status.
    pattern : str
        Of the notes' names.
    """
    for note in sorted(directory.glob(pattern)):
        try:
            return str(json.loads(note.read_text(encoding="utf-8"))["why"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):  # the host is gone, and the query with it
        path.touch()
