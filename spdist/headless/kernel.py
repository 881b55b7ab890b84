"""The kernel of a notebook that runs for itself: ``python -m spdist.headless.kernel -f CONNECTION_FILE``.

It is ipykernel's, without the debugger that it loads for front ends to attach, of which there is none. And Python's
collector comes by less often: a node loads 200,000 objects that stay, and a sixth of the processor time of its start
went into looking through them again and again.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from spdist.headless.lean import doing_without

__all__ = ["main"]

#: So many more objects there are before the youngest are looked through; Python's 700 are for short programs.
_NEW_OBJECTS = 10_000


def main() -> None:
    """Run the kernel."""
    # As ipykernel's own launcher does: modules in the notebook's directory must not stand in for those that load here.
    if sys.path[0] == "" or Path(sys.path[0]) == Path.cwd():
        del sys.path[0]
    gc.disable()
    with doing_without("debugpy"):
        import ipykernel.debugger  # noqa: F401
    from ipykernel import kernelapp

    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()
