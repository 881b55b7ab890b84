"""Revisions: the state of a group instance at one moment, kept under a name to go back to.

A revision is complete in itself: the newest snapshot, the segments after it, and with them the offsets at which reading
goes on. It is taken while the group runs, without stopping it, since the files of a state never change once they are
there. Going back is one append to the log of the state: it fences the owner that runs now, and whoever starts the group
next goes on from the revision.

What has been published stays published. A group that went back publishes it again under the same ids, and readers drop
what they have seen; so the revisions of an app's groups need not be of the very same moment.

Source: names ``<millis>__<app>`` and ``revisionsToKeep`` as in WSO2's FileSystemPersistenceStore.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path

from spdist.engine.state import Segment, StateStore, state_directory
from spdist.errors import FencedError, NotFoundError, StateError

__all__ = ["FileSystemPersistenceStore"]

_NAME = re.compile(r"\d{1,15}__[^/\\]{1,200}")
_MANIFEST = "manifest.json"
_FORMAT = 1
#: How often a revision is begun again because the running group has just deleted what was to be taken.
_ATTEMPTS = 20


class FileSystemPersistenceStore:
    """The revisions of all group instances below one directory.

    The state of an instance is in ``<location>/<instance>``, its revisions are in ``<location>/.revisions/<instance>``.
    Both must be on one file system: files are shared by hard links, so a revision costs no space until the state has
    gone on.

    Parameters
    ----------
    location : path
        ``state.persistence.config.location``, the same for all workers.
    revisions_to_keep : int
        How many revisions of an instance are kept; older ones are deleted when a new one is saved.
    """

    def __init__(self, location: str | os.PathLike[str], revisions_to_keep: int) -> None:
        self._location = Path(location)
        self._keep = revisions_to_keep

    def save(self, instance: str, revision: str) -> None:
        """Keep the present state of `instance` under the name `revision`; nothing happens where it is there already.

        Raises
        ------
        StateError
            The name is no name of a revision, the instance has no state yet, or files cannot be written.
        """
        target = self._path(instance, revision)
        if target.exists():
            return
        store = StateStore(state_directory(self._location, instance))
        for _ in range(_ATTEMPTS):
            temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
            try:
                temporary.mkdir(parents=True)
                last = _take(store, temporary)
                manifest = {
                    "format": _FORMAT,
                    "instance": instance,
                    "revision": revision,
                    "segment": last.number,
                    "positions": last.positions,
                }
                (temporary / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
                temporary.rename(target)
            except FileNotFoundError:  # the group took a snapshot and deleted what came before it
                continue
            except OSError as error:
                raise StateError(
                    f"revision {revision} of {instance} cannot be written: {error}",
                    hint=f"{self._location} needs space and must be on a file system with hard links",
                ) from error
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            self._prune(instance)
            return
        raise StateError(f"the state of {instance} changes too fast to keep it", hint="try again")

    def revisions(self, instance: str) -> list[str]:
        """Return the names of the revisions of `instance`, oldest first."""
        directory = state_directory(self._location / ".revisions", instance)
        names = os.listdir(directory) if directory.exists() else []
        return sorted((name for name in names if _NAME.fullmatch(name)), key=lambda name: (_millis(name), name))

    def restore(self, instance: str, revision: str) -> None:
        """Let `instance` go back to `revision`. A group that runs is fenced, and fails with its next batch.

        Raises
        ------
        NotFoundError
            There is no such revision.
        StateError
            The revision is damaged, or was made by another version.
        """
        source = self._path(instance, revision)
        if not source.exists():
            known = ", ".join(self.revisions(instance)) or "none"
            raise NotFoundError(f"{instance} has no revision {revision}", hint=f"its revisions: {known}")
        _check_manifest(source, instance)
        store = StateStore(state_directory(self._location, instance))
        earlier = StateStore(source).last()
        if earlier is None:
            raise StateError(f"revision {revision} of {instance} is damaged: it has no segment")
        while True:
            number = max(store.numbers("segment"), default=0) + 1
            base = store.directory / f"base-{number:012d}-{uuid.uuid4().hex}"
            base.mkdir(parents=True)
            _take(StateStore(source), base)
            mark = Segment(
                number, base.name, earlier.emitted, earlier.tick, earlier.positions, opening=True, base=base.name
            )
            try:
                store.append(mark)
            except FencedError:  # the running group was faster; try with the next number
                shutil.rmtree(base)
            else:
                return

    def _prune(self, instance: str) -> None:
        for old in self.revisions(instance)[: -self._keep]:
            shutil.rmtree(self._path(instance, old), ignore_errors=True)

    def _path(self, instance: str, revision: str) -> Path:
        if not _NAME.fullmatch(revision):
            raise StateError(f"{revision!r} is no name of a revision", hint="revisions are called <millis>__<app>")
        return state_directory(self._location / ".revisions", instance) / revision


def _take(store: StateStore, target: Path) -> Segment:
    """Link everything into `target` that the newest state is loaded from; return its last segment."""
    last = store.last()
    if last is None:
        raise StateError(f"there is no state in {store.directory} yet", hint="wait until the group has run a batch")
    files: list[Path] = []
    if (base := store.base(last.number)) is not None:
        earlier = target / base.base
        earlier.mkdir()
        _take(StateStore(store.directory / base.base), earlier)
        first = base.number
    else:
        snapshot = max((n for n in store.numbers("snapshot") if n <= last.number), default=0)
        files += [store.path("snapshot", snapshot)] if snapshot else []
        first = snapshot + 1
    # A snapshot may stand for the last segment; that one is needed all the same: it knows where reading goes on.
    files += [store.path("segment", number) for number in range(min(first, last.number), last.number + 1)]
    for file in files:
        os.link(file, target / file.name)
    return last


def _check_manifest(revision: Path, instance: str) -> None:
    try:
        manifest = json.loads((revision / _MANIFEST).read_text(encoding="utf-8"))
        known = manifest["format"] == _FORMAT and manifest["instance"] == instance
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"{revision} is damaged: {error}", hint="restore another revision") from error
    if not known:
        raise StateError(f"{revision} is of another group or was made by another version of spdist")


def _millis(revision: str) -> int:
    return int(revision.partition("__")[0])
