"""From the text of a program to machine code: a module in a cache, by the hash of all that it depends on.

Compiling takes about a second and is done once for a text on a machine; loading takes some milliseconds. Without numba
nothing here is called: `is_available` says so.
"""

from __future__ import annotations

import ast
import ctypes
import fcntl
import hashlib
import importlib.util
import logging
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the process that compiles knows texts only: it needs no pandas
    from spdist.program.parts import Program

__all__ = ["Compiled", "Compiling", "compile_after", "interpreted", "is_available"]

log = logging.getLogger(__name__)

#: A folder for compiled programs; by default the user's cache.
_FOLDER = "SPDIST_PROGRAM_CACHE"
#: How many events an app must have processed to be compiled.
_AFTER = "SPDIST_COMPILE_AFTER"
_EVENTS = 20_000
#: The modules that machine code depends on, next to the text: what it calls, and this one.
_USED = (
    *("addresses", "arithmetic", "calls", "cell_kernels", "compiler", "days", "hash_tables", "kernels", "passes"),
    *("purge_kernels", "reorder_kernels", "shared", "sorting"),
)
#: Held while a module is imported, or its code loaded: threads of two apps may load the same program, and neither may
#: see half of it.
_IMPORTING = threading.Lock()


def compile_after() -> int | None:
    """Return how many events an app has processed when it is compiled, which takes some seconds of a core; None: never.

    ``SPDIST_COMPILE_AFTER`` says it.
    """
    given = os.environ.get(_AFTER)
    if given == "never":
        return None
    if given is not None and given.isdecimal():
        return int(given)
    if given is not None:
        log.warning("%s is a number of events, or never; not %r", _AFTER, given)
    return _EVENTS


