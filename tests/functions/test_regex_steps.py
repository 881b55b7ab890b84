"""No regular expression takes more than a bounded number of steps, whatever the text; counting changes no result."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp, run
from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError
from spdist.extension import catalog
from spdist.facade import explain
from spdist.java.bounds import MOST_CHARACTERS
from spdist.java.regex import steps as regex_steps
from spdist.java.regex.matching import java_replaced, java_split
from spdist.java.regex.pattern import JavaPattern, java_pattern
from spdist.java.regex.steps import RegexStepsError
from spdist.java.regex.syntax import JavaRegexError, UntranslatableRegexError
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.error_codes import coded

#: With each of them `re` does not come to an end on 40 letters and a sign, or on a text of a million.
HOSTILE = [
    "^(a+)+$",
    "(a|aa)+$",
    "(a|a)*b",
    "(a*)*b",
    "(a*)+$",
    "([a-z]+)*=",
    "(x+x+)+y",
    "(.*a){20}b",
    r"(\w+\s?)*-$",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    "(a+)+\\1b",
    "(?=(a+)+b)a",
    "(?:a?){30}a{30}b",
    "(?>(a+)+b)",
    "((a{1,9}){1,9}){1,9}b",
]
#: What people write; none of it may be slow on a text of the usual length.
USUAL = [
    (r"^[\w.+-]+@([\w-]+\.)+[a-z]{2,}$", 2000),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d", 1_000_000),
    (r"ERROR|WARN", 1_000_000),
    (r"(\w+)=(\w*)", 4000),
    (r"^\s*(\S+)\s+(\S+)\s*$", 5000),
    (r"[^,]*,[^,]*,", 4000),
    (r"(?i)timeout after (\d+) ?ms", 4000),
    (r"^([a-z]+,)*[a-z]+$", 2500),
    (r"(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}", 1000),
]
TEXT = st.text("aabc-\n A", max_size=9)


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let counting end early: what is looked at is that it ends."""
    monkeypatch.setattr(regex_steps, "MOST_STEPS", 10_000)


