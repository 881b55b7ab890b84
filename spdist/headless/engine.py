"""papermill's side: runs a notebook, passes signals on to its kernel, and sees to it that the notebook is saved."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click
import zmq
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager
from nbclient.exceptions import DeadKernelError
from nbclient.util import ensure_async
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine
from papermill.log import logger

from spdist.errors import ConfigError, NotebookError
from spdist.headless.parameters import check_parameters, parameters_of
from spdist.headless.signals import INTERRUPT_S, grace_s

__all__ = ["execute", "use_sockets"]

_PREPARE = "from spdist.headless.signals import prepare_kernel as _p; _p({parent}); del _p"
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: The path of a Unix socket has at most 103 bytes on every system; ``/kernel-5`` follows.
_LONGEST_DIRECTORY = 94


def execute(nb: Any, kernel_name: str, **options: Any) -> Any:
    """Run the notebook `nb` and return it; see `spdist.headless.SpdistEngine.execute_notebook`."""
    try:
        _check(nb)
        return _Engine.execute_notebook(nb, kernel_name, **options)
    except (NotebookError, ConfigError) as error:
        # Only papermill's command line shows a click error as a sentence; a caller in Python gets the error itself.
        if click.get_current_context(silent=True) is None:
            raise
        raise click.ClickException(str(error)) from error


def _check(nb: Any) -> None:
    given = nb.metadata.get("papermill", {}).get("parameters") or {}
    check_parameters(parameters_of(nb.cells), given)


class _Engine(NBClientEngine):  # type: ignore[misc]
    """papermill's own engine with another client."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        log_output: bool = False,
        stdout_file: Any = None,
        stderr_file: Any = None,
        start_timeout: int = 60,
        execution_timeout: int | None = None,
        **_: Any,
    ) -> Any:
        client = _Client(
            nb_man,
            kernel_name=kernel_name,
            timeout=execution_timeout,
            startup_timeout=start_timeout,
            log=logger,
            log_output=log_output,
            stdout_file=stdout_file,
            stderr_file=stderr_file,
        )
        return client.run()


def use_sockets(manager: KernelManager, directory: str) -> None:
    """Let a kernel that is not started yet listen on Unix sockets in `directory`, where their paths are short enough.

    With TCP, the manager chooses five free ports and the kernel binds them a second later; whatever connects on this
    machine meanwhile may have been given one of them, and the kernel dies.
    """
    if len(os.fsencode(directory)) <= _LONGEST_DIRECTORY:
        manager.transport, manager.ip = "ipc", f"{directory}/kernel"


class _Kernels(KernelSpecManager):
    """Where kernels are found: ``spdist`` is always this interpreter, whatever is registered under that name.

    Jupyter looks into ``JUPYTER_PATH`` and, outside a virtual environment, into the user's folder before it looks into
    this environment, so a kernel of that name left there by another installation would win.
    """

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        if kernel_name != "spdist":
            return super().get_kernel_spec(kernel_name)
        argv = [sys.executable, "-m", "spdist.headless.kernel", "-f", "{connection_file}"]
        encryption = {"supported_encryption": ["curve"]}
        return KernelSpec(argv=argv, display_name="Python (spdist)", language="python", metadata=encryption)


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    """Runs the cells, and climbs the ladder of signals when this process is told to stop."""

    def run(self) -> Any:
        """Run all cells.

        Raises
        ------
        NotebookError
            The kernel died or was killed, and the notebook says so too; or this process was told to stop too early.
        """
        self.ladder = _Ladder(grace_s())
        self.on_notebook_start = self._prepare
        self._sockets = tempfile.mkdtemp(prefix="spdist-kernel-")
        try:
            with self.ladder.listening():
                return self.execute()
        except DeadKernelError as error:
            raise self._died() from error
        finally:
            if self.km is not None and self.km.has_kernel:  # interrupted before nbclient was ready to clean up
                _send(self.km.provisioner.pid, signal.SIGKILL)
            shutil.rmtree(self._sockets, ignore_errors=True)

    def create_kernel_manager(self) -> Any:
        """Return nbclient's kernel manager, with our idea of the kernel ``spdist``, over Unix sockets."""
        manager = super().create_kernel_manager()
        use_sockets(manager, self._sockets)
        manager.kernel_spec_manager = _Kernels(parent=manager)
        if manager.has_trait("transport_encryption") and zmq.has("curve"):
            # Otherwise every user of this machine could read what the kernel and this process say to each other.
            manager.transport_encryption = "auto"
        return manager

    def papermill_execute_cells(self) -> None:
        """Run the cells; what comes after them (the kernel's own end) is not hurried."""
        super().papermill_execute_cells()
        self.ladder.close()

    async def _prepare(self, notebook: Any) -> None:
        """Teach the kernel to stop; called when it is up and before the first cell."""
        prepare = _PREPARE.format(parent=os.getpid())
        message = await ensure_async(self.kc.execute(prepare, silent=True, store_history=False))
        reply = await self.async_wait_for_reply(message)
        prepared = reply is not None and reply["content"]["status"] == "ok"
        if not prepared:
            logger.warning(
                f"the kernel {self.kernel_name!r} ({self.km.kernel_spec.argv[0]}) has no spdist: "
                "it will be interrupted, not asked, when this process is told to stop"
            )
        self.ladder.attach(self.km.provisioner.pid, prepared=prepared)

    def _died(self) -> NotebookError:
        """Mark the cell in which the kernel died, and return the error that says why."""
        why = self.ladder.killed or "the kernel died; it may have run out of memory"
        running = [cell for cell in self.nb.cells if cell.metadata.papermill["start_time"]]
        if running:
            self.nb_man.cell_exception(running[-1])
            output = new_output("error", ename="KernelDied", evalue=why, traceback=[why])  # type: ignore[no-untyped-call]
            running[-1].outputs.append(output)
        return NotebookError(why)


