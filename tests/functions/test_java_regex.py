"""Java's regular expressions in Python: what is translated, what Java refuses, and what cannot be run here."""

from __future__ import annotations

import pytest

from spdist.engine.local.app import LocalApp, run
from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError
from spdist.extension import catalog
from spdist.java.regex.character_sets import CharacterSet, property_set
from spdist.java.regex.matching import java_replaced, java_split
from spdist.java.regex.pattern import java_pattern
from spdist.java.regex.syntax import JavaRegexError, UntranslatableRegexError
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.error_codes import coded


@pytest.mark.parametrize(
    ("regex", "fits", "not_these"),
    [
        (r"\w+", ["a_1"], ["é", ""]),
        (r"(?U)\w+", ["aé"], ["-"]),
        (r"\d", ["7"], ["٣"]),
        (r"(?U)\d", ["٣"], ["a"]),
        (".", ["a", "\x0b"], ["\n", "\r", "\x85", "\u2028"]),
        ("(?s).", ["\n", "\u2028"], ["ab"]),
        ("(?d).", ["\r"], ["\n"]),
        ("a$.*", ["a"], ["ab"]),
        ("(?s)a$.*", ["a\n", "a\r\n", "a\x85"], ["a\nb"]),
        ("(?sm)a$.*", ["a\nb", "a\rb"], ["ab"]),
        (r"a\Z\n?", ["a\n"], ["a\n\n"]),
        (r"a\z\n?", ["a"], ["a\n"]),
        ("[a-z&&[^aeiou]]+", ["xyz"], ["a"]),
        ("[a-d&&b-z&&[^c]]", ["b", "d"], ["a", "c"]),
        ("[a[0-9]_]+", ["a0_"], ["b"]),
        ("[^a[bc]]", ["d"], ["a", "b"]),
        ("[]a]+", ["]a"], ["b"]),
        ("[&a&]+", ["&a"], ["b"]),
        (r"[\d\-x]+", ["1-x"], ["y"]),
        (r"\Q.*\E", [".*"], ["ab"]),
        (r"\Qab\E+", ["abb"], ["abab"]),
        (r"[\Q^]\E]+", ["^]"], ["a"]),
        ("(?i)straße", ["STRAße"], ["STRASSE", "straẞe"]),
        ("(?iu)é", ["É"], ["e"]),
        ("(?i)[^k]", ["a"], ["K", "k"]),
        ("(?i)(a)b\\1", ["aBA"], ["abc"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        (r"(?i)\p{Lu}", ["a", "é"], ["1"]),
        (r"(?x) a b # and so on", ["ab"], ["a b"]),
        (r"\p{Punct}", ["!", "~"], ["a", "€"]),
        (r"\p{L}\P{L}", ["é1"], ["1é"]),
        (r"[\p{L}&&[^\p{Lu}]]", ["a"], ["A"]),
        (r"\pL", ["a"], ["1"]),
        (r"\p{javaWhitespace}\h\v", [" \u3000\n"], ["\xa0\xa0\n"]),
        (r"a\R", ["a\r\n", "a\u2028"], ["a"]),
        (r"\x41\u0042\0103\x{44}\cA\e", ["ABCD\x01\x1b"], ["ABC"]),
        (r"\uD834\uDD1E\N{WHITE SMILING FACE}", ["𝄞☺"], ["𝄞"]),
        ("(?<name>a)\\k<name>", ["aa"], ["ab"]),
        ("(a)(b)?\\2?c", ["abbc", "ac"], ["aac"]),
        ("\\1(a)", [], ["a", "aa"]),
        ("(?<=a|bcd)x|.*", ["ax"], []),
        ("a?+a|b{2}c{1,}?", ["bbc"], ["a", "bc"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("}]", ["}]"], []),
        ("(?m)^b|[^b]\\n^b", ["b", "a\nb"], []),
    ],
)
def test_regular_expressions_mean_what_they_mean_in_java(regex: str, fits: list[str], not_these: list[str]) -> None:
    pattern = java_pattern(regex)
    assert [text for text in fits if pattern.fullmatch(text) is None] == []
    assert [text for text in not_these if pattern.fullmatch(text) is not None] == []


@pytest.mark.parametrize(
    "regex",
    [
        "[",
        "(",
        ")",
        "*a",
        "a**",
        "{1}",
        "a{",
        "a{,2}",
        "a{2,1}",
        "\\",
        "\\q",
        "\\k<n>",
        "(?P<n>a)",
        "(?#c)",
        "(?<1>a)",
        "(?<n>a)(?<n>b)",
        "[b-a]",
        "[a-\\d]",
        "[&&]",
        "\\x4",
        "\\x{110000}",
        "\\N{NOTHING SUCH}",
        "\\p{}",
        "\\08",
        "(?i",
        "\\p{L",
        "\\c",
        "\\kn",
        "(?<n",
        "\\N",
        "[a&&b",
    ],
)
def test_what_java_refuses_is_refused(regex: str) -> None:
    with pytest.raises(JavaRegexError, match="is no regular expression"):
        java_pattern(regex)


@pytest.mark.parametrize("regex", ["\\Ga", "\\X", "\\b{g}", "\\p{IsLatin}", "\\p{sc=Greek}", "(?<=a{1,3})b"])
def test_what_cannot_be_run_here_is_refused_by_name(regex: str) -> None:
    with pytest.raises(UntranslatableRegexError, match=r"not supported|cannot be run"):
        java_pattern(regex)


def test_empty_matches_move_on_as_in_java() -> None:
    assert java_replaced("ab", "x*", "-") == "-a-b-"
    assert java_replaced("aab", "a*?", "-") == "-a-a-b-"
    assert java_replaced("baac", "a*", "-") == "-b--c-"


def test_replacements_name_groups() -> None:
    assert java_replaced("ab", "(a)(?<n>b)?", "$2${n}$1$0\\$") == "bbaab$"
    assert java_replaced("a", "(a)(x)?", "[$2$12]") == "[a2]"
    assert java_replaced("aaa", "a", "b", count=2) == "bba"
    for wrong in ("$3", "$x", "${m}", "$", "a\\"):
        assert java_replaced("xyz", "(a)(b)", wrong) == "xyz"
        with pytest.raises(ValueError, match="the replacement"):
            java_replaced("ab", "(a)(b)", wrong)


@pytest.mark.parametrize(
    ("text", "regex", "parts"),
    [
        ("a,b,,c,,", ",", ["a", "b", "", "c"]),
        (",a", ",", ["", "a"]),
        ("", ",", [""]),
        (",", ",", []),
        ("abc", "", ["a", "b", "c"]),
        ("abc", "(?=b)", ["a", "bc"]),
        ("abc", "x", ["abc"]),
    ],
)
def test_texts_are_split_as_in_java(text: str, regex: str, parts: list[str]) -> None:
    assert java_split(text, regex) == parts


def test_sets_of_characters() -> None:
    letters = CharacterSet.of("a", (ord("b"), ord("d")))
    assert letters.ranges == ((97, 100),)
    assert letters.negated().negated() == letters
    assert letters.common(CharacterSet.of("dz")).ranges == ((100, 100),)
    assert letters.in_any_case(unicode=False).source == "[A-Da-d]"
    assert CharacterSet(()).source == "(?!)"
    assert CharacterSet(()).negated().source == r"[\s\S]"
    assert property_set("IsGreek") is None
    assert property_set("gc=Lu") == property_set("Lu") == property_set("IsLu")


STREAM = "define stream S (s string, t string);"


@pytest.mark.parametrize(
    "call", ["str:regexp(s, '[')", "regex:find('[', s)", "str:substr(s, '[')", "regex:group('[', s, 1)"]
)
def test_a_wrong_constant_is_refused_with_the_app(call: str) -> None:
    with pytest.raises(SiddhiTypeError, match="unclosed class of characters") as caught:
        check(parse(f"{STREAM} from S select {call} as x insert into Out;"), catalog())
    assert caught.value.span is not None


def test_a_wrong_constant_that_siddhi_reads_late_fails_with_the_event() -> None:
    app = f"{STREAM} from S[s != 'x'] select str:replaceAll(s, '[', '') as x insert into Out;"
    assert run(app, {"S": [(1, ("a", "b"))]}).get("Out", []) == []


def test_what_cannot_be_run_is_refused_with_the_app() -> None:
    with pytest.raises(SiddhiAppError, match=r"uses '\\X'", check=coded(ErrorKind.UNSUPPORTED)):
        check(parse(f"{STREAM} from S select regex:find('\\X', s) as x insert into Out;"), catalog())
    with pytest.raises(SiddhiAppError, match="unclosed"):
        check(parse(f"{STREAM} from S#str:tokenize(s, '(') select token insert into Out;"), catalog())


def test_a_changing_expression_fails_with_the_event_only() -> None:
    app = LocalApp(check(parse(f"{STREAM} from S select regex:matches(t, s) as x insert into Out;"), catalog()))
    seen: list[bool] = []
    app.subscribe("Out", lambda _ts, row: seen.append(row[0]))
    for time, regex in enumerate(["a+", "(", None, "b"]):
        app.send("S", time, ("aa", regex))
    assert seen == [True, False]
