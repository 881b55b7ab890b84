"""Whom a client asks next, and what it asks again: decisions without a network."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.cluster.clients.asking import Managers, Reply, Request, Round, UnreachableNode, may_repeat
from spdist.cluster.clients.feeding import FeedState
from spdist.cluster.clients.requests import NodeAnswer, app_status, asked_of, feed, in_order, that_answered
from spdist.cluster.protocol.wire_errors import error_body
from spdist.errors import (
    ClusterError,
    ClusterUnreachableError,
    ErrorKind,
    MappingError,
    NotFoundError,
    NotLeaderError,
    SpdistError,
    StoreUnavailableError,
    TransportUnavailableError,
)
from spdist.language.types import Schema
from tests.error_codes import coded

A, B, C = "http://a:1", "http://b:1", "http://c:1"
GET, POST = Request("GET", "/x"), Request("POST", "/x")
AGAIN = feed("App", "S", ['{"data": ["a"]}'], producer="p")
ONCE = feed("App", "S", ['{"data": ["a"]}'])
SCHEMA = Schema.of([("s", "string")])


def standby(leader: str | None) -> Reply:
    return Reply(307 if leader else 503, error_body(NotLeaderError("not me", leader=leader)))


def test_whom_a_standby_names_is_asked_next_and_first_from_then_on() -> None:
    managers = Managers([A, B, C])
    asked = Round(managers, GET)
    assert asked.next() == A
    assert not asked.answered(standby(C))
    assert asked.next() == C
    assert asked.answered(Reply(200, []))
    assert managers.urls == [C, A, B]


def test_who_is_named_may_be_unknown_but_not_in_clear() -> None:
    asked = Round(Managers(["https://a:1"]), GET)
    asked.next()
    asked.answered(standby("http://evil:1"))
    with pytest.raises(NotLeaderError):
        asked.next()
    asked = Round(Managers([A]), GET)
    asked.next()
    asked.answered(standby("http://new:1"))
    assert asked.next() == "http://new:1"


@given(st.lists(st.sampled_from([A, B, C, None]), min_size=20, max_size=20))
def test_a_round_ends_and_asks_nobody_twice(names: list[str | None]) -> None:
    asked, seen = Round(Managers([A, B]), GET), []
    with pytest.raises((NotLeaderError, ClusterUnreachableError)):
        for name in names:
            seen.append(asked.next())
            if name is None:
                asked.unreachable(UnreachableNode("gone", sent=True))
            else:
                asked.answered(standby(name))
    assert len(seen) == len(set(seen)) <= 3


def test_what_may_have_been_carried_out_goes_to_nobody_else_unless_that_is_harmless() -> None:
    lost = UnreachableNode("hung up", sent=True)
    for request in (POST, ONCE):
        managers = Managers([A, B])
        asked = Round(managers, request)
        asked.next()
        with pytest.raises(ClusterError, match="was sent, but not answered"):
            asked.unreachable(lost)
        assert managers.urls == [B, A]
    for request in (GET, Request("PUT", "/x"), Request("DELETE", "/x"), AGAIN):
        asked = Round(Managers([A, B]), request)
        asked.next()
        asked.unreachable(lost)
        assert asked.next() == B
    asked = Round(Managers([A, B]), POST)
    asked.next()
    asked.unreachable(UnreachableNode("refused", sent=False))
    assert asked.next() == B


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (NotLeaderError("m"), {"get", "post", "feed"}),
        (ClusterUnreachableError("m"), {"get", "post", "feed"}),
        (StoreUnavailableError("m"), {"get", "feed"}),
        (TransportUnavailableError("m"), {"feed"}),
        (ClusterError("m", code=ErrorKind.CONFLICT), set()),
        (ClusterError("m", code=ErrorKind.UNKNOWN_ERROR), set()),
        (KeyboardInterrupt(), set()),
    ],
)
def test_what_is_asked_again_after_a_pause(error: BaseException, again: set[str]) -> None:
    requests = {"get": GET, "post": POST, "feed": AGAIN}
    assert {name for name, request in requests.items() if may_repeat(request, error)} == again


def test_the_leaders_refusal_is_final() -> None:
    asked = Round(Managers([A, B]), GET)
    asked.next()
    with pytest.raises(NotFoundError):
        asked.answered(Reply(404, error_body(NotFoundError("no app"))))


def test_an_answer_of_another_shape_is_told() -> None:
    for body in (None, [], {"name": "A"}, "text"):
        with pytest.raises(ClusterError, match="not what was expected", check=coded(ErrorKind.UNKNOWN_ERROR)):
            app_status("A").read(body)


# -------------------------------------------------------------------------------------------------------------- feeding
def test_batches_keep_order_and_bounds() -> None:
    state = FeedState("App", "S", SCHEMA)
    events = [(n, (str(n) * 40,)) for n in range(12_345)]
    batches = state.batches(events)
    sent = [one for batch in batches for one in json.loads(state.request(batch).content or "")["events"]]
    assert [(one["timestamp"], tuple(one["data"])) for one in sent] == events
    assert all(len(batch) <= 5000 and len(state.request(batch).content or "") < 1 << 20 for batch in batches)
    long = state.batches((n, ("x" * 100_000,)) for n in range(20))
    assert all(len(state.request(batch).content or "") < 1 << 20 for batch in long)
    assert sum(map(len, long)) == 20
    assert state.batches([]) == []


def test_a_feed_goes_on_only_from_what_was_confirmed() -> None:
    state = FeedState("App", "S", SCHEMA, "p")
    first = state.request(state.batches([(1, ("a",))])[0])
    assert first == state.request(state.batches([(1, ("a",))])[0])
    state.answered({"accepted": 1, "position": {"sent": 1, "clock": 1, "seq": [1]}})
    assert state.sent == 1
    assert '"seq": [1]' in (state.request([]).content or "")
    for wrong in ({"accepted": 1}, None, {"position": {"sent": "1"}}):
        with pytest.raises(ClusterError, check=coded(ErrorKind.UNKNOWN_ERROR)):
            state.answered(wrong)  # type: ignore[arg-type]
    assert state.sent == 1


def test_all_rows_that_do_not_fit_are_named() -> None:
    state = FeedState("App", "S", SCHEMA)
    with pytest.raises(MappingError, match=r"^3 events .* event 0: .* event 2: .* event 3: ") as caught:
        state.batches([(1, (5,)), (1, ("a",)), (1, ()), ("now", ("a",))])  # type: ignore[list-item]
    assert caught.value.hint == "nothing was sent"


# ---------------------------------------------------------------------------------------------------------------- nodes
def test_nodes_are_asked_where_the_password_may_go() -> None:
    view = {"managers": [{"id": "m", "url": "https://m:1"}], "workers": [{"id": "w", "url": "http://w:1"}]}
    assert asked_of(A, view, None) == [("m", "https://m:1"), ("w", "http://w:1")]
    assert asked_of("https://m:1", view, None) == [("m", "https://m:1")]
    for node in ("w", "other"):
        with pytest.raises(NotFoundError):
            asked_of("https://m:1", view, node)


def test_a_silent_node_matters_only_where_it_was_named() -> None:
    answers = [NodeAnswer("m", "1"), NodeAnswer("w", None, "hung up")]
    assert that_answered(None, answers) == {"m": "1"}
    with pytest.raises(SpdistError, match="node w does not answer: hung up"):
        that_answered("w", answers[1:])


def test_pages_are_put_in_order_by_their_keys() -> None:
    from spdist.cluster.clients.requests import EventPage

    pages = [
        EventPage(SCHEMA, [(9, ("b",)), (9, ("d",))], "", False, [(2, 0, "ff", 0), (5, 0, "ff", 0)]),
        EventPage(SCHEMA, [(9, ("a",)), (9, ("c",))], "", True, [(1, 0, "ff", 1), (2, 0, "ff", 1)]),
    ]
    assert [row for _, row in in_order(pages)] == [("a",), ("b",), ("c",), ("d",)]
