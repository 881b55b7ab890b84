"""How `make docs` makes pages of this folder, in out/docs."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

project = "spdist"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.mermaid",
]
html_theme = "furo"
html_title = "spdist"
html_last_updated_fmt = None
# Links lead from heading to heading, and also out of this folder, to notebooks, settings and code: those are copied.
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
