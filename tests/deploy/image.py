"""The image of ``deploy/container``, built and run as containers run it: ``make image``.

It needs podman or docker, and makes everything else itself: certificates by the image, as compose has them made, a
PostgreSQL and a Kafka of this machine. Containers have a read-only file system, no capabilities, and the network of
this machine. Tried are a server that hosts an app over a restart, also as a user that the image does not know, and two
managers with a worker from the settings of compose and helm, whose probes are compose's. Each line is a thing that was
tried, and how long it took.

``CONTAINERS`` in the environment names another program in place of podman, with arguments if need be, and
``CONTAINER_OPTIONS`` and ``BUILD_OPTIONS`` what `run` and `build` need besides on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from sqlalchemy import make_url

import spdist
from spdist.cluster.clients.client import ClusterClient
from spdist.errors import SpdistError
from spdist.services.kafka import KafkaBroker
from spdist.services.process import HOST, free_ports
from tests.cluster.databases import SERVERS, environment
from tests.faults.failovers import wait_for

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
#: A stop within what orchestrators wait.
STOP_S = 30
#: What compose and helm give a container, but for the network: here it is the machine's.
CLOSED = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "host"]
NODES = ("server", "any", "manager-1", "manager-2", "worker-1")
#: Of a cluster that chooses the user of a container: a number without a name, in group 0.
ANY_USER = "1234567:0"
APP = (
    "@app:name('Boiler') define stream Readings (id string, t double); "
    "@sink(type='embedded', topic='Boiler.Counts') define stream Counts (id string, n long); "
    "@dist(execGroup='hot') from Readings[t > 90.0] select id, t insert into Hot; "
    "@dist(execGroup='count') from Hot select id, count() as n group by id insert into Counts;"
)


class Containers:
    """Containers of one image on this machine, all of which end with the program."""

    def __init__(self, command: Sequence[str], image: str, options: Sequence[str]) -> None:
        self._command = [*command]
        self._image = image
        self._options = [*CLOSED, *options]
        self._run = f"spdist-try-{uuid.uuid4().hex[:6]}"
        self._volumes: set[str] = set()
        self._names: set[str] = set()

    def __call__(self, *arguments: str, check: bool = True) -> str:
        """Run the container program; return what it prints."""
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise SystemExit(f"{shlex.join(arguments[:3])} …: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def log(self, name: str) -> str:
        """Return the end of what a container has said."""
        done = subprocess.run(
            [*self._command, "logs", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.stdout[-3000:]

    def succeeds(self, *arguments: str) -> bool:
        """Return whether the container program ends with exit code 0."""
        return not subprocess.run([*self._command, *arguments], capture_output=True, check=False).returncode

    @property
    def unnamed(self) -> list[str]:
        """Options of a user whom the image does not know; podman gives such a one a name, others do not."""
        return ["--user", ANY_USER, *(["--passwd=false"] if "podman" in self._command[0] else [])]

    def volume(self, name: str) -> str:
        """Return the name of a volume of this run."""
        self._volumes.add(found := f"{self._run}-{name}")
        return found

    def once(self, *arguments: str, options: Sequence[str] = (), check: bool = True) -> str:
        """Run a command of the image to its end; return what it prints."""
        return self("run", "--rm", "--tmpfs", "/tmp", *self._options, *options, self._image, *arguments, check=check)

    def start(self, name: str, *arguments: str, options: Sequence[str]) -> str:
        """Start a container that goes on; return its name."""
        self._names.add(found := f"{self._run}-{name}")
        self("run", "-d", "--name", found, "--tmpfs", "/tmp", *self._options, *options, self._image, *arguments)
        return found

    def stop(self, name: str) -> None:
        """Stop a container as orchestrators do; it must end by itself, with exit code 0."""
        self("stop", "--time", str(STOP_S), name)
        (code,) = self("inspect", "--format", "{{.State.ExitCode}}", name).split()
        if code != "0":
            raise SystemExit(f"{name} ended with exit code {code}\n{self.log(name)}")

    def used(self, name: str) -> str:
        """Return what a running container has written where."""
        places = ("/tmp", "/dev/shm", "/var/lib/spdist", "/var/lib/spdist-shared")
        lines = self("exec", name, "du", "-sh", *places, check=False).splitlines()
        return "written: " + ", ".join(" ".join(reversed(line.split("\t"))) for line in lines if "\t" in line)

    def close(self) -> None:
        """Remove everything that was made."""
        for name in self._names:
            self("rm", "--force", "--volumes", name, check=False)
        for name in self._volumes:
            self("volume", "rm", "--force", name, check=False)


@contextmanager
def tried(what: str) -> Iterator[None]:
    """Print what was tried once it has worked."""
    began = time.monotonic()
    yield
    print(f"ok  {what} ({time.monotonic() - began:.1f} s)", flush=True)


def program() -> list[str]:
    """Return the program that runs containers here."""
    if named := os.environ.get("CONTAINERS"):
        return shlex.split(named)
    found = shutil.which("podman") or shutil.which("docker")
    if found is None:
        raise SystemExit("no podman and no docker (Debian: apt install podman)")
    return [found]


def build(containers: Containers, image: str, base: str) -> None:
    """Build the image from what the repository has, as a clean checkout would."""
    with tempfile.TemporaryDirectory(prefix="spdist-image-") as context:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", context], input=archive, check=True)
        told = shlex.split(os.environ.get("BUILD_OPTIONS", ""))
        told += ["--build-arg", f"BASE={base}"] if base else []
        file = f"{context}/deploy/container/Containerfile"
        containers("build", *told, "--file", file, "--tag", image, context)


def look(containers: Containers) -> None:
    """See what the image is, before any node runs in it."""
    with tried("its version is that of the checkout, and it runs as nobody special on a read-only file system"):
        assert containers.once("--version").strip() == f"spdist {spdist.__version__}"
        shell = ["--entrypoint", "bash"]
        assert containers.once("-c", "id -u", options=shell).strip() == "10001"
        probe = "for d in / /opt/spdist /etc; do touch $d/x && exit 1; done; touch ~/x /tmp/x /var/lib/spdist-shared/x"
        shared = ["-v", f"{containers.volume('look')}:/var/lib/spdist-shared"]
        containers.once("-c", probe, options=[*shell, *shared])


class Cluster:
    """Nodes in containers: where they are, whom they trust, and what they are told."""

    def __init__(self, containers: Containers, home: Path) -> None:
        self._containers = containers
        self._tls = containers.volume("tls")
        self._ports = dict(zip(NODES, free_ports(len(NODES)), strict=True))
        self.ca = home / "ca.crt"
        self.passwords = {"SPDIST_PASSWORD": "of-people", "SPDIST_NODE_PASSWORD": "of-nodes"}

    def url(self, node: str) -> str:
        """Return where a node answers."""
        return f"https://localhost:{self._ports[node]}"

    def make_certificates(self) -> None:
        """Have certificates made as the first service of compose does."""
        rights = ["--cap-add=CHOWN", "--cap-add=DAC_OVERRIDE", "--cap-add=FOWNER"]
        script = f"{DEPLOY / 'compose' / 'certificates.sh'}:/etc/spdist/certificates.sh:ro"
        options = ["--user", "0", *rights, "-v", f"{self._tls}:/tls", "-v", script]
        self._containers.once("/etc/spdist/certificates.sh", *NODES, options=[*options, "--entrypoint", "bash"])
        self.ca.write_text(
            self._containers.once("/tls/server/ca.crt", options=["-v", f"{self._tls}:/tls", "--entrypoint", "cat"])
        )

    def options(self, node: str, settings: Path, **variables: str) -> list[str]:
        """Return what the container of a node is given: its settings, certificates and volumes, and its environment."""
        port = str(self._ports[node])
        known = self.passwords | {"SPDIST_NODE_ID": node, "SPDIST_HOST": "localhost", "SPDIST_PORT": port, **variables}
        known |= {"SPDIST_TLS": f"/run/spdist/tls/{node}", "SPDIST_HEALTH": f"https://localhost:{port}/health"}
        mounts = {self._tls: "/run/spdist/tls:ro", str(settings): f"/etc/spdist/{settings.name}:ro"}
        mounts |= {self._containers.volume("shared"): "/var/lib/spdist-shared"}
        mounts |= {self._containers.volume(node): "/var/lib/spdist"}
        given = [("-v", f"{source}:{place}") for source, place in mounts.items()]
        given += [("-e", f"{key}={value}") for key, value in known.items()]
        return [part for one in given for part in one]

    def start(self, node: str, settings: Path, user: Sequence[str] = (), **variables: str) -> str:
        """Start a node, and wait until compose's probe says that it is well."""
        command = [settings.stem, "--conf", f"/etc/spdist/{settings.name}"]
        name = self._containers.start(node, *command, options=[*self.options(node, settings, **variables), *user])
        compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
        probe = compose["x-manager"]["healthcheck"]["test"][1:]

        def well() -> bool:
            if self._containers("inspect", "--format", "{{.State.Running}}", name).strip() != "true":
                raise SystemExit(f"{node} has ended\n{self._containers.log(name)}")
            return self._containers.succeeds("exec", name, *probe)

        wait_for(well, f"{node} is well", 120)
        return name

    def client(self, *nodes: str) -> ClusterClient:
        """Return a client of nodes."""
        urls = [self.url(node) for node in nodes]
        return spdist.connect(urls, password=self.passwords["SPDIST_PASSWORD"], trust_file=self.ca)


