"""Panels: deploy, watch, draw and replay over a cluster, and a debugger. Each is a live widget, HTML, and text.

The code lives in the folder ``widgets`` of a checkout and has one name, ``spdist.panels``: there ``spdist/panels`` is a
symbolic link to the folder, in a wheel it is the files themselves.
"""

if __name__ != "spdist.panels":  # from a checkout's root the folder is found too: each module would be there twice
    raise ImportError("the panels are spdist.panels: from spdist.panels import MonitorPanel", name=__name__)

from spdist.panels.debug import DebugPanel
from spdist.panels.deploy import DeployPanel
from spdist.panels.journal import JournalPanel
from spdist.panels.monitor import MonitorPanel
from spdist.panels.replay import ReplayPanel
from spdist.panels.topology import TopologyPanel

__all__ = ["DebugPanel", "DeployPanel", "JournalPanel", "MonitorPanel", "ReplayPanel", "TopologyPanel"]
