"""From the text of a program to machine code: a module in a cache, by the hash of all that it depends on.

Compiling takes about a second and is done once for a text on a machine; loading takes some milliseconds. Without numba
nothing here is called: `is_available` says so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from spdist.program.text import Program

__all__ = ["Compiled", "Compiling", "is_available"]

#: A folder for compiled programs; by default the user's cache.
_FOLDER = "SPDIST_PROGRAM_CACHE"


def is_available() -> bool:
    """Tell whether programs can be compiled here."""
    return importlib.util.find_spec("numba") is not None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program: its function, what expires events, and the module of what both call."""

    run: Any
    expire: Any
    kernels: Any


class Compiling:
    """A program that is being compiled by a process of its own, or was before.

    Parameters
    ----------
    program : Program
        Its text.

    State
    -----
    A file in the cache, and numba's files next to it.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.file = _folder() / f"spdist_program_{_fingerprint(program.source)}.py"
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = False

    def start(self) -> None:
        """Begin to compile, where that was not done before."""
        if self._is_done() or self._process is not None:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        _write(self.file, self._program.source)
        command = [sys.executable, "-m", "spdist.program.compiler", str(self.file), *_signature(self._program)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether it was compiled within so many seconds."""
        self.start()
        if self._process is not None:
            self._process.wait(timeout_s)
        return self._is_done()

    def ready(self) -> Compiled | None:
        """Return the compiled program, once it is there; None while it is not, and for ever where it cannot be."""
        if self._failed or not self._is_done():
            return None
        return _load(self.file, _signature(self._program))

    def _is_done(self) -> bool:
        return _mark(self.file).exists()


def _folder() -> Path:
    given = os.environ.get(_FOLDER)
    if given:
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "spdist" / "programs"


def _mark(file: Path) -> Path:
    """Return the file that says that a program was compiled."""
    return file.with_suffix(".compiled")


def _fingerprint(source: str) -> str:
    import numba
    import numpy

    kernels = Path(__file__).with_name("kernels.py").read_bytes()
    machine = f"{platform.machine()} {_cpu()} {sys.version} {numba.__version__} {numpy.__version__}"
    return hashlib.sha256(b"\0".join((source.encode(), kernels, machine.encode()))).hexdigest()[:32]


def _cpu() -> str:
    from numba.core import config
    from llvmlite import binding

    return f"{config.CPU_NAME or binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


def _write(file: Path, text: str) -> None:
    """Write a file that others may read or write at the same time; an old one is kept, as numba looks at its time."""
    if file.exists():
        return
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    try:
        os.link(name, file)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)


def _signature(program: Program) -> list[str]:
    return [array.dtype for array in program.arrays.declared.values()]


def _load(file: Path, dtypes: list[str]) -> Compiled:
    """Return a program, compiled for arrays of these types."""
    import numba

    from spdist.program import kernels

    module = _module(file)
    types = [getattr(numba.types, dtype) for dtype in dtypes]
    arrays = tuple(numba.types.Array(one, 1, "C") for one in types)
    whole = numba.types.Array(numba.int64, 1, "C")
    module.run.compile((whole, whole, whole, whole, numba.int64, *arrays))
    module.expire.compile((numba.int64, *arrays))
    return Compiled(module.run, module.expire, kernels)


def _module(file: Path) -> ModuleType:
    """Import a program as a module of its own, which numba needs to find its cache."""
    name = file.stem
    known = sys.modules.get(name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> None:
    """Compile a program: its file, then the dtypes of its arrays."""
    file = Path(arguments[0])
    _load(file, arguments[1:])
    _mark(file).touch()


if __name__ == "__main__":
    main(sys.argv[1:])
