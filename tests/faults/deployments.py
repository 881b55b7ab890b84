"""Servers of each deployment that fail while requests come in: ``make deployments`` prints a table.

Deployments without managers, all on this machine: two servers of which one is active, two without state behind a load
balancer, and two routers in front of two pairs. Numbered requests come in over HTTP all the time. In each round a
server is killed with all its processes and started again, or it stands still for some seconds. Who gets no answer sends
again under the same number, but for servers without state: of two that share nothing the other one cannot know what the
first has seen, so there only what was accepted counts.

Printed for each deployment and fault: how long nothing came out, and how many requests were lost, or counted twice.
Links that are cut and databases that go away: ``make ha`` and, for managers and workers, ``make chaos``.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.processes.local_servers import LocalServers
from spdist.display import table_text
from spdist.errors import SpdistError
from spdist.services.haproxy import Backend, HAProxy
from spdist.services.process import HOST, free_ports
from tests.faults.failovers import wait_for
from tests.faults.results import longest_silence_s

LANES = 4
STILL_S = 5.0
_LOOK_S = 0.1
SOURCE = (
    "@source(type='http', receiver.url='http://{at}/in', basic.auth.enabled='false', drop.repeats='true', "
    "@map(type='json'))"
)
SUMS = (
    "@app:name('Flow') " + SOURCE + " define stream Numbers (k int, n long); "
    "@sink(type='embedded', topic='Flow.Sums') define stream Sums (n long, total long); "
    "partition with (k of Numbers) begin from Numbers select n, sum(n) as total insert into Sums; end;"
)
PLAIN = (
    "@app:name('Flow') " + SOURCE + " define stream Numbers (k int, n long); "
    "@sink(type='embedded', topic='Flow.Sums') define stream Sums (n long); "
    "from Numbers[n >= 0] select n insert into Sums;"
)
ROUTES = (
    "@app:name('Routes') " + SOURCE + " @sink(type='http', on.error='WAIT', @map(type='json'), "
    "@distribution(strategy='partitioned', partitionKey='k', {destinations})) "
    "define stream Numbers (k int, n long);"
)


class Results:
    """What has come out of the app at some servers, read page by page."""

    def __init__(self, clients: list[ClusterClient]) -> None:
        self._cursors = dict.fromkeys(clients, "")
        self.seen: Counter[int] = Counter()
        self.at = [time.monotonic()]

    def look(self) -> None:
        before = self.seen.total()
        for client, after in self._cursors.items():
            with contextlib.suppress(SpdistError):
                page = client.events("Flow", "Sums", after)
                self.seen.update(row[0] for _, row in page.events)
                self._cursors[client] = page.next
        if self.seen.total() > before:
            self.at.append(time.monotonic())

    def silence_s(self, since_s: float) -> float:
        """Return the longest time without a result that was not over at `since_s`."""
        return longest_silence_s(self.at, since_s)


class Senders:
    """Post numbers, each lane its own, until they are told to stop."""

    def __init__(self, url: str, again: bool) -> None:
        self._url, self._again = url, again
        self._end = threading.Event()
        self.accepted: list[int] = []
        self._threads = [threading.Thread(target=self._send, args=(lane,), daemon=True) for lane in range(LANES)]
        for thread in self._threads:
            thread.start()

    def _send(self, lane: int) -> None:
        number = lane
        with httpx.Client(timeout=10.0) as client:
            while not self._end.wait(0.02):
                body = {"event": {"k": number % 8, "n": number}}
                headers = {"spdist-origin": f"lane {lane}", "spdist-id": str(number)} if self._again else {}
                accepted = False
                with contextlib.suppress(httpx.HTTPError):
                    accepted = client.post(f"{self._url}/in", json=body, headers=headers).status_code == 200
                if accepted:
                    self.accepted.append(number)
                if accepted or not self._again:
                    number += LANES

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)


@dataclass
class Deployed:
    """A deployment with its app.

    ``layers`` are servers that may fail, by what they are; ``again`` tells whether senders may send again.
    """

    name: str
    url: str
    clients: list[ClusterClient]
    layers: dict[str, list[LocalServers]]
    again: bool = True


def fronted(stack: ExitStack, servers: LocalServers, events: dict[str, str]) -> str:
    """Put a load balancer in front of servers, and return its URL; `events` are the addresses of their sources."""
    behind = [Backend(name, events[name], node.url.removeprefix("http://")) for name, node in servers.nodes.items()]
    return stack.enter_context(HAProxy(servers.directory / "proxy", behind)).url


def pair(stack: ExitStack, home: Path, name: str, text: str) -> tuple[LocalServers, str]:
    """Start two servers of which one is active, with an app, and return them with the URL of their source."""
    servers = stack.enter_context(LocalServers(2, home / name, group=name, quiet=True))
    (port,) = free_ports(1)
    servers.client.deploy(text.replace("{at}", f"{HOST}:{port}")).wait(timeout_s=120)
    return servers, fronted(stack, servers, dict.fromkeys(servers.nodes, f"{HOST}:{port}"))


@contextmanager
def one_active(home: Path) -> Iterator[Deployed]:
    with ExitStack() as stack:
        servers, url = pair(stack, home, "pair", SUMS)
        yield Deployed("two servers, one active", url, [servers.client], {"active": [servers]})


@contextmanager
def stateless(home: Path) -> Iterator[Deployed]:
    with ExitStack() as stack:
        servers = stack.enter_context(LocalServers(2, home / "stateless", quiet=True))
        events = {name: f"{HOST}:{port}" for name, port in zip(servers.nodes, free_ports(2), strict=True)}
        for name, client in servers.clients.items():
            client.deploy(PLAIN.replace("{at}", events[name])).wait(timeout_s=120)
        url = fronted(stack, servers, events)
        yield Deployed("scalable, stateless", url, [*servers.clients.values()], {"one": [servers]}, again=False)


@contextmanager
def stateful(home: Path) -> Iterator[Deployed]:
    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            parts = [*pool.map(lambda name: pair(stack, home, name, SUMS), ("east", "west"))]
        places = ", ".join(f"@destination(publisher.url='{url}/in')" for _, url in parts)
        routers, url = pair(stack, home, "router", ROUTES.replace("{destinations}", places))
        servers = [one for one, _ in parts]
        clients = [one.client for one in servers]
        yield Deployed("scalable, stateful", url, clients, {"router": [routers], "partition": servers})


DEPLOYMENTS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Deployed]]] = {
    "pair": one_active,
    "stateless": stateless,
    "stateful": stateful,
}


def victim_of(chosen: random.Random, layer: list[LocalServers]) -> tuple[LocalServers, str]:
    """Return a server of a layer that is at work."""
    servers = chosen.choice(layer)
    return servers, (servers.active() if servers.is_group else chosen.choice([*servers.nodes]))


def killed(servers: LocalServers, name: str) -> None:
    servers.kill(name)
    servers.restart(name)


def still(servers: LocalServers, name: str) -> None:
    def each(number: signal.Signals) -> None:
        for one in processes:
            with contextlib.suppress(psutil.NoSuchProcess):  # some end by themselves, such as one that compiles
                one.send_signal(number)

    processes = servers.node(name).processes()
    each(signal.SIGSTOP)
    threading.Event().wait(STILL_S)
    each(signal.SIGCONT)


FAULTS = {"killed": killed, f"still for {STILL_S:g} s": still}


def measured(deployed: Deployed, rounds: int, chosen: random.Random) -> list[tuple[object, ...]]:
    """Let each fault happen to each layer, and return a row for each."""
    results, senders = Results(deployed.clients), Senders(deployed.url, deployed.again)

    def through(count: int) -> bool:
        results.look()
        return len(results.seen) >= count

    wait_for(lambda: through(20), "the first results", 120)
    rows: list[tuple[object, ...]] = []
    for layer, servers in deployed.layers.items():
        for fault, happens in FAULTS.items():
            worst_s, sent = 0.0, len(senders.accepted)
            for _ in range(rounds):
                began_s = time.monotonic()
                thread = threading.Thread(target=happens, args=victim_of(chosen, servers))
                thread.start()
                wait_for(lambda: (results.look(), not thread.is_alive())[1], f"{fault} is over", 180)  # noqa: B023
                # As many as are under way anyway, and some more.
                wanted = len(results.seen) + 4 * LANES
                wait_for(lambda: through(wanted), "results afterwards", 180)  # noqa: B023
                worst_s = max(worst_s, results.silence_s(began_s))
            rows.append((deployed.name, layer, fault, rounds, len(senders.accepted) - sent, round(worst_s, 1)))
            print(f"{deployed.name}: {layer} {fault}, {worst_s:.1f} s without a result", flush=True)
    senders.stop()
    wanted = set(senders.accepted)
    with contextlib.suppress(SystemExit):
        wait_for(lambda: (results.look(), wanted <= set(results.seen))[1], "all results", 120)
    lost = len(wanted - set(results.seen))
    doubled = sum(count - 1 for count in results.seen.values())
    return [(*row, lost, doubled) for row in rows]


HEAD = ("deployment", "what fails", "fault", "rounds", "requests", "s without a result", "lost", "doubled")


def main() -> None:
    parser = argparse.ArgumentParser(description="let servers of each deployment fail, and print a table")
    parser.add_argument("--rounds", type=int, default=5, help="of each fault of each layer")
    parser.add_argument("--only", choices=DEPLOYMENTS, nargs="+", default=[*DEPLOYMENTS])
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows: list[tuple[object, ...]] = []
    for name in arguments.only:
        with tempfile.TemporaryDirectory(prefix="spdist-deployments-") as place, DEPLOYMENTS[name](Path(place)) as one:
            rows += measured(one, arguments.rounds, random.Random(arguments.seed))
    print(table_text(HEAD, rows))
    print("lost and doubled are those of all rounds of a deployment")
    sys.exit(any(row[-1] or row[-2] for row in rows))


if __name__ == "__main__":
    main()