def is_available() -> bool:
    """Tell whether programs can be compiled here."""
    return importlib.util.find_spec("numba") is not None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program: its function, what expires events, modules of what both call, and how it calls Python."""

    run: Any
    expire: Any
    kernels: Any
    hash_tables: Any
    #: From arrays, in the order of the text, to what ``run`` is given for them in each call, until there are others;
    #: ``expire`` is given the arrays.
    given: Callable[[Iterable[Any]], tuple[Any, ...]]
    #: From that, and arrays by their place, to what ``run`` is given for a call that reads these in place of its own.
    lending: Callable[[tuple[Any, ...], Mapping[int, Any]], tuple[Any, ...]]
    #: From a function of three whole numbers to what must be kept, and what ``run`` is given for it as ``callback``.
    callback: Callable[[Callable[[int, int, int], int]], tuple[Any, Any]]


def interpreted(program: Program) -> Compiled:
    """Return a program whose text is executed by Python: for tests, which need many programs and few events."""
    from spdist.program.machine import hash_tables, kernels

    names: dict[str, Any] = {}
    exec(_code(program.source), names)
    names["uintp"] = _place
    names["called"] = lambda callback, *numbers: callback(*map(int, numbers))  # Python's own integers
    own = names["run"], names["expire"], kernels, hash_tables
    return Compiled(*own, tuple, _lending, lambda function: (function, function))


@lru_cache(16)
def _code(source: str) -> CodeType:
    """Return what Python executes for a text: tests begin one program again and again."""
    return compile(_tree_with_places(source.replace("@loop\n", "")), "<program>", "exec")


def _lending(given: tuple[Any, ...], lent: Mapping[int, Any]) -> tuple[Any, ...]:
    return tuple(lent.get(place, array) for place, array in enumerate(given))


class Compiling:
    """A program that is to be compiled, by a process of its own, or was before.

    Parameters
    ----------
    program : Program
        Its text.

    State
    -----
    A file in the cache, and numba's files next to it.
    """

    def __init__(self, program: Program) -> None:
        self._source = program.source
        self._dtypes = [array.dtype for array in program.arrays.declared.values()]
        self.file = _folder() / f"spdist_program_{_fingerprint(program.source)}.py"
        self._begun = False
        self._process: subprocess.Popen[bytes] | None = None
        self._loading: threading.Thread | None = None
        self._compiled: Compiled | None = None

    @property
    def is_done(self) -> bool:
        """Whether the program was compiled on this machine."""
        return _mark(self.file).exists()

    def start(self) -> None:
        """Begin to compile, where that was neither done nor begun by this process."""
        if self._begun or self.is_done:
            return
        self._begun = True
        command = [sys.executable, "-m", "spdist.program.machine.compiler", str(self.file), *self._dtypes]
        # The other process imports what this one can, however that was put on its path.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            _write(_text(self.file), self._source)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)
        except OSError as error:
            log.warning("no program is compiled: %s; %s names another directory", error, _FOLDER)

    def ready(self) -> Compiled | None:
        """Return the compiled program; None while it is not there. It is loaded meanwhile, by a thread."""
        if self._compiled is None and self._loading is None and self.is_done:
            self._loading = threading.Thread(target=self._load, name="spdist-program", daemon=True)
            self._loading.start()
        if self._process is not None:
            self._process.poll()  # it must not stay a zombie
        return self._compiled

    def loaded(self) -> Compiled | None:
        """Return the compiled program, with its code loaded now; None where it was not compiled."""
        if self._loading is not None:
            self._loading.join()
        if self._compiled is None and self.is_done:
            self._load()
        return self._compiled

    def wait(self) -> Compiled:
        """Compile, load, and return the program.

        Raises
        ------
        RuntimeError
            It cannot be compiled.
        """
        self.start()
        if self._process is not None:
            self._process.wait()
        compiled = self.loaded()
        if compiled is None:
            raise RuntimeError(f"{self.file} cannot be compiled")
        return compiled

    def _load(self) -> None:
        try:
            self._compiled = _load(self.file)
        except Exception:  # another version of numba, a damaged cache: the operators go on
            log.exception("the compiled program %s cannot be loaded", self.file)


def _folder() -> Path:
    given = os.environ.get(_FOLDER)
    if given:
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "spdist" / "programs"


def _mark(file: Path) -> Path:
    """Return the file that says that a program was compiled."""
    return file.with_suffix(".compiled")


def _text(file: Path) -> Path:
    """Return the file with the text of a program, from which the process that compiles it makes its module."""
    return file.with_suffix(".text")


def _fingerprint(source: str) -> str:
    """Return the hash of all that machine code depends on; numba is not imported for it."""
    return hashlib.sha256(_surroundings() + source.encode()).hexdigest()[:32]


@lru_cache(1)
def _surroundings() -> bytes:
    """Return the hash of what all programs of this process depend on: the modules that they use, and the machine."""
    kernels = b"".join(Path(__file__).with_name(f"{name}.py").read_bytes() for name in _USED)
    versions = [metadata.version(name) for name in ("numba", "llvmlite", "numpy")]
    machine = repr((platform.machine(), _processor(), sys.version, versions))
    return hashlib.sha256(b"\0".join((kernels, machine.encode()))).digest()


def _processor() -> str:
    """Return what the processor is and can, where the system tells it."""
    try:
        # numba compiles for the processor that it runs on: another one may not know its instructions.
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


class _Places(ast.NodeTransformer):
    """Makes each index that is computed an unsigned number."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.slice, ast.Constant | ast.Slice | ast.Tuple):
            node.slice = ast.Call(ast.Name("uintp", ast.Load()), [node.slice], [])
        return node


def _tree_with_places(source: str) -> ast.Module:
    """Return a program whose indexes are unsigned: a signed one costs numba a look at whether it is negative.

    Loops take 0.65 to 0.95 of the time, those that do least the least.
    """
    tree: ast.Module = _Places().visit(ast.parse(source))
    return ast.fix_missing_locations(tree)


def _with_places(source: str) -> str:
    """Return that as a text."""
    return f"from numpy import uintp\n{ast.unparse(_tree_with_places(source))}\n"


