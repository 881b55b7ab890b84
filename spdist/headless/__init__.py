"""Notebooks as processes: papermill's engine ``spdist``, and what a notebook needs to be stopped.

``python -m papermill --engine spdist in.ipynb out.ipynb -p name value`` differs from papermill's own engine:

- SIGTERM (and Ctrl-C) reaches the kernel, and only the kernel's own process: its code stops as it sees fit, the cells
  that remain run, and the notebook is saved. What does not stop in time is interrupted, then killed.
- A parameter that the notebook does not have, or of another type, is an error before any cell runs.
- A kernel whose papermill is gone, even by ``kill -9``, ends, with every process that it started.
- A kernel that dies leaves its mark in the saved notebook.

In the notebook, ``with stop_signal() as stop:`` gives the event to wait for, and `exit_value` gives a value back.
"""

from __future__ import annotations

from typing import Any

from spdist.headless.exchange import exit_value, job_parameters
from spdist.headless.signals import stop_signal

__all__ = ["SpdistEngine", "exit_value", "job_parameters", "stop_signal"]


class SpdistEngine:
    """The engine ``spdist`` of papermill (entry point ``papermill.engine``).

    Notes
    -----
    It has the methods of papermill's ``Engine`` but does not inherit them: papermill loads this class while it is
    itself half loaded, and a kernel that only wants `stop_signal` should not load papermill at all.
    """

    @classmethod
    def execute_notebook(cls, nb: Any, kernel_name: str, **options: Any) -> Any:
        """Check the parameters of `nb`, run it, and return it; `options` are those of papermill's own engine.

        Raises
        ------
        NotebookError
            A parameter is wrong, or the kernel was stopped by force. From papermill's command line: a sentence on
            stderr and exit code 1.
        """
        from spdist.headless.engine import execute

        return execute(nb, kernel_name, **options)

    @classmethod
    def nb_kernel_name(cls, nb: Any, name: str | None = None) -> str:
        """Return the kernel that `nb` names, or `name`."""
        from papermill.utils import nb_kernel_name

        return str(nb_kernel_name(nb, name))

    @classmethod
    def nb_language(cls, nb: Any, language: str | None = None) -> str:
        """Return the language that `nb` names, or `language`."""
        from papermill.utils import nb_language

        return str(nb_language(nb, language))
