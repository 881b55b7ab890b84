"""The graph of an app: who reads and writes what."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from typer.testing import CliRunner

import spdist
from spdist.__main__ import app
from spdist.planning.pictures.graph import Link

APP = """
@app:name('Parking')
define stream Cars (plate string, lot string);
define stream Paid (plate string);
define table Lots (lot string, free int);
define window Recent (plate string, lot string) time(1 min);
define trigger Tick at every 1 min;
from Cars[(Lots.lot == lot and Lots.free > 0) in Lots] select plate, lot insert into Recent;
@info(name='Paid')
from Paid as p join Recent as r on p.plate == r.plate select r.lot as lot, 1 as free
update Lots set Lots.free = Lots.free + 1 on Lots.lot == lot;
@info(name='clean')
from Tick delete Lots on Lots.free < 0;
partition with (lot of Cars) begin
  from Cars select plate insert into #Seen;
  from every a=#Seen -> b=#Seen[plate != a.plate] select a.plate as first, b.plate as second insert into Pairs;
end;
"""


def test_every_use_is_a_link() -> None:
    found = spdist.graph(APP)
    assert set(found.links) == {
        Link("Cars", "query:query_1", "reads"),
        Link("Lots", "query:query_1", "looks into"),
        Link("query:query_1", "Recent", "inserts into"),
        Link("Paid", "query:Paid", "reads"),
        Link("Recent", "query:Paid", "reads"),
        Link("query:Paid", "Lots", "updates"),
        Link("Tick", "query:clean", "reads"),
        Link("query:clean", "Lots", "deletes from"),
        Link("Cars", "query:query_4", "reads"),
        Link("query:query_4", "1#Seen", "inserts into"),
        Link("1#Seen", "query:query_5", "reads"),
        Link("query:query_5", "Pairs", "inserts into"),
    }
    kinds = {node.id: (node.kind, node.partition) for node in found.nodes}
    assert kinds["Tick"] == ("trigger", None)
    assert kinds["Recent"] == ("window", None)
    assert kinds["1#Seen"] == ("stream", 1)
    assert kinds["query:query_5"] == ("query", 1)
    assert {end for link in found.links for end in (link.source, link.target)} <= set(kinds)


def test_an_aggregation_reads_its_stream_and_is_looked_into() -> None:
    found = spdist.graph(
        "define stream S (k string, v int); define stream Q (k string);"
        "define aggregation A from S select k, sum(v) as t group by k aggregate every sec...min;"
        "from Q join A on Q.k == A.k within '2024-**-** **:**:**' per 'seconds' select A.t as t insert into Out;"
    )
    assert Link("S", "A", "reads") in found.links
    assert Link("A", "query:query_1", "looks into") in found.links


def test_it_shows_itself(tmp_path: Path) -> None:
    found = spdist.graph(APP)
    assert "  query Paid  join\n      reads Paid\n      reads Recent\n      updates Lots" in str(found)
    ElementTree.fromstring(found.to_svg())
    assert found.to_svg() in found._repr_html_()
    file, picture = tmp_path / "parking.siddhi", tmp_path / "parking.svg"
    file.write_text(APP, encoding="utf-8")
    done = CliRunner().invoke(app, ["graph", str(file), "--json", "--svg", str(picture)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == found.to_dict()
    assert picture.read_text(encoding="utf-8") == found.to_svg()
