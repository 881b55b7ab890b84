"""SiddhiQL expressions as Python source, with Siddhi's rules for null, widths and rounding.

Null rules: arithmetic with null is null; a comparison with null is false, except ``!=``, which is true; ``and``,
``or``, ``not`` take null as false; a function that returns bool gives false for null; division and remainder by zero
are null. Numbers: ``int`` and ``long`` wrap, ``float`` is rounded to 32 bits after each operation, an ``int`` meets a
``float`` as a float (also in comparisons; a ``long`` only where order is asked), a ``long`` a ``double`` as a double.

Source: io.siddhi.core.executor (condition, math, function), verified on the engine; see the cases in tests/cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from spdist.errors import ErrorKind, SiddhiAppError, Span
from spdist.extension import find
from spdist.functions.forms import Code, Null
from spdist.java import numbers
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.scope import Scope
from spdist.language.scripts import Script
from spdist.language.types import Type, promote
from spdist.operators.expressions.codegen import Bindings, Frame
from spdist.operators.expressions.scripts import script_function

__all__ = ["WRITERS", "Aggregates", "ExpressionWriter", "Reader", "unsupported"]

_ZERO = (Null("True", "False"),)
_WRAPS = {
    Type.INT: (numbers.INT_MIN, numbers.INT_MAX, numbers.wrap32),
    Type.LONG: (numbers.LONG_MIN, numbers.LONG_MAX, numbers.wrap64),
}
_COERCIONS = {
    Type.INT: numbers.as_int,
    Type.LONG: numbers.as_long,
    Type.FLOAT: numbers.as_float,
    Type.DOUBLE: numbers.as_double,
}
_CERTAIN = {
    Type.INT: numbers.sure_int,
    Type.LONG: numbers.sure_long,
    Type.FLOAT: numbers.sure_real,
    Type.DOUBLE: numbers.sure_real,
}
#: Functions whose first argument decides which of the others is computed.
_CHOOSING = ("ifThenElse",)
#: Functions that never fail by themselves.
_SAFE = frozenset({"cast", "coalesce", "convert", "default", "ifThenElse", "maximum", "minimum"})
_SAFE |= {"currentTimeMillis", "eventTimestamp", "UUID"}
_SAFE |= {f"instanceOf{name}" for name in ("Boolean", "Double", "Float", "Integer", "Long", "String")}
_ORDERS = ("<", "<=", ">", ">=")
_REALS = (Type.FLOAT, Type.DOUBLE)


def unsupported(what: str, span: Span | None, hint: str | None = None) -> SiddhiAppError:
    """Return the error for SiddhiQL that is understood but not run."""
    return SiddhiAppError(f"{what} is not supported yet", span=span, hint=hint, code=ErrorKind.UNSUPPORTED)


class Reader(Protocol):
    """How generated code gets at the attributes an expression may name; `catalog` knows the functions of the app."""

    scope: Scope
    catalog: Catalog

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute."""
        ...

    def bare(self, variable: ast.Variable) -> str:
        """Return source of an attribute that is only passed on, so that no variable need be made for it."""
        ...

    def everything(self) -> str:
        """Return source of the row of ``select *``."""
        ...

    def missing(self, node: ast.IsNullEvent) -> str:
        """Return source that is true where a pattern's element has no event."""
        ...

    def timestamp(self) -> str:
        """Return source of the event's timestamp."""
        ...

    def event_time(self, node: ast.EventTime) -> str:
        """Return source of the time of the event of one source; it fails where that has none."""
        ...

    def type_of(self, call: ast.FunctionCall) -> Type:
        """Return the static type of a call."""
        ...


class Aggregates(Protocol):
    """Where aggregators are computed; see `spdist.operators.selection.selector`."""

    def knows(self, call: ast.FunctionCall) -> bool:
        """Tell whether a call is an aggregator."""
        ...

    def value(self, call: ast.FunctionCall, lazy: bool) -> Code:
        """Return the code of an aggregator's value; `lazy` where it is computed only if a condition asks for it."""
        ...


