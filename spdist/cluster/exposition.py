"""What nodes tell Prometheus: a worker of its group instances, a manager of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from spdist.cluster.leader.metrics import ClusterFigures
from spdist.cluster.protocol.messages import GroupPhase, GroupReport
from spdist.errors import EngineError, TransportError
from spdist.transports.sockets.listening import Listener

__all__ = ["CONTENT_TYPE", "manager_text", "prometheus_text", "serve_metrics"]

#: Of the text, for those who send it over HTTP.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LABELS = ("app", "instance")
#: Figure of a report → name, meaning; a counter where the name ends so. Units as Prometheus wants them: seconds, bytes.
_FIGURES = {
    "eventsIn": ("spdist_events_in_total", "Events read since the group began"),
    "eventsOut": ("spdist_events_out_total", "Events put out since the group began"),
    "batches": ("spdist_batches_total", "Batches committed since the instance started"),
    "batchMs": ("spdist_batch_seconds", "Duration of the last batch"),
    "lag": ("spdist_lag_records", "Records in the topics of the instance that it has not read"),
    "clock": ("spdist_event_time_seconds", "Event time that the instance has reached"),
    "stateRows": ("spdist_state_rows", "Rows and events that the state holds"),
    "stateBytes": ("spdist_state_bytes", "Bytes of the newest snapshot and of the log after it"),
    "memoryBytes": ("spdist_memory_bytes", "Memory of the process that holds the live state"),
    "lastRevision": ("spdist_last_revision_timestamp_seconds", "When the newest revision was made"),
}
#: With a stream behind it: a figure for each stream.
_REJECTED = "rejected."
#: Kinds of the journal that are told from the beginning, so that the first one is seen as an increase.
_KINDS = ("elected", "deposed", "worker-lost", "group-failed", "group-lost", "group-moved", "group-placed")
_MILLISECONDS = {"batchMs", "clock", "lastRevision"}


def prometheus_text(groups: Iterable[GroupReport], node: Mapping[str, float], *, active: bool | None = None) -> str:
    """Return the figures of group instances and of their node in Prometheus' text format.

    Parameters
    ----------
    groups : iterable of GroupReport
        What is there; figures that an instance does not report are left out.
    node : mapping of str to float
        WSO2's ``workerMetrics``, shares from 0 to 1.
    active : bool, optional
        Of a server: whether it runs its apps.
    """
    # A registry that describes itself would collect everything once more when it is given the collector
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(tuple(groups), node))
    if active is not None:
        told = "1 on a server that runs its apps, 0 on a passive one of a group"
        registry.register(_Families([GaugeMetricFamily("spdist_server_active", told, float(active))]))
    return generate_latest(registry).decode("utf-8")


def manager_text(
    figures: ClusterFigures, *, heartbeats: int, noted: Mapping[str, int], lost: int, planner_waiting: int
) -> str:
    """Return the figures of a manager in Prometheus' text format.

    Parameters
    ----------
    figures : ClusterFigures
        What its state says.
    heartbeats : int
        Heartbeats of workers that came in.
    noted : mapping of str to int
        Kind → what has happened of it, as this manager has noted it in the journal.
    lost : int
        Entries of the journal that were not written.
    planner_waiting : int
        Texts that wait to be planned.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(_manager_families(figures, heartbeats, noted, lost, planner_waiting)))
    return generate_latest(registry).decode("utf-8")


def _manager_families(
    figures: ClusterFigures, heartbeats: int, noted: Mapping[str, int], lost: int, planner_waiting: int
) -> Iterator[Metric]:
    yield GaugeMetricFamily("spdist_manager_leads", "1 on the leader, 0 on a standby", float(figures.leads))
    yield GaugeMetricFamily("spdist_manager_term", "Term in which this manager leads, 0 on a standby", figures.term)
    yield CounterMetricFamily("spdist_heartbeats_received_total", "Heartbeats of workers that came in", heartbeats)
    ages = GaugeMetricFamily("spdist_heartbeat_age_seconds", "Since the last heartbeat of a worker", labels=["worker"])
    for worker, age_ms in figures.heartbeat_age_ms.items():
        ages.add_metric([worker], age_ms / 1000)
    yield ages
    apps = GaugeMetricFamily("spdist_apps", "Deployed apps in a state", labels=["state"])
    for state, number in figures.apps.items():
        apps.add_metric([state], number)
    yield apps
    yield GaugeMetricFamily("spdist_groups_waiting", "Group instances without a worker", figures.groups_waiting)
    yield GaugeMetricFamily("spdist_groups_failed", "Group instances that failed for good", figures.groups_failed)
    entries = CounterMetricFamily(
        "spdist_journal_entries_total", "What has happened, by its kind in the journal", labels=["kind"]
    )
    for kind, number in sorted({**dict.fromkeys(_KINDS, 0), **noted}.items()):
        entries.add_metric([kind], number)
    yield entries
    yield CounterMetricFamily("spdist_journal_lost_total", "Entries of the journal that were not written", lost)
    yield GaugeMetricFamily("spdist_planner_waiting", "Texts that wait to be planned", planner_waiting)


class _Families:
    """Gives a registry families that are made already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families


def serve_metrics(port: int, look: Callable[[], GroupReport]) -> Callable[[], None]:
    """Answer Prometheus at ``http://127.0.0.1:<port>/metrics`` in a thread, until what is returned is called.

    Parameters
    ----------
    port : int
        Where; 0 takes any free one.
    look : callable
        Returns the only group there is, as it is now.

    Raises
    ------
    EngineError
        The port is not free.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Live(look))
    try:
        listener = Listener("127.0.0.1", port)
        listener.start(make_asgi_app(registry))
    except (OSError, TransportError) as error:
        raise EngineError(f"metrics cannot be told at port {port}: {error}", hint="choose another port") from error
    return listener.stop


class _Live:
    """Gives a registry what is so when it is asked."""

    def __init__(self, look: Callable[[], GroupReport]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """Yield one family per figure."""
        return _Collector((self._look(),), {}).collect()


class _Collector:
    """Gives a registry what `prometheus_text` was called with."""

    def __init__(self, groups: tuple[GroupReport, ...], node: Mapping[str, float]) -> None:
        self._groups = groups
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Yield one family per figure."""
        states = GaugeMetricFamily(
            "spdist_group_state",
            "1 for the state in which an instance is, 0 for the others",
            labels=[*_LABELS, "state"],
        )
        for group in self._groups:
            for state in GroupPhase:
                states.add_metric([group.app, group.name, state.value], float(group.state is state))
        yield states
        for figure, (name, meaning) in _FIGURES.items():
            family = (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(
                name, meaning, labels=_LABELS
            )
            for group in self._groups:
                if (value := group.metrics.get(figure)) is not None:
                    family.add_metric([group.app, group.name], value / 1000 if figure in _MILLISECONDS else value)
            yield family
        rejected = CounterMetricFamily(
            "spdist_rejected_messages_total",
            "Messages that could not be read, and events of messages, since the instance started",
            labels=[*_LABELS, "stream"],
        )
        for group in self._groups:
            for figure, value in group.metrics.items():
                if figure.startswith(_REJECTED):
                    rejected.add_metric([group.app, group.name, figure.removeprefix(_REJECTED)], value)
        yield rejected
        load = GaugeMetricFamily(
            "spdist_node", "Load of the node: shares from 0 to 1, and its load average", labels=["figure"]
        )
        for figure, value in self._node.items():
            load.add_metric([figure], value)
        yield load