def _patterns() -> st.SearchStrategy[str]:
    items = st.sampled_from(
        ["a", "b", "c", "[ab]", "[^a]", ".", r"\w", r"\n", "^", "$", r"\b", r"\B", "(?m)^", r"\Z", ""]
    )
    often = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}"])
    modes = st.sampled_from(["", "?", "+"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        around = st.sampled_from(
            ["({})", "(?={})", "(?!{})", "(?>{})", "(?i:{})", "(?<=a){}", "(?<!b){}", "{}\\1", "{}\\2"]
        )
        return st.one_of(
            st.lists(inner, min_size=2, max_size=3).map("".join),
            st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
            st.tuples(inner, often, modes).map(lambda three: f"(?:{three[0]}){three[1]}{three[2]}"),
            st.tuples(inner, often, modes).map(lambda three: f"({three[0]}){three[1]}{three[2]}"),
            st.tuples(around, inner).map(lambda two: two[0].format(two[1])),
        )

    return st.recursive(items, larger, max_leaves=8)


@settings(max_examples=200, deadline=None)
@given(_patterns(), st.lists(TEXT, min_size=1, max_size=6))
def test_counted_steps_find_what_re_finds(regex: str, texts: list[str]) -> None:
    try:
        pattern = java_pattern(regex)
    except (JavaRegexError, UntranslatableRegexError):
        return
    for text in texts:
        for method in ("match", "fullmatch", "search"):
            try:
                ours = getattr(pattern._re, method)(text)
            except SystemError:
                continue  # a defect of `re`: "The span of capturing group is wrong"
            stepped = pattern._stepped
            found = stepped.searcher(text)(0) if method == "search" else getattr(stepped, method)(text)
            assert (found is None) == (ours is None), (regex, text, method)
            if found is not None and ours is not None:
                assert (found.start(), found.end()) == ours.span(), (regex, text, method)


@pytest.mark.parametrize(
    ("regex", "text", "groups"),
    [
        ("(a)|(b)", "b", (None, "b")),
        ("(a+)(a*)", "aaa", ("aaa", "")),
        ("(a+?)(a*)", "aaa", ("a", "aa")),
        ("(?:(a)|b)*", "ab", ("a",)),
        ("(?<n>a)+", "aaa", ("a",)),
        (r"(\w+) \1", "ab ab", ("ab",)),
        ("(a*)*", "b", ("",)),
        ("(?=(a+))a", "aa", ("aa",)),
    ],
)
def test_counted_steps_keep_the_groups_that_re_keeps(regex: str, text: str, groups: tuple[str | None, ...]) -> None:
    pattern = java_pattern(regex)
    ours, found = pattern._re.search(text), pattern._stepped.searcher(text)(0)
    assert ours is not None
    assert found is not None
    assert ours.groups() == tuple(found.group(number + 1) for number in range(pattern.groups)) == groups
    assert [ours.span(n) for n in range(pattern.groups + 1)] == [
        (found.start(n), found.end(n)) for n in range(pattern.groups + 1)
    ]


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("regex", HOSTILE)
@pytest.mark.parametrize("length", [40, 3000])
def test_a_hostile_expression_ends(regex: str, length: int) -> None:
    began = time.process_time()
    for text in ("a" * length + "!", "x" * length, "ab" * (length // 2) + "!"):
        for method in ("search", "match", "fullmatch"):
            with contextlib.suppress(ValueError):
                getattr(java_pattern(regex), method)(text)
        with contextlib.suppress(ValueError):
            java_replaced(text, regex, "-")
        with contextlib.suppress(ValueError):
            java_split(text, regex)
    assert time.process_time() - began < 30


def test_most_hostile_expressions_still_give_their_result() -> None:
    for regex in ("^(a+)+$", "(a|aa)+$", "([a-z]+)*=", "(x+x+)+y"):
        assert java_pattern(regex).search("a" * 3000 + "!") is None
    found = java_pattern("^(a+)+!$").search("a" * 3000 + "!")
    assert found is not None
    assert (found.start(), found.end(1)) == (0, 3000)


@pytest.mark.parametrize(("regex", "length"), USUAL)
def test_usual_expressions_are_run_by_re_on_texts_of_usual_length(regex: str, length: int) -> None:
    assert java_pattern(regex)._longest_searched >= length


@pytest.mark.usefixtures("few_steps")
def test_what_takes_too_many_steps_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"'\(a\)\\1\*b' is not run on a text of 5001 characters: it takes more than"):
        java_pattern(r"(a)\1*b").search("a" * 5000 + "!")


@pytest.mark.usefixtures("few_steps")
def test_the_same_step_ends_every_try() -> None:
    pattern = JavaPattern("(a*)*b", java_pattern("(a*)*b")._tree)
    counted = []
    for _ in range(2):
        with pytest.raises(ValueError, match="more than") as caught:
            pattern.search("a" * 3000)
        counted.append(str(caught.value))
    assert counted[0] == counted[1]


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(
    "call",
    [
        "str:regexp(s, t)",
        "regex:find(t, s)",
        "regex:matches(t, s)",
        "regex:lookingAt(t, s)",
        "regex:group(t, s, 0) == 'x'",
        "str:replaceAll(s, t, '') == 'x'",
        "str:replaceFirst(s, t, '') == 'x'",
        "str:split(s, t, 0) == 'x'",
        "str:substr(s, t) == 'x'",
    ],
)
def test_an_event_with_a_hostile_expression_costs_only_itself(call: str) -> None:
    app = LocalApp(
        check(parse(f"define stream S (s string, t string); from S select {call} as x insert into O;"), catalog())
    )
    seen: list[int] = []
    app.subscribe("O", lambda at, _row: seen.append(at))
    hostile = [("a" * 40 + "!", "(a+)+\\1b"), ("a" * 3000 + "!", r"(a)\1*b"), ("a", "(" * 2000), ("a", "[" * 2000)]
    hostile += [("a", "a{" + "9" * 5000 + "}"), ("a", "(?:a{1000}){1000}" * 9), ("a", "a" * 20_000)]
    for at, row in enumerate(hostile, 1):
        app.send("S", at, row)
    app.send("S", 100, ("ab", "b"))
    assert seen[-1] == 100


@pytest.mark.parametrize(
    ("regex", "says"),
    [("(" * 2000, "nested more than"), ("[" * 2000, "nested more than"), ("a" * 20_000, "more than 10000 characters")],
)
def test_an_expression_that_is_too_large_is_refused_with_the_app(regex: str, says: str) -> None:
    with pytest.raises(SiddhiAppError, match=says, check=coded(ErrorKind.UNSUPPORTED)) as caught:
        check(parse(f"define stream S (s string); from S[str:regexp(s, '{regex}')] insert into O;"), catalog())
    assert caught.value.span is not None
    assert len(str(caught.value)) < 700


def test_a_repetition_beyond_javas_is_wrong() -> None:
    for regex in ("a{" + "9" * 5000 + "}", "a{2147483648}"):
        with pytest.raises(JavaRegexError, match="illegal repetition"):
            java_pattern(regex)


def test_bounded_repetitions_that_are_too_many_cost_the_event_only() -> None:
    with pytest.raises(ValueError, match="repetitions are too many"):
        java_pattern("((a|aa){300}){300}b").search("a" * 40)
    with pytest.raises(RegexStepsError):
        _ = java_pattern("((a|aa){300}){300}b")._stepped


@pytest.mark.parametrize(
    ("regex", "native"),
    [
        ("[a-z]+-\\d*", True),
        ("(a|b)c+", True),
        (r"\(a+\)+", True),
        ("[)*]+a", True),
        ("(a+)+", False),
        ("(ab)*", False),
    ],
)
def test_java_runs_no_expression_whose_repetitions_multiply(regex: str, native: bool) -> None:
    app = f"define stream S (s string); from S[str:regexp(s, '{regex}')] select s insert into O;"
    assert explain(app).queries[0].native is native


def test_no_function_makes_a_text_without_bound() -> None:
    text = "define stream S (s string, n int); from S select str:repeat(s, n) as s insert into T;"
    doubled = "from T select str:concat(s, s) as s insert into U;"
    app = f"{text} {doubled} from U select str:length(s) as n insert into O;"
    rows = [(1, ("ab", 2)), (2, ("ab", 2_000_000_000)), (3, ("a" * 1000, 8000)), (4, ("x", 1))]
    assert run(app, {"S": rows})["O"] == [(1, (8,)), (4, (2,))]
    app = "define stream S (s string); from S select str:replaceAll(s, 'a', s) as s insert into O;"
    assert [at for at, _ in run(app, {"S": [(1, ("a" * 4000,)), (2, ("ab",))]})["O"]] == [2]


@pytest.mark.parametrize("constant", ["str:repeat('a', 2000000000)", "str:repeat(str:repeat('ab', 100000), 100000)"])
def test_a_text_without_bound_is_refused_where_constants_make_it(constant: str) -> None:
    with pytest.raises(SiddhiTypeError, match=f"longer than {MOST_CHARACTERS}") as caught:
        check(parse(f"define stream S (s string); from S select {constant} as x insert into O;"), catalog())
    assert caught.value.span is not None