class _Ladder:
    """What is done to the kernel when this process is told to stop: ask, interrupt, kill, each after the last failed.

    Each SIGTERM, SIGINT or SIGHUP to this process climbs one step; so does the end of a step's time. A thread climbs,
    since a signal handler may neither log nor wait.

    Parameters
    ----------
    grace_s : float
        Seconds between asking and interrupting.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._pid: int | None = None
        self._steps: list[signal.Signals] = []
        # Its `put` is reentrant, so that a signal handler may call it.
        self._calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        #: Why the kernel was killed; empty while it was not.
        self.killed = ""

    def attach(self, pid: int, *, prepared: bool) -> None:
        """Name the kernel; unless it is `prepared`, asking would kill it, so the ladder begins at the interrupt."""
        self._steps = [*([signal.SIGTERM] if prepared else []), signal.SIGINT, signal.SIGKILL]
        self._pid = pid
        threading.Thread(target=self._climb, name="spdist-stop", daemon=True).start()

    def close(self) -> None:
        """Climb no further."""
        self._calls.put("")

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take over this process's signals; outside the main thread there are none to take."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.getsignal(one) for one in _SIGNALS}
        for one, handler in before.items():
            if one is not signal.SIGHUP or handler is not signal.SIG_IGN:  # nohup stays nohup
                signal.signal(one, self._on_signal)
        try:
            yield
        finally:
            self.close()
            for one, handler in before.items():
                signal.signal(one, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        # No cell runs that should come to an end: the start is broken off.
        if self._pid is None:
            raise NotebookError(f"{name} received before the first cell ran")
        self._calls.put(f"{name} received")

    def _climb(self) -> None:
        assert self._pid is not None
        seconds: float | None = None
        for step in self._steps:
            # `seconds` is None until the first signal: that is waited for without a limit.
            try:
                why = self._calls.get(timeout=seconds)
            except queue.Empty:
                why = f"the kernel still runs after {seconds:g} s"
            if not why:
                return
            if step is signal.SIGTERM:
                logger.info(f"{why}: asking the kernel to stop, for up to {self._grace_s:g} s")
                seconds = self._grace_s
            elif step is signal.SIGINT:
                logger.warning(f"{why}: interrupting the kernel")
                seconds = INTERRUPT_S
            else:
                logger.error(f"{why}: killing the kernel and what it started")
                self.killed = f"the kernel did not stop when it was asked and interrupted, so it was killed ({why})"
            _send(self._pid, step)


def _send(pid: int, number: signal.Signals) -> None:
    """Signal the kernel's own process, since its group may hold a JVM that it still needs; a kill is for the group."""
    try:
        if number is signal.SIGKILL and os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself meanwhile
