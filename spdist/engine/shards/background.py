"""What two threads can do at the same time: make the next items while one is used, finish while others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["BackgroundCall", "prefetched"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


def prefetched(items: Iterable[T], ahead: int = 2) -> Iterator[T]:
    """Yield `items` in order, while a thread takes those that follow from where they come.

    An error there is raised here, in its place. A caller that does not want the rest closes the iterator; then the
    thread ends with the item that it is at.

    Parameters
    ----------
    items : iterable
        Used by that thread alone.
    ahead : int
        How many items may wait here, at least 1.
    """
    made: SimpleQueue[T | _End] = SimpleQueue()
    places = threading.Semaphore(ahead)
    left = threading.Event()

    def make() -> None:
        end = _End(None)
        try:
            for item in items:
                places.acquire()
                if left.is_set():
                    return
                made.put(item)
        except BaseException as error:  # the caller's to judge
            end = _End(error)
        made.put(end)

    threading.Thread(target=make, name="reading", daemon=True).start()
    try:
        while not isinstance(item := made.get(), _End):
            places.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        left.set()
        places.release()


class BackgroundCall:
    """Makes one call in a thread behind the caller, who goes on and asks later what has become of it.

    State
    -----
    The call, and its error until somebody has asked.
    """

    def __init__(self) -> None:
        self._call: Future[None] | None = None

    def begin(self, call: Callable[[], None]) -> None:
        """Begin a call; the one before must have been asked for."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="behind")
        self._call = pool.submit(call)
        pool.shutdown(wait=False)  # the thread ends with the call

    def is_over(self) -> bool:
        """Tell whether no call runs, nor one has failed for which nobody has asked."""
        return self._call is None or (self._call.done() and self._call.exception() is None)

    def end(self) -> bool:
        """Wait until the call has ended, and raise its error; False the second time, or where none began."""
        call, self._call = self._call, None
        if call is not None:
            call.result()
        return call is not None