def feed(client: ClusterClient, count: int) -> None:
    """Feed a hot reading and a cold one, and wait until the count of hot ones has come out."""
    now_ms = time.time_ns() // 1_000_000
    client.feed("Boiler", "Readings").send([(now_ms, ("b1", 95.0)), (now_ms + 1, ("b1", 20.0))])

    def counted() -> bool:
        with contextlib.suppress(SpdistError):  # another leader, or a group that has just been moved
            return count in [row[1] for _, row in client.events("Boiler", "Counts").events]
        return False

    wait_for(counted, f"the count {count} comes out", 180)


def reported(client: ClusterClient) -> bool:
    """Return whether a manager leads, and knows a worker."""
    with contextlib.suppress(SpdistError):
        return bool(client.nodes()["workers"])
    return False


def try_server(containers: Containers, cluster: Cluster) -> None:
    """Host an app on a server, and start it again over the same volume."""
    settings, small = DEPLOY / "container" / "server.yaml", {"SPDIST_CORES": "1", "SPDIST_DRIVER_MEMORY": "512m"}
    with tried("doctor finds nothing missing"):
        given = cluster.options("server", settings, **small)
        containers.once("doctor", "--conf", "/etc/spdist/server.yaml", options=given)
    with tried("a server starts, and its probe says that it is well"):
        name = cluster.start("server", settings, **small)
    with tried("it hosts an app"):
        client = cluster.client("server")
        client.deploy(APP).wait(timeout_s=180)
        feed(client, 1)
    print(f"    {containers.used(name)}")
    with tried(f"it ends within {STOP_S} s when it is told to"):
        containers.stop(name)
    with tried("another one goes on from its volume"):
        containers("rm", name)
        name = cluster.start("server", settings, **small)
        wait_for(lambda: "Boiler" in client.apps(), "its directory is read", 60)
        client.deployment("Boiler").wait(timeout_s=180)
        feed(client, 2)
        containers.stop(name)


