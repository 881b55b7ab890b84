"""What runs on a node as Prometheus text: one sample per group instance and figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest, make_asgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from spdist.cluster.messages import GroupPhase, GroupReport
from spdist.errors import EngineError, TransportError
from spdist.transports.listening import Listener

__all__ = ["CONTENT_TYPE", "prometheus_text", "serve_metrics"]

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
_MILLISECONDS = {"batchMs", "clock", "lastRevision"}


def prometheus_text(groups: Iterable[GroupReport], node: Mapping[str, float]) -> str:
    """Return the figures of group instances and of their node in Prometheus' text format.

    Parameters
    ----------
    groups : iterable of GroupReport
        What is there; figures that an instance does not report are left out.
    node : mapping of str to float
        WSO2's ``workerMetrics``, shares from 0 to 1.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(tuple(groups), node))
    return generate_latest(registry).decode("utf-8")


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