class _Addresses(ast.NodeTransformer):
    """Has functions that are compiled find their arrays by `spdist.program.machine.addresses`, with fewer passes.

    Parameters
    ----------
    dtypes : list of str
        The types of the arrays, which are the last parameters of each function.
    """

    def __init__(self, dtypes: list[str]) -> None:
        self._dtypes = dtypes
        self._places: dict[str, int] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if not node.decorator_list:
            return node
        node.decorator_list = [ast.Name("program", ast.Load())]
        parameters = node.args.args
        arrays, node.args.args = parameters[-len(self._dtypes) :], parameters[: -len(self._dtypes)]
        node.args.args.append(ast.arg("addresses"))
        self._places = {array.arg: place for place, array in enumerate(arrays)}
        self.generic_visit(node)
        # Behind `visit_Call`: an array that is only asked for its length needs no pointer.
        used = {name.id for one in node.body for name in ast.walk(one) if isinstance(name, ast.Name)}
        found = [
            f"{name} = {self._dtypes[place]}_at(addresses, {place})"
            for name, place in self._places.items()
            if name in used
        ]
        node.body[:0] = ast.parse("\n".join(found)).body
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Have `addresses` say how long an array is."""
        self.generic_visit(node)
        named = [one.id for one in (node.func, *node.args) if isinstance(one, ast.Name)]
        if len(named) == 2 and named[0] == "len" and named[1] in self._places:
            return ast.parse(f"addresses[{2 * self._places[named[1]] + 1}]", mode="eval").body
        return node


def _with_addresses(source: str, dtypes: list[str]) -> str:
    """Return a program that finds its arrays by their addresses.

    To compile a text with 200 arrays as arguments takes a third longer.
    """
    tree = _Addresses(dtypes).visit(ast.parse(source))
    imported = "".join(f"from spdist.program.machine.{name} import *\n" for name in ("addresses", "passes"))
    return f"{imported}{ast.unparse(ast.fix_missing_locations(tree))}\n"


def _place(index: int) -> int:
    """Return an index of a text that Python executes; machine code would read anywhere where it is negative."""
    if index < 0:
        raise IndexError(f"{index} is no place of an array")
    return index


def _write(file: Path, text: str) -> None:
    """Write a file that others may read or write at the same time; an old one is kept, as numba looks at its time."""
    if file.exists():
        return
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    try:
        # Unlike a rename a link fails where another process was first, whose file numba may know already.
        os.link(name, file)
    except FileExistsError:
        pass
    finally:
        os.unlink(name)


def _load(file: Path) -> Compiled:
    """Return a program, compiled."""
    import numba
    from numba.core.dispatcher import Dispatcher

    from spdist.program.machine import hash_tables, kernels
    from spdist.program.machine.addresses import addresses_of, lending

    module = _module(file)
    # Columns of Arrow cannot be written to, others can: a program that takes the former takes both.
    whole, small = (numba.types.Array(kind, 1, "C", readonly=True) for kind in (numba.int64, numba.int16))
    _takes(module.run, (whole, whole, numba.int64, whole, whole, small, *(numba.int64,) * 3, whole))
    expire = module.expire
    if isinstance(expire, Dispatcher):  # else it does nothing, or little
        _takes(expire, (numba.int64, whole))
        expire = lambda now, *arrays: module.expire(now, *addresses_of(arrays))  # noqa: E731
    return Compiled(module.run, expire, kernels, hash_tables, addresses_of, lending, _callback)


def _takes(function: Any, types: tuple[Any, ...]) -> None:
    """Compile or load a function for arguments of these types, and for no others: events would wait for that."""
    with _IMPORTING:
        if not function.signatures:
            function.compile(types)
            function.disable_compile()


def _callback(function: Callable[[int, int, int], int]) -> tuple[Any, Any]:
    """Return a function for compiled code, and its address."""
    # ctypes takes the GIL for each call: the loop runs without it.
    made = ctypes.CFUNCTYPE(*(ctypes.c_int64,) * 4)(function)
    return made, ctypes.cast(made, ctypes.c_void_p).value


def _module(file: Path) -> ModuleType:
    """Import a program as a module of its own, which numba needs to find its cache."""
    name = file.stem
    with _IMPORTING:
        known = sys.modules.get(name)
        if known is not None:
            return known
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        # Nobody is to find a module of which only a part was executed.
        except BaseException:
            del sys.modules[name]
            raise
        return module


def main(arguments: list[str]) -> None:
    """Compile a program: its file, then the dtypes of its arrays. One process does, however many are asked to."""
    file = Path(arguments[0])
    os.nice(10)  # what runs goes first
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # Another process may have compiled it between the look of whoever started this one and the lock.
        if _mark(file).exists():
            return
        _write(file, _with_addresses(_with_places(_text(file).read_text(encoding="utf-8")), arguments[1:]))
        _load(file)
        # Last of all: whoever sees the mark finds the module and its machine code.
        _mark(file).touch()
        _text(file).unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
