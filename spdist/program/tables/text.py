"""A table of a program: its rows as nodes of a pool, in the order of their insertion, and indexes over them.

Each attribute is a column of all nodes. An index has a number for each key, and of each number the rows that have the
key, in the order of the table; a row with a null in the key is in none, but where a primary key may be null. The
meaning is that of `spdist.operators.tables.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spdist.language.types import Type
from spdist.program.expressions import FLAG, NUMBER, NotTyped, Value, dtype_of, either
from spdist.program.hash_text import behind, hashed, hashed_text
from spdist.program.key_text import finds, key_word, seeks
from spdist.program.parts import Whole, indent
from spdist.program.tables.shape import LoopTable, RowSearch

__all__ = ["COUNT", "META", "MOST", "NEXT", "REFUSED", "TableIndex", "TableText", "indexes_of"]

#: Places of what is known of a table as a whole: how many rows there are, how many there were before some were deleted
#: where those were more, the number of the next row, and how many were refused.
COUNT, MOST, NEXT, REFUSED = range(4)
META = 4


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An index.

    Parameters
    ----------
    name : str
        The prefix of its arrays.
    attributes : tuple of int
        The positions of what is the key.
    unique : bool
        Whether it is the primary key.
    nulls : bool
        Whether the key may be null; then the last word says which parts are.
    """

    name: str
    attributes: tuple[int, ...]
    unique: bool
    nulls: bool

    @property
    def width(self) -> int:
        """How many words a key has."""
        return len(self.attributes) + self.nulls

    def words(self, values: Sequence[Value]) -> list[str]:
        """Return source of the words of a key."""
        if not self.nulls:
            return [key_word(value) for value in values]
        bits = [f"({1 << bit} if {value.null} else 0)" for bit, value in enumerate(values) if value.null]
        words = [f"(0 if {one.null} else {key_word(one)})" if one.null else key_word(one) for one in values]
        return [*words, " + ".join(bits) or "0"]

    def without(self, values: Sequence[Value]) -> str:
        """Return the condition under which a key is in no index; empty where it always is in one."""
        return "" if self.nulls else either(*(value.null for value in values))


def indexes_of(table: LoopTable) -> list[TableIndex]:
    """Return the indexes of a table, that of its primary key first."""
    found = []
    for number, attributes in enumerate(table.indexes):
        unique = bool(table.key) and number == 0
        found.append(TableIndex(f"{table.name}_x{number}", attributes, unique, unique and table.null_keys))
    return found


