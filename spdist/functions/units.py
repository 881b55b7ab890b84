"""The ``unitconversion:`` functions of siddhi-execution-unitconversion: lengths, masses, times and volumes.

Each is named ``FROMToTO`` after its units, takes any number and gives a double; null costs the event, as in Siddhi.

Notes
-----
Source: io.siddhi.extension.execution.unitconversion (length, mass, time, volume); its sizes of units are kept, also
where they are rounded (ounce, pound, stone, tons) or odd (a year of 365.2525 days).
"""

from __future__ import annotations

from fractions import Fraction

from spdist.extension import NUMERIC, function, signature
from spdist.language.types import Type

__all__: list[str] = []

#: How large units are, of one kind for one table: in metres, kilograms, seconds and cubic metres.
_LENGTHS = {
    "nm": Fraction(1, 10**9),
    "um": Fraction(1, 10**6),
    "mm": Fraction(1, 1000),
    "cm": Fraction(1, 100),
    "m": Fraction(1),
    "km": Fraction(1000),
    "Mm": Fraction(10**6),
    "in": Fraction("0.0254"),
    "ft": Fraction("0.3048"),
    "yd": Fraction("0.9144"),
    "mi": Fraction("1609.344"),
}
_MASSES = {
    "ug": Fraction(1, 10**9),
    "mg": Fraction(1, 10**6),
    "g": Fraction(1, 1000),
    "kg": Fraction(1),
    "t": Fraction(1000),
    "oz": Fraction("0.02834952"),
    "lb": Fraction("0.4535924"),
    "st": 1 / Fraction("0.157473"),
    "LT": 1 / Fraction("0.000984207"),
    "ST": 1 / Fraction("0.00110231"),
}
_TIMES = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
    "y": Fraction("365.2525") * 86400,
}
_VOLUMES = {"ml": Fraction(1, 10**6), "l": Fraction(1, 1000), "m3": Fraction(1)}

# Each unit with those that Siddhi converts it to.
_CONVERSIONS = (
    (_LENGTHS, {"cm": "ft in km m um mi mm nm yd", "km": "cm ft in m um mi mm nm yd", "Mm": "km"}),
    (_LENGTHS, {"m": "cm ft mm yd", "mi": "km"}),
    (_MASSES, {"g": "kg ug mg", "kg": "g LT oz lb st t ST", "t": "g kg"}),
    (_TIMES, {"d": "h", "h": "m s", "m": "s", "s": "us ms ns", "y": "d"}),
    (_VOLUMES, {"m3": "l", "l": "m3 ml", "ml": "l"}),
)

# Siddhi declares these for int and double only.
_NARROW = {"t": frozenset({Type.INT, Type.DOUBLE})}


def _conversion(id: str, factor: float, takes: frozenset[Type]) -> None:
    @function(id, signature(id, ((takes,), Type.DOUBLE)), typed=f"{{0}} * {factor!r}", refuses_null=True)
    def converted(value: float | None) -> float:
        if value is None:
            raise ValueError(f"'{id}' takes no null")
        return value * factor


for _sizes, _targets in _CONVERSIONS:
    for _from, _names in _targets.items():
        for _to in _names.split():
            # Sizes are fractions, so a factor is rounded only once.
            _conversion(
                f"unitconversion:{_from}To{_to}", float(_sizes[_from] / _sizes[_to]), _NARROW.get(_from, NUMERIC)
            )
