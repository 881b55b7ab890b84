"""Sessions of a dashboard: until nobody clicks any more, a few for each user, with a few kernels each."""

from __future__ import annotations

from spdist.dashboard.sessions import MOST_PAGES, KernelUse, UserSession, UserSessions, oldest_beyond


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_session_ends_when_nobody_uses_it() -> None:
    clock = Clock()
    sessions = UserSessions(60, clock)
    idle, used = sessions.begin("ann", "secret"), sessions.begin("ann", "secret")
    first, second = sessions.find(idle), sessions.find(used)
    assert first is not None and second is not None and first is not second
    clock.now_s += 59
    sessions.use(second)
    clock.now_s += 1
    assert sessions.find(idle) is None and sessions.find(used) is second
    assert first.ended and not first.password, "nobody needs the password any more"
    sessions.end(second)
    assert sessions.find(used) is None and second.ended and len(sessions) == 0


def test_what_is_kept_is_bounded_for_each_user_and_holds_no_id() -> None:
    sessions = UserSessions(60, Clock())
    bob = sessions.begin("bob", "b")
    own = [sessions.begin("ann", "secret") for _ in range(15)]
    assert [sessions.find(one) is not None for one in [bob, *own]] == [True, *[False] * 5, *[True] * 10]
    kept = repr(vars(sessions))
    assert "secret" not in kept and not any(one in kept for one in own)


def test_a_kernel_ends_with_its_session_and_without_its_page() -> None:
    ann, bob = UserSession("ann", "", 0.0), UserSession("bob", "", 0.0)
    use = KernelUse(ann, 1000.0)
    assert not use.is_over(1119.0) and use.is_over(1120.0)
    ann.ended = True
    assert use.is_over(1000.0)
    kernels = {"b0": KernelUse(bob, 0.0)} | {f"a{n}": KernelUse(ann, 0.0) for n in range(MOST_PAGES)}
    assert oldest_beyond(kernels, ann) == ["a0"] and oldest_beyond(kernels, bob) == []