class ExpressionWriter:
    """Writes the expressions of one generated function.

    Parameters
    ----------
    reader : Reader
        Where attributes are.
    frame : Frame
        The function's local variables.
    bindings : Bindings
        The code's globals.
    aggregates : Aggregates, optional
        Where aggregators are allowed.
    """

    def __init__(self, reader: Reader, frame: Frame, bindings: Bindings, aggregates: Aggregates | None = None) -> None:
        self.reader = reader
        self.frame = frame
        self.bindings = bindings
        self.aggregates = aggregates
        self._lazy = 0
        self._place = 0

    # What functions with a form of their own ask for (`spdist.functions.forms.Site`).

    def bind(self, value: Any, hint: str) -> str:
        """Return a name for `value` in generated code."""
        return self.bindings.bind(value, hint)

    def temporary(self) -> str:
        """Return a fresh name for use with ``:=``."""
        return self.frame.temporary()

    def timestamp(self) -> str:
        """Return source of the event's timestamp."""
        return self.reader.timestamp()

    def clock(self) -> str:
        """Return source of the app's clock."""
        return "clock"

    def place(self) -> int:
        """Return where the call that is being written stands in the app's text."""
        return self._place

    def write(self, expression: ast.Expression) -> Code:
        """Return the code of `expression`."""
        write = WRITERS.get(type(expression))
        if write is None:
            raise unsupported(f"'{type(expression).__name__}' in an expression", expression.span)
        return write(self, expression)

    def condition(self, expression: ast.Expression) -> str:
        """Return source of a bool that is true where the condition holds, and false where it does not or is null."""
        return self._truth(self.write(expression))

    def certain(self, code: Code) -> Code:
        """Return a number that is surely of its static type; a cast may have named a type that the value is not of."""
        certain = None if code.exact else _CERTAIN.get(code.type)
        if code.foreign is not None:
            certain = partial(numbers.refuse_cast, str(code.type), str(code.foreign))
            return self._converted(code, self.bind(certain, "refuse_cast"))
        return code if certain is None else self._converted(code, self.bind(certain, certain.__name__))

    def _truth(self, code: Code) -> str:
        if not code.exact:
            return f"{self.bind(numbers.sure_bool, 'sure_bool')}({code.text})"
        return f"({code.text} is True)" if code.nullable else code.text

    # Leaves.

    def _literal(self, node: ast.Literal) -> Code:
        value = node.value
        if node.type in _REALS:
            value = numbers.float32(float(value)) if node.type is Type.FLOAT else float(value)
        return self._constant(value, node.type)

    def _constant(self, value: Any, type: Type) -> Code:
        return Code(self.bindings.constant(value), type, nullable=False, atom=True, literal=value)

    def _time(self, node: ast.TimeLiteral) -> Code:
        return self._constant(node.milliseconds, Type.LONG)

    def _variable(self, node: ast.Variable) -> Code:
        return self.reader.variable(node)

    # Logic.

    def _not(self, node: ast.Not) -> Code:
        code = self.write(node.operand)
        if code.nullable and code.exact:
            return Code(f"({code.text} is not True)", Type.BOOL, nullable=False, fallible=code.fallible)
        return Code(f"(not {self._truth(code)})", Type.BOOL, nullable=False, fallible=code.fallible or not code.exact)

    def _logic(self, node: ast.Binary) -> Code:
        left = self.write(node.left)
        # The right side is computed only where the left one leaves it open, and so are aggregators in it.
        self._lazy += 1
        right = self.write(node.right)
        self._lazy -= 1
        fallible = any(c.fallible or not c.exact for c in (left, right))
        text = f"({self._truth(left)} {node.op} {self._truth(right)})"
        return Code(text, Type.BOOL, nullable=False, fallible=fallible)

    def _is_null(self, node: ast.IsNull) -> Code:
        code = self.write(node.operand)
        text = f"({code.text} is None)"
        if code.fallible:
            pass  # all of it is computed, since it may fail
        elif code.nulls:
            text = f"({' or '.join(n.test for n in code.nulls)})"
        elif not code.nullable:
            text = "False"
        return Code(text, Type.BOOL, nullable=False)

    def _is_null_event(self, node: ast.IsNullEvent) -> Code:
        return Code(self.reader.missing(node), Type.BOOL, nullable=False)

    def _event_time(self, node: ast.EventTime) -> Code:
        return Code(self.reader.event_time(node), Type.LONG, nullable=False, fallible=True)

    # Operators.

    def _binary(self, node: ast.Binary) -> Code:
        if node.op in ("and", "or"):
            return self._logic(node)
        left, right = self.write(node.left), self.write(node.right)
        if node.op in ("==", "!=", *_ORDERS):
            return self._comparison(node.op, left, right)
        return self._arithmetic(node.op, left, right)

    def _strict(self, code: Code) -> tuple[tuple[Null, ...], str]:
        """Return the conditions under which `code` is null, and source of its value where none of them holds."""
        if code.nulls:
            return code.nulls, code.value
        if not code.nullable:
            return (), code.value
        if code.atom:
            return (Null(f"{code.value} is None", f"{code.value} is not None"),), code.value
        name = self.temporary()
        taken = f"({name} := {code.value})"
        return (Null(f"{taken} is None", f"{taken} is not None"),), name

    def _forced(self, left: Code, right: Code, divides: bool = False) -> tuple[tuple[Null, ...], Code, Code]:
        """Return two operands of which each is computed although the other may be null: it may fail, as in Siddhi."""
        forced: list[str] = []

        def sure(code: Code, other_nulls: bool) -> Code:
            if not (code.fallible and other_nulls):
                return code
            name = self.temporary()
            forced.append(f"(({name} := {code.text}) is None)")
            return replace(code, value=name, atom=True, nulls=())

        left, right = sure(left, right.nullable or divides), sure(right, left.nullable)
        # `|` and not `or`: each operand is computed whatever the others give.
        tests = " | ".join(forced)
        return ((Null(f"({tests})", f"not ({tests})"),) if forced else ()), left, right

    def _comparison(self, op: str, left: Code, right: Code) -> Code:
        fallible = any(c.fallible or not c.exact for c in (left, right))
        left, right = _aligned(self, op, left, right)
        forced, left, right = self._forced(left, right)
        left_nulls, left_value = self._strict(left)
        right_nulls, right_value = self._strict(right)
        nulls = _distinct(left_nulls + right_nulls)
        test = f"{left_value} {op} {right_value}"
        if op in ("==", "!=") and not fallible:
            # None equals nothing but None, so one side that cannot be null, or was checked, settles it.
            if left.atom and left.nullable and (right_nulls or not right.nullable):
                nulls = right_nulls
            elif right.atom and right.nullable and (left_nulls or not left.nullable):
                nulls = left_nulls
        nulls = forced + nulls
        if op == "!=":
            text = " or ".join([*(n.test for n in nulls), test])
        else:
            text = " and ".join([*(n.negated for n in nulls), test])
        return Code(f"({text})", Type.BOOL, nullable=False, fallible=fallible)

    def _arithmetic(self, op: str, left: Code, right: Code) -> Code:
        type = _result_type(left.type, right.type)
        fallible = any(c.fallible or not c.exact or not c.type.numeric for c in (left, right))
        forced, left, right = self._forced(left, right, divides=op in ("/", "%"))
        left_nulls, left_value = self._strict(self._operand(left, type))
        right_nulls, right_value = self._strict(self._operand(right, type))
        nulls = forced + left_nulls + right_nulls
        if {left.type, right.type} & {Type.STRING, Type.BOOL}:
            value = f"{self.bind(numbers.no_number, 'no_number')}({left_value}, {right_value})"
        elif op in ("/", "%"):
            zero, left_value, right_value = self._divisor(left_value, right_value, right)
            nulls += zero
            value = self._quotient(op, type, left_value, right_value, right)
        else:
            value = self._rounded(f"({left_value} {op} {right_value})", type)
        return Code(value, type, bool(nulls), nulls=_distinct(nulls), fallible=fallible)

    def _operand(self, code: Code, type: Type) -> Code:
        """Return `code` as an operand of arithmetic in `type`."""
        if not code.exact or code.type is Type.OBJECT:
            return self._converted(code, self.bind(_COERCIONS[type], f"as_{type}"))
        if type is Type.FLOAT and code.type in (Type.INT, Type.LONG):
            return self._float_of(code)
        if type is Type.DOUBLE and code.literal is not None and code.type is not Type.DOUBLE:
            return self._constant(float(code.literal), Type.DOUBLE) if _is_number(code.literal) else code
        return code

    def _float_of(self, code: Code) -> Code:
        if code.literal is not None:
            return self._constant(numbers.long_to_float32(code.literal), Type.FLOAT)
        convert = numbers.float32 if code.type is Type.INT else numbers.long_to_float32
        return self._converted(code, self.bind(convert, convert.__name__))

    def _converted(self, code: Code, function: str) -> Code:
        nulls, value = self._strict(code)
        return Code(f"{function}({value})", code.type, bool(nulls), nulls=nulls, fallible=code.fallible)

    def _divisor(self, left: str, right: str, code: Code) -> tuple[tuple[Null, ...], str, str]:
        if code.literal is not None and _is_number(code.literal):
            return (_ZERO if code.literal == 0 else ()), left, right
        if code.atom:
            return (Null(f"{right} == 0", f"{right} != 0"),), left, right
        name = self.temporary()
        return (Null(f"({name} := {right}) == 0", f"({name} := {right}) != 0"),), left, name

    def _quotient(self, op: str, type: Type, left: str, right: str, divisor: Code) -> str:
        if type in _REALS:
            value = f"({left} / {right})"
            if op == "%":
                value = f"{self.bind(numbers.remainder_reals, 'remainder_reals')}({left}, {right})"
            return f"{self.bind(numbers.float32, 'float32')}({value})" if type is Type.FLOAT else value
        whole = numbers.divide_integers if op == "/" else numbers.remainder_integers
        value = f"{self.bind(whole, whole.__name__)}({left}, {right})"
        # Only the least number divided by -1 leaves the range.
        positive = _is_number(divisor.literal) and divisor.literal > 0
        return value if op == "%" or positive else self._rounded(value, type)

    def _rounded(self, value: str, type: Type) -> str:
        if type is Type.FLOAT:
            return f"{self.bind(numbers.float32, 'float32')}{value}"
        if type not in _WRAPS:
            return value
        low, high, wrap = _WRAPS[type]
        name = self.temporary()
        # In range, as nearly always, there is no call.
        return f"({name} if {low} <= ({name} := {value}) <= {high} else {self.bind(wrap, wrap.__name__)}({name}))"

    # Calls.

    def _call(self, node: ast.FunctionCall) -> Code:
        script = self.reader.catalog.functions.get(node.id)
        if isinstance(script, Script):
            return self._script_call(node, script)
        if self.aggregates is not None and self.aggregates.knows(node):
            return self.aggregates.value(node, self._lazy > 0)
        extension = find("function", node.id)
        arguments = self._arguments(node)
        if extension.inline:
            self._place = node.span.start if node.span is not None else 0
            code: Code = extension.implementation(self, arguments)
        else:
            name = self.bind(extension.implementation, node.name)
            code = Code(f"{name}({', '.join(a.text for a in arguments)})", self.reader.type_of(node))
        fallible = node.id not in _SAFE or any(argument.fallible for argument in arguments)
        if code.type is Type.BOOL and (code.nullable or not code.exact):
            return Code(self._truth(code), Type.BOOL, nullable=False, fallible=fallible or not code.exact)
        return replace(code, fallible=True) if fallible else code

    def _script_call(self, node: ast.FunctionCall, script: Script) -> Code:
        data = ", ".join(argument.text for argument in self._arguments(node))
        code = Code(f"{self.bind(script_function(script), script.name)}([{data}])", script.returns, fallible=True)
        if script.returns is Type.BOOL:
            return Code(self._truth(code), Type.BOOL, nullable=False, fallible=True)
        return code

    def _arguments(self, node: ast.FunctionCall) -> tuple[Code, ...]:
        arguments: list[Code] = []
        for position, argument in enumerate(node.args):
            lazy = position > 0 and node.id in _CHOOSING
            self._lazy += lazy
            arguments.append(self.write(argument))
            self._lazy -= lazy
        return tuple(arguments)


