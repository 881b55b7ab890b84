"""Panels: deploy, watch, draw and replay over a cluster, and a debugger. Each is a live widget, HTML, and text."""

from widgets.debug import DebugPanel
from widgets.deploy import DeployPanel
from widgets.journal import JournalPanel
from widgets.monitor import MonitorPanel
from widgets.replay import ReplayPanel
from widgets.topology import TopologyPanel

__all__ = ["DebugPanel", "DeployPanel", "JournalPanel", "MonitorPanel", "ReplayPanel", "TopologyPanel"]
