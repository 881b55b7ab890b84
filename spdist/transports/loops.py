"""Event loops in threads of their own, for clients that know asyncio only."""

from __future__ import annotations

import asyncio

__all__ = ["end_other_tasks", "run_loop"]


def run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop in this thread until it is stopped, and close it, also where nobody waits so long."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def end_other_tasks() -> None:
    """Cancel all other tasks of the running loop, and wait until they have ended: whoever waits for one is told."""
    # This task would cancel itself.
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
