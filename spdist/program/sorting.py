"""Orders, as the text of programs calls them; compiled together with a program, as `spdist.program.kernels`."""

from __future__ import annotations

import numpy

from spdist.program.arithmetic import loop

__all__ = ["nulls_last", "real_place", "sort_places"]

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
def _is_less(starts, content, one, other):  # type: ignore[no-untyped-def]
    """Tell whether the text with one number comes before another one."""
    place, end = starts[one], starts[one + 1]
    place_2, end_2 = starts[other], starts[other + 1]
    while place < end and place_2 < end_2:
        if content[place] != content[place_2]:
            return content[place] < content[place_2]
        place += 1
        place_2 += 1
    return end - place < end_2 - place_2


@loop
def sort_places(places, spare, words, starts, content, begin, end, texts):  # type: ignore[no-untyped-def]
    """Sort places stably by a whole number for each; that is a text's number where `texts` is 1, or 2 for descending.

    Texts are in `content`, each from its place in `starts` on.
    """
    width = 1
    while width < end - begin:
        for low in range(begin, end, 2 * width):
            left, middle, high = low, min(low + width, end), min(low + 2 * width, end)
            right = middle
            for place in range(low, high):
                takes_left = right >= high
                if not takes_left and left < middle:
                    one, other = words[places[left]], words[places[right]]
                    if not texts:
                        takes_left = one <= other
                    elif texts == 1:
                        takes_left = not _is_less(starts, content, other, one)
                    else:
                        takes_left = not _is_less(starts, content, one, other)
                if takes_left:
                    spare[place] = places[left]
                    left += 1
                else:
                    spare[place] = places[right]
                    right += 1
        for place in range(begin, end):
            places[place] = spare[place]
        width *= 2


@loop
def nulls_last(places, spare, nulls, begin, end):  # type: ignore[no-untyped-def]
    """Put the places of what is null behind the others, which stay in their order."""
    kept, late = begin, 0
    for place in range(begin, end):
        if nulls[places[place]]:
            spare[late] = places[place]
            late += 1
        else:
            places[kept] = places[place]
            kept += 1
    for place in range(late):
        places[kept + place] = spare[place]
