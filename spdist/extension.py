"""Where functions, aggregators, windows, handlers and mappings are registered, built-in ones and those of users.

A decorator gives a Python object a SiddhiQL name and a signature; `catalog` hands the signatures to the checker, and
the engine asks `find` for the implementation. Built-in modules are imported when they are first needed, and with them
those of other packages that this process may load (`spdist.packages`).

Examples
--------
>>> from spdist.extension import function, signature
>>> from spdist.language.types import Type
>>> @function("demo:twice", signature("demo:twice", ((Type.INT,), Type.INT)))
... def twice(value):
...     return None if value is None else 2 * value
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

from spdist.errors import DuplicateDefinitionError, UndefinedNameError
from spdist.language.catalog import Catalog, Resolver, StreamFunctionResolver, WindowResolver
from spdist.language.signatures import Accepts, Signature
from spdist.language.types import Type
from spdist.packages import EXTENSIONS, brought, named_packages

__all__ = [
    "ANY",
    "NUMERIC",
    "Extension",
    "Given",
    "Kind",
    "TypedMaker",
    "aggregator",
    "allow_scripts",
    "catalog",
    "extensions_of",
    "find",
    "function",
    "install",
    "lookup",
    "mapping",
    "signature",
    "stream_function",
    "stream_processor",
    "user_modules",
    "window",
]

Kind = Literal["function", "aggregator", "window", "stream function", "stream processor", "mapping"]
Decorated = TypeVar("Decorated")

#: Sets of types for `signature`.
ANY = frozenset(Type)
NUMERIC = frozenset({Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE})

# Imported by name so that the lower layer does not depend on the upper ones; each registers itself when imported.
_BUILT_IN = (
    "spdist.functions.core",
    "spdist.functions.aggregators",
    "spdist.functions.json_functions",
    "spdist.functions.lists",
    "spdist.functions.maps",
    "spdist.functions.maths",
    "spdist.functions.regexes",
    "spdist.functions.streams",
    "spdist.functions.strings",
    "spdist.functions.times",
    "spdist.functions.units",
    "spdist.operators.windows.length",
    "spdist.operators.windows.time",
    "spdist.operators.windows.external",
    "spdist.operators.windows.cron",
    "spdist.operators.windows.expression",
    "spdist.operators.windows.expression_batch",
    "spdist.operators.windows.frequent",
    "spdist.operators.windows.session",
    "spdist.operators.windows.sort",
    "spdist.operators.windows.reorder_akslack",
    "spdist.operators.windows.reorder_kslack",
    "spdist.operators.unique.batches",
    "spdist.operators.unique.deduplicate",
    "spdist.operators.unique.external",
    "spdist.operators.unique.sliding",
)


class Given(Protocol):
    """An argument of a function in a compiled program: its type, and its value where it is a constant."""

    @property
    def type(self) -> Type:
        """The type."""
        ...

    @property
    def literal(self) -> Any:
        """The value of a constant; None where it is none."""
        ...


#: From the arguments of a function to its source in compiled programs; empty where it has none.
TypedMaker = Callable[[Sequence[Given]], str]


@dataclass(frozen=True, slots=True)
class Extension:
    """One registered name.

    Parameters
    ----------
    kind : Kind
        What it is in SiddhiQL.
    id : str
        ``name`` or ``ns:name``, case-sensitive.
    resolve : Callable
        The signature: see `spdist.language.catalog`.
    implementation : Any
        What the decorator stood before.
    inline : bool
        Whether the implementation gives source text to be written into generated code, instead of being called.
    typed : Any
        Its form in compiled programs: source, what makes statements, or a class that describes it.
    refuses_null : bool
        Whether null fails the event there.
    """

    kind: Kind
    id: str
    resolve: Callable[..., Any]
    implementation: Any
    inline: bool = False
    typed: Any = ""
    refuses_null: bool = False


_REGISTERED: dict[tuple[Kind, str], Extension] = {}
#: Whoever comes while another thread loads what is built in must not see a part of it.
_LOADING = threading.RLock()
_BEGUN, _COMPLETE = threading.Event(), threading.Event()


#: The packages of others that are loaded, and those that are being loaded.
_PACKAGES: dict[str, tuple[str, ...]] = {"loaded": (), "begun": ()}


def _load() -> None:
    _load_built_in()
    named = named_packages()
    if named == _PACKAGES["loaded"]:
        return
    with _LOADING:
        if named != _PACKAGES["begun"]:  # else by this thread, and what it loads asks
            _PACKAGES["begun"] = named
            brought(EXTENSIONS)  # modules that register what they have as they are imported
            _PACKAGES["loaded"] = named


def _load_built_in() -> None:
    if _COMPLETE.is_set():
        return
    with _LOADING:
        if _BEGUN.is_set():  # by this thread, and what it loads asks; or another one has done it meanwhile
            return
        _BEGUN.set()
        try:
            for module in _BUILT_IN:
                importlib.import_module(module)
        except BaseException:
            _BEGUN.clear()  # the next call tries again
            raise
        _COMPLETE.set()


def _register(extension: Extension) -> None:
    known = _REGISTERED.get((extension.kind, extension.id))
    # Running a notebook cell twice registers its function anew; only what spdist itself brings may not be replaced.
    if known is not None and known.implementation.__module__ in _BUILT_IN:
        raise DuplicateDefinitionError(
            f"the {extension.kind} '{extension.id}' is built in and cannot be replaced",
            hint="give yours a namespace of its own, such as 'my:" + extension.id.rpartition(":")[2] + "'",
        )
    _REGISTERED[extension.kind, extension.id] = extension
    _signatures.cache_clear()


def _decorator(kind: Kind, id: str, resolve: Callable[..., Any], *of_function: Any) -> Callable[[Decorated], Decorated]:
    def register(implementation: Decorated) -> Decorated:
        _register(Extension(kind, id, resolve, implementation, *of_function))
        return implementation

    return register


def function(
    id: str,
    resolve: Resolver,
    *,
    inline: bool = False,
    typed: str | TypedMaker = "",
    refuses_null: bool = False,
) -> Callable[[Decorated], Decorated]:
    """Register a scalar function.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``.
    resolve : Resolver
        From argument types to the result type, usually made by `signature`.
    inline : bool
        By default the function is called with the values of its arguments. It must be pure: the same arguments give the
        same result, wherever and whenever it runs. True for functions that write source text instead
        (`spdist.functions.forms.FunctionForm`).
    typed : str or callable
        The same as an expression over the arguments ``{0}``, ``{1}``…, of which none is null: that makes null, or of a
        bool false. Apps that call the function can be compiled then, where numba is. Whole numbers, bools (0 and 1) and
        the numbers that stand for texts are int64, reals float64; it may call `spdist.program.machine.arithmetic`, and
        must not fail. A callable gets the arguments (`Given`) and returns the text, empty where there is
        none.
    refuses_null : bool
        Whether null makes no null but fails the event, as the function itself does.

    Examples
    --------
    Several overloads; a null comes as None, and what raises loses the event:

    >>> from spdist.engine.local.app import run
    >>> from spdist.extension import function, signature
    >>> from spdist.language.types import Type
    >>> overloads = (((Type.INT,), Type.INT), ((Type.STRING, Type.INT), Type.STRING))
    >>> @function("demo:again", signature("demo:again", *overloads))
    ... def again(value, times=2):
    ...     return None if value is None else value * times
    >>> query = "from S select demo:again(v) as a, demo:again(s, 3) as b insert into Out;"
    >>> run("define stream S (v int, s string);" + query, {"S": [(1000, (2, "x"))]})
    {'Out': [(1000, (4, 'xxx'))]}
    """
    return _decorator("function", id, resolve, inline, typed, refuses_null)


def aggregator(id: str, resolve: Resolver, *, typed: Any = None) -> Callable[[Decorated], Decorated]:
    """Register an aggregator.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``.
    resolve : Resolver
        From argument types to the result type, usually made by `signature`.
    typed : TypedForm or callable, optional
        How it is written in compiled programs (`spdist.program.aggregators.TypedForm`), for one argument; or what makes
        that, or None, from the types of the arguments and whether values leave one by one. Without, queries that have
        it are left to operators.

    Notes
    -----
    What is registered is a class with static methods ``initial() -> state``, ``add(state, value) -> state``,
    ``remove(state, value) -> state`` and ``result(state) -> value``, where a state is plain data (numbers, text, lists,
    dictionaries) and several arguments arrive as a tuple. Built-in ones are functions that give the statements to be
    written into generated code (`spdist.functions.forms.AggregatorForm`).

    Examples
    --------
    >>> from spdist.engine.local.app import run
    >>> from spdist.extension import aggregator, signature
    >>> from spdist.language.types import Type
    >>> @aggregator("demo:product", signature("demo:product", ((Type.INT,), Type.LONG)))
    ... class Product:
    ...     initial = staticmethod(lambda: 1)
    ...     add = staticmethod(lambda state, value: state * value)
    ...     remove = staticmethod(lambda state, value: state // value)
    ...     result = staticmethod(lambda state: state)
    >>> app = "define stream S (v int); from S#window.length(2) select demo:product(v) as p insert into Out;"
    >>> run(app, {"S": [(1000, (2,)), (1001, (3,)), (1002, (5,))]})
    {'Out': [(1000, (2,)), (1001, (6,)), (1002, (15,))]}
    """
    return _decorator("aggregator", id, resolve, False, typed or "")


def window(id: str, resolve: WindowResolver, *, typed: type | None = None) -> Callable[[Decorated], Decorated]:
    """Register a window: a subclass of `spdist.operators.base.Window`.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``.
    resolve : WindowResolver
        Checks the types of the arguments, and which of them must be constants.
    typed : type, optional
        What describes it in compiled programs (`spdist.program.windows.kinds.TypedWindow`); without, queries that have
        it are left to operators.

    Notes
    -----
    ``process`` and ``process_chunk`` get arriving events; ``emit`` passes on a chunk of ``(kind, timestamp, row)``;
    ``snapshot`` and ``restore`` give and take plain data. The first two were called ``one`` and ``many``, which still
    works, with a warning.

    Examples
    --------
    >>> from spdist.engine.local.app import run
    >>> from spdist.extension import window
    >>> from spdist.operators.base import CURRENT, EXPIRED, Window
    >>> @window("demo:latest", lambda types, expressions: None)
    ... class Latest(Window):
    ...     held = ()
    ...     def process(self, timestamp, row):
    ...         gone = [(EXPIRED, timestamp, old) for _, old in self.held]
    ...         self.held = ((timestamp, row),)
    ...         self.emit([*gone, (CURRENT, timestamp, row)])
    ...     def process_chunk(self, arrivals):
    ...         for timestamp, row in arrivals:
    ...             self.process(timestamp, row)
    ...     def contents(self):
    ...         return self.held
    ...     def snapshot(self):
    ...         return self.held
    ...     def restore(self, state):
    ...         self.held = state
    >>> app = "define stream S (v int); from S#window.demo:latest() select sum(v) as s insert into Out;"
    >>> run(app, {"S": [(1000, (2,)), (1001, (3,))]})
    {'Out': [(1000, (2,)), (1001, (3,))]}
    """
    return _decorator("window", id, resolve, False, typed or "")


def stream_function(id: str, resolve: StreamFunctionResolver) -> Callable[[Decorated], Decorated]:
    """Register a stream function: from a row to the values that it appends, for each row that goes on.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``.
    resolve : StreamFunctionResolver
        From the stream's attributes and the arguments to the attributes that are appended.

    Examples
    --------
    >>> from spdist.engine.local.app import run
    >>> from spdist.extension import stream_function
    >>> from spdist.language.types import Schema
    >>> @stream_function("demo:words", lambda schema, types, expressions: Schema.of([("word", "string")]))
    ... def words(text):
    ...     return [(word,) for word in text.split()]
    >>> app = "define stream S (s string); from S#demo:words(s) select word insert into Out;"
    >>> run(app, {"S": [(1000, ("to be",))]})
    {'Out': [(1000, ('to',)), (1000, ('be',))]}
    """
    return _decorator("stream function", id, resolve)


def lookup(kind: Kind, id: str) -> Extension | None:
    """Return what is registered as `kind` under `id`, or None."""
    _load()
    return _REGISTERED.get((kind, id))


def stream_processor(
    id: str, resolve: StreamFunctionResolver, *, typed: type | None = None
) -> Callable[[Decorated], Decorated]:
    """Register a handler with state: a subclass of `spdist.operators.core.processors.StreamProcessor`.

    With `typed`, which describes it (`spdist.program.processors.kinds.Processor`), queries that have it are compiled.
    """
    return _decorator("stream processor", id, resolve, False, typed or "")


def mapping(id: str) -> Callable[[Decorated], Decorated]:
    """Register a mapping, as ``@map(type='…')`` names it; those that are built in stay.

    Parameters
    ----------
    id : str
        ``name``, or ``ns:name``.

    Notes
    -----
    What is registered has ``source``, ``sink`` or both: callables that make a `spdist.mapping.base.SourceMapper` or
    ``SinkMapper`` of a `spdist.mapping.base.MapSetting`.

    Examples
    --------
    >>> from spdist.extension import mapping
    >>> from spdist.mapping.base import MapSetting, Stateless
    >>> from spdist.mapping.mappers import sink_mapper
    >>> class Shout(Stateless):
    ...     def __init__(self, setting):
    ...         self.names = setting.schema.names
    ...     def write(self, events):
    ...         return [" ".join(map(str, row)).upper() for _, row in events]
    >>> @mapping("demo:shout")
    ... class Shouting:
    ...     sink = Shout
    >>> from spdist import check
    >>> app = "@sink(type='log', @map(type='demo:shout')) define stream S (a string); from S select a insert into T;"
    >>> annotation = check(app).app.definitions[0].annotations[0].nested("map")[0]
    >>> sink_mapper(MapSetting("S", check(app).streams["S"], annotation)).write([(1000, ("tea",))])
    ['TEA']
    """
    return _decorator("mapping", id, lambda: None)


def user_modules() -> frozenset[str]:
    """Return the names of the modules, other than spdist's own, whose import registers something."""
    found = (one.implementation.__module__ for one in list(_REGISTERED.values()))  # a copy: another thread may register
    return frozenset(name for name in found if name not in _BUILT_IN)


def extensions_of(ids: Iterable[str]) -> tuple[Extension, ...]:
    """Return what was registered under these names other than by spdist itself, for `install` in another process."""
    wanted = frozenset(ids)
    own = (one for one in list(_REGISTERED.values()) if one.implementation.__module__ not in _BUILT_IN)
    return tuple(one for one in own if one.id in wanted)


def install(extensions: Iterable[Extension]) -> None:
    """Register what `extensions_of` returned, in the place of what has these names."""
    _load()
    for one in extensions:
        _register(one)


def is_registered(kind: Kind, id: str) -> bool:
    """Tell whether something is registered as `kind` under `id`."""
    _load()
    return (kind, id) in _REGISTERED


def find(kind: Kind, id: str) -> Extension:
    """Return what is registered as `kind` under `id`; raises UndefinedNameError where nothing is."""
    known = lookup(kind, id)
    if known is None:
        raise UndefinedNameError(f"there is no {kind} '{id}'")
    return known


_SWITCHES = {"scripts": False}


def allow_scripts(allowed: bool = True) -> None:
    """Say whether this process runs Python code that apps bring: ``define function f[python] return int { … }``.

    Off by default, and to be left so unless every app comes from people who may run code here: such a function may do
    whatever the process may. Nodes of a cluster read ``siddhi.script.python.enabled``; `spdist.check` and `spdist.run`
    take ``scripts=True`` for one app.
    """
    _SWITCHES["scripts"] = allowed


def catalog(scripts: bool | None = None) -> Catalog:
    """Return the signatures of everything that is registered now: the same object until something else is.

    With `scripts` apps may define functions in Python; by default as `allow_scripts` said, else not.
    """
    _load()
    return _signatures(_SWITCHES["scripts"] if scripts is None else scripts)


@cache
def _signatures(scripts: bool) -> Catalog:
    def of(kind: Kind) -> dict[str, Any]:
        return {id: extension.resolve for (known, id), extension in list(_REGISTERED.items()) if known == kind}

    return Catalog(
        functions=of("function"),
        aggregators=of("aggregator"),
        windows=of("window"),
        stream_functions=of("stream function") | of("stream processor"),
        stream_processors=frozenset(of("stream processor")),
        mappings=frozenset(of("mapping")),
        scripts=scripts,
    )


def signature(id: str, *overloads: tuple[tuple[Accepts, ...], Type | int], repeat: bool = False) -> Resolver:
    """Return the resolver of a function with fixed overloads.

    Parameters
    ----------
    id : str
        The function's name, for messages.
    *overloads : tuple
        ``(accepted types of each argument, result)``; the result is a type or the position of the argument whose type
        it has.
    repeat : bool
        True where the last argument of an overload may be given any number of times (at least once).

    Returns
    -------
    Resolver
        Raises SiddhiTypeError where no overload fits.
    """
    return Signature(id, overloads, repeat)