def try_any_user(containers: Containers, cluster: Cluster) -> None:
    """Host an app on a server whose user has no name in the image, and start it again over the same volume."""
    settings, small = DEPLOY / "container" / "server.yaml", {"SPDIST_CORES": "1", "SPDIST_DRIVER_MEMORY": "512m"}
    with tried(f"a server runs as user {ANY_USER}, and hosts an app"):
        name = cluster.start("any", settings, containers.unnamed, **small)
        assert containers("exec", name, "id", "-u").strip() == ANY_USER.partition(":")[0]
        client = cluster.client("any")
        client.deploy(APP).wait(timeout_s=180)
        feed(client, 1)
    with tried("it ends, and another one goes on from its volume"):
        containers.stop(name)
        containers("rm", name)
        name = cluster.start("any", settings, containers.unnamed, **small)
        wait_for(lambda: "Boiler" in client.apps(), "its directory is read", 60)
        client.deployment("Boiler").wait(timeout_s=180)
        feed(client, 2)
        containers.stop(name)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Send on what comes in, until there is no more."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def on_a_port(path: str) -> Iterator[int]:
    """Let a server that listens on a socket of its user's alone be reached on a port of this machine."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as there:
                there.connect(path)
                threading.Thread(target=pump, args=(there, self.request), daemon=True).start()
                pump(self.request, there)

    with socketserver.ThreadingTCPServer((HOST, 0), Connection) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def try_cluster(containers: Containers, cluster: Cluster, home: Path) -> None:
    """Run managers over PostgreSQL and a worker over Kafka, with the settings of compose and helm."""
    files = DEPLOY / "helm" / "spdist" / "files"
    there = make_url(SERVERS.database("postgresql", home))
    with on_a_port(f"{there.query['host']}/.s.PGSQL.5432") as port, KafkaBroker(home / "kafka") as kafka:
        reached = there.set(host=HOST, port=port, query={})
        database = environment(reached.render_as_string(hide_password=False))
        shared = {"SPDIST_KAFKA": kafka.url}
        with tried("two managers meet in PostgreSQL, and their probes say that they are well"):
            for node in ("manager-1", "manager-2"):
                cluster.start(node, files / "manager.yaml", **shared, **database)
        with tried("a worker reports to them, and runs an app of two groups over Kafka"):
            managers = ",".join(cluster.url(node) for node in ("manager-1", "manager-2"))
            known = {"SPDIST_MANAGERS": managers, "SPDIST_STATE": "/var/lib/spdist-shared/state", "SPDIST_CORES": "1"}
            worker = cluster.start("worker-1", files / "worker.yaml", **shared, **known)
            client = cluster.client("manager-1", "manager-2")
            wait_for(lambda: reported(client), "the worker in the list of the leader", 120)
            client.deploy(APP).wait(timeout_s=180)
            feed(client, 1)
        print(f"    {containers.used(worker)}")
        with tried(f"the worker ends within {STOP_S} s, and another one goes on"):
            containers.stop(worker)
            containers("rm", worker)
            cluster.start("worker-1", files / "worker.yaml", **shared, **known)
            feed(client, 2)


def main() -> None:
    """Build the image and try it; exit code 0 where all of it works."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--image", default="localhost/spdist", help="its name")
    parser.add_argument("--base", default="", help="BASE of the Containerfile, in place of Docker Hub's Python")
    parser.add_argument("--only", choices=("server", "any", "cluster"), help="try the nodes of one kind")
    parser.add_argument("--built", action="store_true", help="try the image that is there")
    chosen = parser.parse_args()
    options = shlex.split(os.environ.get("CONTAINER_OPTIONS", ""))
    containers = Containers(program(), chosen.image, options)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spdist-image-")))
        stack.callback(containers.close)
        if not chosen.built:
            with tried("the image is built"):
                build(containers, chosen.image, chosen.base)
        look(containers)
        cluster = Cluster(containers, home)
        with tried("certificates are made in it"):
            cluster.make_certificates()
        if chosen.only in (None, "server"):
            try_server(containers, cluster)
        if chosen.only in (None, "any"):
            try_any_user(containers, cluster)
        if chosen.only in (None, "cluster"):
            stack.callback(SERVERS.stop)
            try_cluster(containers, cluster, home)


if __name__ == "__main__":
    main()