class TableText:
    """Writes what is done to the rows of a table.

    Parameters
    ----------
    whole : Whole
        The text.
    table : LoopTable
        The table.
    """

    def __init__(self, whole: Whole, table: LoopTable) -> None:
        self.table = table
        self.indexes = indexes_of(table)
        #: What there must be a place for with each row that comes.
        self.room = f"rows {table.name}"
        self._whole = whole
        self._arrays = whole.arrays
        self._name = whole.name
        self._prefix = table.name
        self._declare()

    def _declare(self) -> None:
        arrays, prefix = self._arrays, self._prefix
        arrays.free_list(f"{prefix}_free")
        arrays.declare(f"{prefix}_info", NUMBER, str(META))
        for end in ("first", "last"):
            arrays.declare(f"{prefix}_{end}", NUMBER, "1", "-1")
        for link in ("before", "after"):
            arrays.declare(f"{prefix}_{link}", NUMBER, self.room, "-1")
        arrays.declare(f"{prefix}_number", NUMBER, self.room)
        for place, type in enumerate(self.table.schema.types):
            arrays.declare(f"{prefix}_{place}", dtype_of(type), self.room)
            arrays.declare(f"{prefix}_{place}_n", FLAG, self.room)
        for index in self.indexes:
            arrays.table(index.name, index.width, self.room)
            arrays.declare(f"{index.name}_of", NUMBER, self.room, "-1")
            arrays.declare(f"{index.name}_first", NUMBER, self.room, "-1")
            for part in () if index.unique else ("last", "previous", "next"):
                arrays.declare(f"{index.name}_{part}", NUMBER, self.room, "-1")

    def value(self, place: int, row: str) -> Value:
        """Return the value of an attribute of a row, given source of its node."""
        name = f"{self._prefix}_{place}"
        return Value(f"{name}[{row}]", f"{name}_n[{row}] != 0", self.table.schema.types[place])

    def stores(self, row: str, values: Iterable[tuple[int, Value]]) -> list[str]:
        """Return what writes values of attributes into a row."""
        lines = []
        for place, value in values:
            name = f"{self._prefix}_{place}"
            lines += [f"{name}[{row}] = {value.text}", f"{name}_n[{row}] = {value.null or 'False'}"]
        return lines

    # Looking for rows.

    def every(self, row: str, body: list[str], goes_on: str = "") -> list[str]:
        """Return what is done with each row, which may be deleted by that; for `goes_on` see `found`."""
        return self._chain(f"{self._prefix}_first[0]", f"{self._prefix}_after", row, body, goes_on)

    def found(
        self, index: tuple[int, ...], keys: Sequence[Value], nulls: bool, row: str, body: list[str], goes_on: str = ""
    ) -> list[str]:
        """Return what is done with each row that has a key, which may be deleted or changed by that.

        Parameters
        ----------
        index : tuple of int
            The attributes of the key.
        keys : sequence of Value
            Their values.
        nulls : bool
            Whether null finds null.
        row : str
            The name of the row's node.
        body : list of str
            What is done.
        goes_on : str
            The condition under which further rows are looked at; empty where all are.
        """
        own = next(one for one in self.indexes if one.attributes == index)
        number, chain = self._name(), f"{own.name}_next"
        seek = seeks(self._arrays, own.name, self.room, own.words(keys), number)
        without = "" if nulls else either(*(value.null for value in keys))
        if without:
            seek = [f"{number} = -1", f"if not ({without}):", *indent(seek)]
        if own.unique:
            return [*seek, f"if {number} >= 0:", f"    {row} = {own.name}_first[{number}]", *indent(body)]
        first = f"({own.name}_first[{number}] if {number} >= 0 else -1)"
        return [*seek, *self._chain(first, chain, row, body, goes_on)]

    def gathered(
        self, search: RowSearch, keys: Sequence[Value], row: str, test: Callable[[list[str]], list[str]], count: str
    ) -> list[str]:
        """Return what writes the rows that meet a condition, in the order of the table, into the array `rows`.

        Parameters
        ----------
        search : RowSearch
            How they are found.
        keys : sequence of Value
            The values that are looked up.
        row : str
            The name of a row's node while it is tested.
        test : callable
            From what is done with a row to that done where the row meets what is left of the condition.
        count : str
            The name of how many there are.
        """
        body = test([f"{self.rows}[{count}] = {row}", f"{count} += 1"])
        index, nulls = search.index, search.nulls
        looks = self.found(index, keys, nulls, row, body) if index else self.every(row, body)
        key = self.table.key
        # By the whole primary key there is one row at most
        sorts = self._sorts(row, count) if key and search.index != key else []
        return [f"{count} = 0", *looks, *sorts]

    @property
    def rows(self) -> str:
        """The array of the rows that were gathered last."""
        return self._arrays.declare(f"{self._prefix}_rows", NUMBER, self.room)

    def _sorts(self, row: str, count: str) -> list[str]:
        """Return what brings rows that were gathered in the order of their insertion into that of their key."""
        arrays, prefix, place = self._arrays, self._prefix, self._name()
        spare, ranks = (arrays.declare(f"{prefix}_{name}", NUMBER, self.room) for name in ("spare", "rank"))
        arrays.declare("text_starts", NUMBER, "1")
        arrays.declare("text_bytes", FLAG, "1")
        before, each, rank = key_rank(self._whole, self.table, [self.value(one, row) for one in self.table.key])
        # The greatest number of rows is noted only when one is deleted, so there may be more now
        begun = [line.format(most=f"max({prefix}_info[{MOST}], {prefix}_info[{COUNT}])") for line in before]
        return [
            f"if {count} > 1:",
            *indent(begun),
            f"    for {place} in range({count}):",
            f"        {row} = {self.rows}[{place}]",
            *indent(indent(each)),
            f"        {ranks}[{row}] = {rank}",
            f"    sort_places({self.rows}, {spare}, {ranks}, text_starts, text_bytes, 0, {count}, 0)",
        ]

    def _chain(self, first: str, chain: str, row: str, body: list[str], goes_on: str) -> list[str]:
        following = self._name()
        # The next row is known first: what is done with this one may write its links
        head = [f"{row} = {following}", f"{following} = {chain}[{row}]"]
        test = f"{following} >= 0 and {goes_on}" if goes_on else f"{following} >= 0"
        return [f"{following} = {first}", f"while {test}:", *indent([*head, *body])]

    # Changing rows.

    def makes(self, row: str, values: Iterable[tuple[int, Value]]) -> list[str]:
        """Return what makes a row of these values that is not in the table yet."""
        prefix = self._prefix
        return [f"{row} = allot({prefix}_free, {prefix}_after)", *self.stores(row, values)]

    def inserts(self, row: str) -> list[str]:
        """Return what puts a row into the table, or refuses it where its primary key is taken."""
        prefix = self._prefix
        # The primary key first: a row that it refuses must be in no other index
        own = self.indexes[0] if self.table.key else None
        others = [line for index in self.indexes if index is not own for line in self._enters(index, row)]
        lines = [
            f"append({prefix}_first, {prefix}_last, {prefix}_before, {prefix}_after, 0, {row})",
            *self._numbered(row),
            f"{prefix}_info[{COUNT}] += 1",
            *others,
        ]
        if own is None:
            return lines
        number = self._name()
        return [
            *self._number_of(own, row, number),
            f"if {own.name}_first[{number}] >= 0:",
            f"    {prefix}_info[{REFUSED}] += 1",
            f"    give_back({prefix}_free, {prefix}_after, {row})",
            "else:",
            *indent([*self._takes(own, row, number), *lines]),
        ]

    def _key(self, index: TableIndex, row: str) -> list[Value]:
        return [self.value(place, row) for place in index.attributes]

    def _number_of(self, index: TableIndex, row: str, number: str) -> list[str]:
        return finds(self._arrays, index.name, self.room, index.words(self._key(index, row)), number)

    def _enters(self, index: TableIndex, row: str) -> list[str]:
        """Return what puts a row into an index, among the others by their numbers."""
        name, number = index.name, self._name()
        without = index.without(self._key(index, row))
        lists = f"{name}_first, {name}_last, {name}_previous, {name}_next"
        return [
            f"{name}_of[{row}] = -1",
            f"if not ({without}):",
            *indent(self._number_of(index, row, number)),
            f"    {name}_of[{row}] = {number}",
            f"    insert_by_time({lists}, {self._prefix}_number, {number}, {row})",
        ]

    def _leaves(self, index: TableIndex, row: str) -> list[str]:
        """Return what takes a row out of an index; a key without rows is forgotten."""
        name, number = index.name, self._name()
        release = f"release({name}_slots, {name}_keys, {name}_meta, {name}_after, {number}, {index.width})"
        if index.unique:
            # Its only row goes, so the key does
            return [f"{number} = {name}_of[{row}]", f"{name}_first[{number}] = -1", release]
        lists = f"{name}_first, {name}_last, {name}_previous, {name}_next"
        return [
            f"{number} = {name}_of[{row}]",
            f"if {number} >= 0:",
            f"    unlink({lists}, {number}, {row})",
            f"    if {name}_first[{number}] < 0:",
            f"        {release}",
        ]

    def deletes(self, row: str) -> list[str]:
        """Return what takes a row out of the table."""
        prefix = self._prefix
        leaves = [line for index in self.indexes for line in self._leaves(index, row)]
        return [
            *leaves,
            # A HashMap never has fewer buckets again, so its order goes by the most rows there ever were
            f"{prefix}_info[{MOST}] = max({prefix}_info[{MOST}], {prefix}_info[{COUNT}])",
            f"{prefix}_info[{COUNT}] -= 1",
            f"unlink({prefix}_first, {prefix}_last, {prefix}_before, {prefix}_after, 0, {row})",
            f"give_back({prefix}_free, {prefix}_after, {row})",
        ]

    def moves(self, row: str, values: Sequence[tuple[int, Value]]) -> list[str]:
        """Return what changes attributes of a row, and puts it where one would be inserted if its primary key changes.

        Nothing changes where another row has the new key. For the values see `changes`.
        """
        prefix, own, number = self._prefix, self.indexes[0], self._name()
        given = dict(values)
        fresh = [given.get(place) or self.value(place, row) for place in own.attributes]
        lists = f"{prefix}_first, {prefix}_last, {prefix}_before, {prefix}_after, 0, {row}"
        others = [index for index in self.indexes if index is not own]
        return [
            *seeks(self._arrays, own.name, self.room, own.words(fresh), number),
            # The key is the row's own, so it stays where it is
            f"if {number} >= 0 and {own.name}_first[{number}] == {row}:",
            *indent(self.changes(row, [one for one in values if one[0] not in own.attributes]) or ["pass"]),
            f"elif {number} >= 0:",
            f"    {prefix}_info[{REFUSED}] += 1",
            "else:",
            *indent([line for index in self.indexes for line in self._leaves(index, row)]),
            *indent(self.stores(row, values)),
            *indent([f"unlink({lists})", f"append({lists})", *self._numbered(row)]),
            *indent([*self._number_of(own, row, number), *self._takes(own, row, number)]),
            *indent([line for index in others for line in self._enters(index, row)]),
        ]

    def _numbered(self, row: str) -> list[str]:
        """Return what gives a row its number."""
        prefix = self._prefix
        return [f"{prefix}_number[{row}] = {prefix}_info[{NEXT}]", f"{prefix}_info[{NEXT}] += 1"]

    @staticmethod
    def _takes(index: TableIndex, row: str, number: str) -> list[str]:
        """Return what has a primary key, given its number, be that of a row."""
        return [f"{index.name}_first[{number}] = {row}", f"{index.name}_of[{row}] = {number}"]

    def changes(self, row: str, values: Sequence[tuple[int, Value]]) -> list[str]:
        """Return what changes attributes of a row, but none of its primary key; the values do not name arrays of it."""
        changed = {place for place, _ in values}
        # All other indexes have the row where it was
        moved = [index for index in self.indexes if changed & set(index.attributes)]
        return [
            *(line for index in moved for line in self._leaves(index, row)),
            *self.stores(row, values),
            *(line for index in moved for line in self._enters(index, row)),
        ]


