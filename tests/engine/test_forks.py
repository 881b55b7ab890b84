"""Processes that are forked instead of started: they do what the interpreter would do, and end when they should."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from spdist.engine.spark import forked
from spdist.engine.spark.forks import INSTANCE, Forks

Eventually = Callable[..., object]

SEEN = """
import json, os, sys
print(json.dumps({
    "arguments": sys.argv[1:], "directory": os.getcwd(), "said": sys.stdin.read(), "name": __name__,
    "environment": dict(os.environ), "loaded": "spdist.engine.spark.tasks" in sys.modules, "hash": hash("a"),
    "parent": os.getppid(), "called": open("/proc/self/comm").read().strip(),
    "threads": len(os.listdir("/proc/self/task")), "pandas": "pandas" in sys.modules, "numba": "numba" in sys.modules,
    "connectors": "aiokafka" in sys.modules and "nats" in sys.modules,
}))
print("not well", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
BATCHES = """
import numpy, resource
def batches(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        columns = [numpy.ones(1 << 20) for _ in range(5)]
        del columns
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(batches(1), batches(20))
"""
WAITS = "print('runs', flush=True); import sys; sys.stdin.read()"


#: Where spdist is, and what else this process finds.
FOUND = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    one = Forks(tmp_path_factory.mktemp("scratch"))
    one.start({"PYTHONPATH": FOUND})
    yield one
    one.stop()


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Makes a module `m` of a text; returns the environment that finds it."""

    def make(text: str) -> dict[str, str]:
        (tmp_path / "m.py").write_text(text)
        return {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"], "COLOUR": "gr\udce9n"}

    return make


def started(forks: Forks, environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
    command = [forks.program, "-m", "m", *arguments]
    return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)


def of_forks(forks: Forks) -> list[psutil.Process]:
    assert forks.pid is not None
    return psutil.Process(forks.pid).children()


def test_a_module_runs_as_the_interpreter_would_run_it(
    forks: Forks, module: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    environment = module(SEEN) | {INSTANCE: "Flow-sum-1 of a long name"}
    process = subprocess.run(
        [forks.program, "-m", "m", "3", "b c"], input=b"hello", capture_output=True, env=environment, cwd=tmp_path
    )
    seen = json.loads(process.stdout)
    assert process.returncode == 3
    assert process.stderr == b"not well\n"
    assert (seen["arguments"], seen["said"], seen["name"]) == (["3", "b c"], "hello", "__main__")
    assert seen["called"] == "Flow-sum-1 of a"
    assert seen["directory"] == str(tmp_path)
    assert seen["environment"].items() >= environment.items()
    assert not {"OPENBLAS_NUM_THREADS", "JE_ARROW_MALLOC_CONF"} & seen["environment"].keys()


def test_the_memory_of_a_batch_is_there_for_the_next_one(forks: Forks, module: Callable[[str], dict[str, str]]) -> None:
    process = started(forks, module(BATCHES))
    said, _ = process.communicate(b"", timeout=60)
    first, others = map(int, said.split())
    assert first > 1000
    assert others < first


def test_a_module_whose_reader_has_gone_says_nothing(forks: Forks, module: Callable[[str], dict[str, str]]) -> None:
    process = started(forks, module("import sys; sys.stdin.read(); raise BrokenPipeError(32, 'gone')"))
    _, said = process.communicate(b"", timeout=60)
    assert (process.returncode, said) == (1, b"")


def test_it_has_everything_loaded_by_a_process_of_one_thread(
    forks: Forks, module: Callable[[str], dict[str, str]]
) -> None:
    output, _ = started(forks, module(SEEN), "0").communicate(timeout=60)
    seen = json.loads(output)
    assert seen["parent"] == forks.pid
    assert seen["loaded"] and not seen["pandas"]
    assert seen["numba"] is (importlib.util.find_spec("numba") is not None)
    assert seen["threads"] == 1
    assert len(os.listdir(f"/proc/{forks.pid}/task")) == 1, "what others hold when it forks is never let go"
    seed = {**os.environ, "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0")}
    alone = subprocess.run([sys.executable, "-c", "print(hash('a'))"], capture_output=True, env=seed, check=True)
    assert seen["hash"] == int(alone.stdout)


def test_connectors_are_loaded_while_nobody_asks(
    forks: Forks, module: Callable[[str], dict[str, str]], eventually: Eventually
) -> None:
    libraries = Path(f"/proc/{forks.pid}/maps")
    eventually(lambda: "aiokafka" in libraries.read_text(), "Kafka's client is loaded")
    eventually(lambda: psutil.Process(forks.pid).status() == psutil.STATUS_SLEEPING, "nothing is left to be loaded")
    seen = json.loads(started(forks, module(SEEN), "0").communicate(timeout=60)[0])
    assert seen["parent"] == forks.pid and seen["connectors"]
    assert seen["threads"] == 1 and len(os.listdir(f"/proc/{forks.pid}/task")) == 1


@pytest.mark.parametrize(
    ("raises", "told"),
    [
        ("ModuleNotFoundError(\"No module named 'numba'\", name='numba')", ""),
        ("OSError('libLLVM.so: no such file')", "cannot be loaded: libLLVM.so: no such file"),
    ],
)
def test_without_numba_or_with_one_that_does_not_work_the_rest_is_loaded(
    tmp_path: Path, module: Callable[[str], dict[str, str]], capfd: pytest.CaptureFixture[str], raises: str, told: str
) -> None:
    scratch = tmp_path / "scratch"
    broken = tmp_path / "site"
    for directory in (scratch, broken):
        directory.mkdir()
    (broken / "numba.py").write_text(f"raise {raises}")
    forks = Forks(scratch)
    forks.start({"PYTHONPATH": os.pathsep.join([str(broken), FOUND])})
    try:
        seen = json.loads(started(forks, module(SEEN), "0").communicate(timeout=60)[0])
        assert seen["parent"] == forks.pid
    finally:
        forks.stop()
    assert seen["loaded"] and not seen["numba"]
    error = capfd.readouterr().err
    assert told in error
    assert bool(told) is ("numba" in error)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_program_that_asked_for_it(
    forks: Forks, module: Callable[[str], dict[str, str]], eventually: Eventually, number: signal.Signals
) -> None:
    process = started(forks, module(WAITS))
    assert process.stdout is not None
    assert process.stdout.readline() == b"runs\n"
    assert len(of_forks(forks)) == 1
    process.send_signal(number)
    process.communicate(timeout=60)
    eventually(lambda: not of_forks(forks), "it has ended")


def test_the_program_ends_with_it_and_says_how(
    forks: Forks, module: Callable[[str], dict[str, str]], eventually: Eventually
) -> None:
    processes = [started(forks, module(WAITS)) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
    first, *_ = of_forks(forks)
    first.kill()
    eventually(lambda: any(process.poll() is not None for process in processes), "its program has ended")
    assert [process.poll() for process in processes if process.poll() is not None] == [128 + signal.SIGKILL]
    for process in processes:
        process.communicate(timeout=60)
    assert sorted(int(process.returncode) for process in processes) == [0, 0, 128 + signal.SIGKILL]


def test_who_connects_and_says_nothing_of_use_stops_nobody(
    forks: Forks, module: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    for sent in (b"", b"\0\0\0\5hello"):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(forks.place))
            link.sendall(sent)
    process = started(forks, module("print('runs')"))
    assert process.communicate(timeout=60)[0] == b"runs\n"


def test_where_nobody_forks_any_more_the_interpreter_runs(
    tmp_path: Path, module: Callable[[str], dict[str, str]]
) -> None:
    scratch = tmp_path / "a scratch"
    scratch.mkdir()
    forks = Forks(scratch)
    program = forks.start({})
    assert program == forks.program != sys.executable
    forks.stop()
    forks.stop()
    output, _ = started(forks, module(SEEN), "0").communicate(b"hello", timeout=60)
    assert json.loads(output)["parent"] == os.getpid()


def test_where_who_forks_ends_before_it_does_the_interpreter_runs(
    tmp_path: Path, module: Callable[[str], dict[str, str]]
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "place"))
        listener.listen()
        command = [sys.executable, "-I", "-S", forked.__file__, sys.executable, str(tmp_path / "place"), "-m", "m"]
        process = subprocess.Popen([*command, "0"], stdin=PIPE, stdout=PIPE, stderr=PIPE, env=module(SEEN))
        link, _ = listener.accept()
        link.close()
        output, _ = process.communicate(b"hello", timeout=60)
    assert json.loads(output)["said"] == "hello"


def test_where_the_address_would_be_too_long_spark_gets_the_interpreter(tmp_path: Path) -> None:
    scratch = tmp_path / ("x" * 100)
    scratch.mkdir()
    forks = Forks(scratch)
    assert forks.start({}) == sys.executable
    forks.stop()
