"""Orders, as the text of programs calls them; compiled together with a program, as `spdist.program.kernels`."""

from __future__ import annotations

import numpy

from spdist.program.arithmetic import loop

__all__ = ["real_place", "sort_places"]

_MOST = 2**63 - 1
_NAN = 0x7FF8000000000000


@loop
def real_place(value):  # type: ignore[no-untyped-def]
    """Return a whole number for a real: NaN is behind all, and 0.0 behind -0.0."""
    if value != value:
        return numpy.int64(_NAN)
    bits = numpy.float64(value).view(numpy.int64)
    return bits if bits >= 0 else bits ^ numpy.int64(_MOST)


@loop
def _is_less(values, nulls, starts, content, left, right, texts, descending):  # type: ignore[no-untyped-def]
    """Tell whether one value comes before another: nulls last either way, NaN as the greatest number."""
    if nulls[left] or nulls[right]:
        return nulls[left] < nulls[right]
    if descending:
        left, right = right, left
    if not texts:
        return values[left] < values[right] or (values[right] != values[right] and values[left] == values[left])
    one, other = numpy.int64(values[left]), numpy.int64(values[right])
    place, end = starts[one], starts[one + 1]
    place_2, end_2 = starts[other], starts[other + 1]
    while place < end and place_2 < end_2:
        if content[place] != content[place_2]:
            return content[place] < content[place_2]
        place += 1
        place_2 += 1
    return end - place < end_2 - place_2


@loop
def sort_places(places, spare, values, nulls, starts, content, begin, end, texts, descending):  # type: ignore[no-untyped-def]  # noqa: PLR0913
    """Sort the places of values stably; texts are numbers of bytes in `content`, from `starts` on."""
    width = 1
    while width < end - begin:
        for low in range(begin, end, 2 * width):
            left, middle, high = low, min(low + width, end), min(low + 2 * width, end)
            right = middle
            for place in range(low, high):
                if right >= high or (
                    left < middle
                    and not _is_less(values, nulls, starts, content, places[right], places[left], texts, descending)
                ):
                    spare[place] = places[left]
                    left += 1
                else:
                    spare[place] = places[right]
                    right += 1
        for place in range(begin, end):
            places[place] = spare[place]
        width *= 2