# In which order a table with a primary key gives its rows: that of `spdist.operators.tables.order`, as source.


_REALS = (Type.FLOAT, Type.DOUBLE)


def key_rank(whole: Whole, table: LoopTable, values: Sequence[Value]) -> tuple[list[str], list[str], str]:
    """Return what is computed before all rows, what is for each row, and source of its rank, a whole number.

    Parameters
    ----------
    whole : Whole
        The text.
    table : LoopTable
        The table; ``{most}`` in the statements is how many rows it ever had at a time.
    values : sequence of Value
        The primary key of the row.

    Raises
    ------
    NotTyped
        The key has a real among others: Siddhi hashes it as a text, which has no typed form.
    """
    if len(values) == 1 and values[0].type.numeric:
        (value,) = values
        return [], [], f"real_place({value.text})" if value.type in _REALS else value.text
    code, each = whole.name(), list[str]()
    if len(values) == 1:
        each.append(f"{code} = {hashed(whole, values[0])}")
    else:
        if any(value.type in _REALS for value in values):
            raise NotTyped(f"the order of the table '{table.id}', whose primary key has a real among others")
        for place, value in enumerate(values):
            each.append(f"{code} = {hashed_text(whole, value, code if place else '0')}")
            # Siddhi's key of several attributes is one text, with this behind the text of each
            each.append(f"{code} = {behind(code, ':-:')}")
    # As `java.util.HashMap`: as many buckets as its greatest size has asked for.
    buckets = whole.name()
    grows = [f"{buckets} = 16", f"while 4 * {{most}} > 3 * {buckets}:", f"    {buckets} *= 2"]
    return grows, each, f"bucket_of({code}, {buckets})"
