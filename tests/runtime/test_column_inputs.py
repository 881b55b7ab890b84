"""The messages that an instance of Columns reads are found again, whichever of its sources reads their partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spdist.errors import NotFoundError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.standalone import standalone_assignment
from spdist.runtime.column_inputs import read_messages
from spdist.runtime.realtime_checkpoints import Checkpoints


class Topics:
    """Topic `t` of partitions 0 to 3, with one message each, at the brokers of an access."""

    def __init__(self, access: Any) -> None:
        self._servers = ",".join(access.servers)

    def extents(self, topics: tuple[str, ...]) -> dict[str, dict[int, tuple[int, int]]]:
        return {topic: dict.fromkeys(range(4), (0, 1)) for topic in topics}

    def messages(self, topic: str, partition: int, offset: int) -> list[tuple[int, int, None, bytes]]:
        return [(offset, 5, None, f"{self._servers} {topic} {partition}".encode())]

    def close(self) -> None:
        """Hold nothing open."""


def source(servers: str, numbers: str, topic: str = "t") -> str:
    chosen = f", partition.no.list='{numbers}'" if numbers else ""
    return f"@source(type='kafka', topic.list='{topic}', bootstrap.servers='{servers}'{chosen}, @map(type='json'))"


def test_each_partition_is_read_by_the_source_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdist.connectors.kafka.link.KafkaTopics", Topics)
    text = (
        f"@app:name('App') {source('a:1', '0,2')} {source('b:1', '1')} {source('c:1', '', 'other')} "
        "define stream S (v long); from S select v insert into Out;"
    )
    assignment = standalone_assignment(check(parse(text), catalog(), text), text)
    Checkpoints(tmp_path, "App").begin(assignment, "earliest")
    for partition, server in ((0, "a:1"), (1, "b:1"), (2, "a:1")):
        (message,) = read_messages(tmp_path, "App", ("t", partition, 0), 1)
        assert message.value == f"{server} t {partition}".encode()
    (message,) = read_messages(tmp_path, "App", ("other", 3, 0), 1)
    assert message.value == b"c:1 other 3"
    for topic, partition in (("t", 3), ("none", 0)):
        with pytest.raises(NotFoundError, match=f"partition {partition} of topic '{topic}'"):
            read_messages(tmp_path, "App", (topic, partition, 0), 1)
