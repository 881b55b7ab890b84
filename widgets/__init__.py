"""Panels over a cluster: deploy, watch, draw, replay. Each is a live widget, static HTML, and text."""

from widgets.deploy import DeployPanel
from widgets.journal import JournalPanel
from widgets.monitor import MonitorPanel
from widgets.replay import ReplayPanel
from widgets.topology import TopologyPanel

__all__ = ["DeployPanel", "JournalPanel", "MonitorPanel", "ReplayPanel", "TopologyPanel"]