#: What writes each kind of node; `membership`, which writes expressions itself, adds ``in`` (`readers` imports it).
WRITERS: dict[type, Callable[[ExpressionWriter, Any], Code]] = {
    ast.Literal: ExpressionWriter._literal,
    ast.TimeLiteral: ExpressionWriter._time,
    ast.Variable: ExpressionWriter._variable,
    ast.Not: ExpressionWriter._not,
    ast.IsNull: ExpressionWriter._is_null,
    ast.IsNullEvent: ExpressionWriter._is_null_event,
    ast.EventTime: ExpressionWriter._event_time,
    ast.Binary: ExpressionWriter._binary,
    ast.FunctionCall: ExpressionWriter._call,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _distinct(nulls: tuple[Null, ...]) -> tuple[Null, ...]:
    return tuple(dict.fromkeys(nulls))


def _result_type(left: Type, right: Type) -> Type:
    """Return the type of arithmetic; what is no number counts as the other side, or as int, as in Siddhi's compiler."""
    known = promote(left, right)
    if known is not None:
        return known
    return next((t for t in (left, right) if t.numeric), Type.INT)


def _aligned(writer: ExpressionWriter, op: str, left: Code, right: Code) -> tuple[Code, Code]:
    """Return both sides of a comparison as Java compares them: with the int or long widened to the other's type."""
    left, right = writer.certain(left), writer.certain(right)
    pair = {left.type, right.type}
    if pair == {Type.INT, Type.FLOAT} or (pair == {Type.LONG, Type.FLOAT} and op in _ORDERS):
        widened = writer._float_of
    elif pair in ({Type.LONG, Type.FLOAT}, {Type.LONG, Type.DOUBLE}):

        def widened(code: Code) -> Code:
            if code.literal is not None:
                return writer._constant(float(code.literal), Type.DOUBLE)
            return writer._converted(code, "float")
    else:
        return left, right
    left, right = (widened(c) if c.type in (Type.INT, Type.LONG) else c for c in (left, right))
    return left, right
