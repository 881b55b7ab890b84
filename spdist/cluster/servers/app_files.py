"""The apps of a server as the files of its directory say: looked at again and again, read, written and removed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from spdist.cluster.servers.app_directory import AppDirectory, Stamp, changes
from spdist.cluster.servers.deployed import DeployOutcome
from spdist.cluster.servers.own_leader import OwnLeader
from spdist.errors import ClusterError, ErrorKind, SiddhiAppError, SpdistError
from spdist.planning.standalone import standalone_topology
from spdist.planning.topology import Assignment

__all__ = ["AppFiles"]

_log = logging.getLogger("spdist.cluster.server")
#: Bytes of a file; a larger one is not read.
_LONGEST = 16 << 20
#: Least time between two looks, s.
_APART_S = 0.1


class AppFiles:
    """Keeps the apps of an `OwnLeader` in line with a directory. Safe to use from threads.

    Parameters
    ----------
    directory : AppDirectory
        Where the files are.
    leader : OwnLeader
        Whose apps they are.
    lock : Lock
        Of the leader.
    accept : callable
        From the text of an app to what is to be run; raises SiddhiAppError.

    State
    -----
    A stamp for each file.
    """

    def __init__(
        self,
        directory: AppDirectory,
        leader: OwnLeader,
        lock: threading.Lock,
        accept: Callable[[str], Assignment],
    ) -> None:
        self._directory = directory
        self._leader = leader
        self._lock = lock
        self._accept = accept
        self._changing = threading.Lock()  # of the directory, and of what is known of it
        self._known: dict[str, Stamp] = {}
        self._before: dict[str, Stamp] = {}
        self._looked_s = 0.0
        self._pause = threading.Event()
        #: why the directory could not be read by the last look; empty where it could
        self.problem = ""
        #: whether the last look has changed an app
        self.changed = False

    def scan(self) -> bool:
        """Do what the files ask for, and return whether one has just changed and is to be looked at again soon.

        While the directory cannot be read the apps are left as they are.
        """
        with self._changing:
            self.changed = False
            # Several threads look; that one has seen the same as another a moment ago tells nothing of who writes.
            self._pause.wait(max(0.0, self._looked_s + _APART_S - time.monotonic()))
            self._looked_s = time.monotonic()
            try:
                now = self._directory.scan()
            except OSError as error:
                before, self.problem = self.problem, f"cannot read {self._directory.path}: {error.strerror}"
                if not before:
                    _log.error("the apps stay as they are: %s", self.problem)
                return False
            self.problem = ""
            found = changes(self._known, self._before, now)
            self._before = now
            for name in found.removed:
                del self._known[name]
                with self._lock:
                    self._leader.undeploy(name)
                _log.info("app %s is undeployed: its file is gone", name, extra={"app": name})
            for name in found.written:
                self._read(name, now[name])
            self.changed = bool(found.removed or found.written)
            return found.unsettled

    def _read(self, name: str, stamp: Stamp) -> None:
        """Deploy the app of a file, or say in its status what is wrong with it."""
        text = ""
        try:
            text = _decoded(self._directory.read(name, _LONGEST + 1))
            assignment = self._accept(text)
            if assignment.name != name:
                raise SiddhiAppError(
                    f"the file {name}.siddhi holds the app {assignment.name}", hint=f"call it {assignment.name}.siddhi"
                )
        except OSError as error:  # tried again with the next look
            _log.error("cannot read the file of app %s: %s", name, error.strerror, extra={"app": name})
            return
        except Exception as error:  # one app, and be it a defect of ours, must not keep the others from running
            known = isinstance(error, SpdistError)
            reason = str(error) if known else f"spdist failed to read it: {error!r}"
            _log.error("app %s is not deployed: %s", name, reason, exc_info=not known, extra={"app": name})
            with self._lock:
                self._leader.refuse(name, text, reason)
        else:
            _log.info("app %s is deployed from its file", name, extra={"app": name})
            with self._lock:
                self._leader.deploy(text, assignment)
        # As it was before it was read: what is written meanwhile differs, and is read with a next look
        self._known[name] = stamp

    def write(self, text: str, *, replace: bool) -> DeployOutcome:
        """Check an app, keep it as a file of the directory, and let it run.

        Parameters
        ----------
        text : str
            SiddhiQL with ``@app:name``.
        replace : bool
            Whether an app of that name may be there already.

        Returns
        -------
        DeployOutcome
            With what becomes of the elements, where an app of that name was running.

        Raises
        ------
        SiddhiAppError
            The text is wrong; says everything that is.
        ClusterError
            The name is in use, and `replace` is False.
        ClusterError
            The file cannot be written; then nothing has changed.
        """
        # Before the lock is taken: a text that is wrong, or takes long to check, keeps nobody waiting
        assignment = self._accept(text)
        name = assignment.name
        with self._changing:
            there = self._is_there(name)
            if there and not replace:
                hint = "use PUT to replace it, or undeploy it first"
                raise ClusterError(f"an app {name} is deployed already", hint=hint, code=ErrorKind.CONFLICT)
            # Of what runs: the file may hold a text that is wrong.
            with self._lock:
                runs = self._leader.running(name)
            change = None if runs is None else standalone_topology(runs).diff(standalone_topology(assignment))
            try:
                # Known as read, so that the next look does not deploy it once more
                self._known[name] = self._directory.write(name, text)
            except OSError as error:
                raise ClusterError(f"app {name} cannot be kept in {self._directory.path}: {error.strerror}") from error
            with self._lock:
                self._leader.deploy(text, assignment)
        return DeployOutcome(name, created=not there, change=change)

    def _is_there(self, name: str) -> bool:
        """Tell whether there is an app, or a file of one that has not been read yet."""
        with self._lock:
            if name in self._leader:
                return True
        try:
            return name in self._directory.scan()
        except OSError:
            return False  # writing the file says what is wrong

    def remove(self, name: str) -> None:
        """Remove an app with its file; its state and its topics stay.

        Raises
        ------
        NotFoundError
            There is no such app.
        ClusterError
            The file cannot be removed; then nothing has changed.
        """
        with self._changing:
            with self._lock:
                self._leader.app(name)
            try:
                self._directory.remove(name)
            except OSError as error:
                raise ClusterError(f"the file of app {name} cannot be removed: {error.strerror}") from error
            self._known.pop(name, None)
            with self._lock:
                self._leader.undeploy(name)


def _decoded(content: bytes) -> str:
    if len(content) > _LONGEST:
        raise SiddhiAppError(f"the file has more than {_LONGEST} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SiddhiAppError(f"the file is not UTF-8 text: {error.reason} at byte {error.start}") from error
