"""The managers that leaders have named to a worker, in a file: it finds them after a restart, too.

The worker shows its password to whom this file names. So only its owner may have written it, and what it says is
checked like an answer from the network; it holds addresses, no passwords.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from spdist.cluster.protocol.wire import MAX_BODY_BYTES, Address, Message, read_message
from spdist.errors import ClusterError

__all__ = ["MOST_MANAGERS", "KnownManagers"]

#: Managers remembered besides the configured ones.
MOST_MANAGERS = 20

_log = logging.getLogger("spdist.cluster.worker")


class _Stored(Message):
    """What is in the file."""

    managers: Annotated[list[Address], Field(max_length=MOST_MANAGERS)]


class KnownManagers:
    """The file of one worker. Without it, or where it cannot be used, a worker knows those of its settings.

    Parameters
    ----------
    directory : Path
        Made when it is first needed, for its owner only.
    worker : str
        Id of the worker.

    State
    -----
    What was last written.
    """

    def __init__(self, directory: Path, worker: str) -> None:
        name = hashlib.sha256(worker.encode()).hexdigest()[:32]
        self.path = directory / f"managers-{name}.json"
        self._written: frozenset[str] | None = None

    def read(self) -> tuple[str, ...]:
        """Return the base URLs that are stored; none if the file is missing, another's, or damaged, which is logged."""
        try:
            # No link of others is followed, and a pipe in the place of the file does not block
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                # Of the open file: the one of that name could be another by now
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                    _log.warning("%s is not used: it must be a file that only its owner may read and write", self.path)
                    return ()
                stored = read_message(_Stored, file.read(MAX_BODY_BYTES))
        except FileNotFoundError:
            return ()
        except (OSError, ClusterError) as error:
            _log.warning("%s is not used: %s", self.path, error)
            return ()
        return tuple(address.url for address in stored.managers)

    def write(self, urls: Collection[str]) -> None:
        """Store these base URLs, if they are others than were last written. That it cannot be done is logged, once."""
        wanted = frozenset(urls)
        if wanted == self._written:
            return
        self._written = wanted
        text = _Stored(managers=[Address.from_url(url) for url in sorted(wanted)[:MOST_MANAGERS]]).to_json()
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(
                dir=self.path.parent, prefix=f"{self.path.name}."
            )  # for the owner only
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, self.path)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            _log.warning("the managers are not remembered for the next start: %s", error)
