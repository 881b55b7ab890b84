"""Making the next items while one is used."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from spdist.engine.shards.shards import BackgroundCall
from spdist.engine.spark.tasks import prefetched

PATIENCE_S = 10


def test_items_come_in_order_and_an_error_in_its_place() -> None:
    def failing() -> Iterator[int]:
        yield from range(50)
        raise ConnectionError("no more")

    assert list(prefetched(range(1000))) == list(range(1000))
    assert list(prefetched(())) == []
    seen = []
    with pytest.raises(ConnectionError, match="no more"):
        for item in prefetched(failing()):
            seen.append(item)
    assert seen == list(range(50))


def test_the_next_items_are_made_while_one_is_used_but_not_more_than_may_wait() -> None:
    made, third = [], threading.Event()

    def numbers() -> Iterator[int]:
        for number in range(9):
            made.append(number)
            if number == 3:
                third.set()
            yield number

    items = prefetched(numbers(), ahead=2)
    assert next(items) == 0
    assert third.wait(PATIENCE_S)  # two wait, and one is there that has no place yet
    assert made == [0, 1, 2, 3]
    assert [*items] == list(range(1, 9))


def test_who_does_not_want_the_rest_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    items = prefetched(iter(range(100)), ahead=1)
    next(items)
    (thread,) = set(threading.enumerate()) - before
    items.close()  # type: ignore[attr-defined]
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_call_goes_on_behind_whoever_began_it_until_it_is_asked_for() -> None:
    behind, may_end, done = BackgroundCall(), threading.Event(), []

    def call() -> None:
        assert may_end.wait(PATIENCE_S)
        done.append(threading.current_thread())

    behind.end()  # nothing has begun
    behind.begin(call)
    assert not done
    may_end.set()
    behind.end()
    (thread,) = done
    assert thread is not threading.current_thread()


def test_the_error_of_a_call_behind_is_raised_once() -> None:
    behind = BackgroundCall()
    behind.begin(lambda: int("none"))
    with pytest.raises(ValueError, match="invalid literal"):
        behind.end()
    behind.end()
