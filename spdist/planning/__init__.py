"""From a checked app to execution groups and the topics between them; and how that is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdist.planning.topology import Topology

if TYPE_CHECKING:
    from spdist.planning.updates.change import TopologyChange


class _Views:
    """Implements `spdist.planning.topology.TopologyViews`; what draws and compares is loaded where somebody looks."""

    def text(self, topology: Topology, /) -> str:
        from spdist.planning.pictures.drawing import to_text

        return to_text(topology)

    def html(self, topology: Topology, /) -> str:
        from spdist.planning.pictures.drawing import to_html

        return to_html(topology)

    def listed(self, topology: Topology, /) -> dict[str, Any]:
        from spdist.planning.pictures.listing import listed

        return listed(topology)

    def compared(self, before: Topology, after: Topology, /) -> TopologyChange:
        from spdist.planning.updates.comparison import compare

        return compare(before, after)


Topology.views = _Views()
