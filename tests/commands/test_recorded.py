"""``spdist run --input``: from files to files in virtual time; what is wrong is a sentence and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from spdist.__main__ import app

ROOT = Path(__file__).parents[2]
APP = """
define stream Trades (symbol string, price double);
define stream News (symbol string);
from Trades[price > 50.0] select symbol, price insert into Alerts;
from Trades select sum(cast(symbol, 'double')) as s insert into Sums;
from every e1=News -> not Trades[symbol == e1.symbol] for 1 hour select e1.symbol as symbol insert into Quiet;
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.siddhi").write_text(APP)
    pq.write_table(
        pa.table({"when": [1_700_000_000, 1_700_000_060], "symbol": ["1", "x"], "price": [60.0, 70]}), "trades.parquet"
    )
    Path("news.csv").write_text("ts,symbol\n2023-11-14T22:13:20Z,1\n")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["run", "app.siddhi", *arguments])


TRADES = ("--input", "Trades=trades.parquet", "--time", "Trades=when", "--time-unit", "s")


@pytest.mark.usefixtures("place")
def test_streams_go_from_files_to_files() -> None:
    files = ("--input", "News=news.csv", "--output", "Alerts=alerts.parquet", "--output", "Quiet=quiet.csv")
    done = run(*TRADES, *files, "--until", "2023-11-14T23:00:00")
    assert done.exit_code == 0, done.output
    alerts = pq.read_table("alerts.parquet")
    assert alerts.column_names == ["timestamp", "symbol", "price"]
    assert alerts["symbol"].to_pylist() == ["1", "x"]
    assert pyarrow.csv.read_csv("quiet.csv").to_pylist() == []
    told = {line.split()[1]: line.split() for line in done.stdout.splitlines() if "in " in line or "out " in line}
    assert [told[stream][5] for stream in ("Trades", "News", "Alerts", "Quiet")] == ["2", "1", "2", "0"]
    assert "2 events lost because a query failed" in done.stderr
    later = run("--input", "News=news.csv", "--until", str(1_700_003_600_000), "--output", "Quiet=quiet.csv")
    assert later.exit_code == 0, later.output
    assert pyarrow.csv.read_csv("quiet.csv")["symbol"].to_pylist() == [1]


def test_no_spark_is_started(place: Path) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from spdist.__main__ import app;"
        "done = CliRunner().invoke(app, ['run', 'app.siddhi', '--input', 'News=news.csv']);"
        "print(done.exit_code, 'pyspark' in sys.modules)"
    )
    environment = {"PYTHONPATH": f"{ROOT}:{':'.join(sys.path)}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "0 False\n", done.stderr


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "Trades=trade.parquet"), "there is no file trade.parquet\nHint: Did you mean 'trades.parquet'?"),
        (("--input", "Trade=trades.parquet"), "There is no stream 'Trade'\nHint: Did you mean 'Trades'?"),
        (("--input", "Trades=trades.parquet"), "no column holds the times of the events"),
        (("--input", "Trades=trades.parquet", "--time", "wen"), "no column 'wen'\nHint: Did you mean 'when'?"),
        (("--input", "Trades=trades.parquet", "--time", "when"), "pass time_unit='s'"),
        (("--input", "News=app.siddhi"), "the name of app.siddhi does not say what it holds"),
        ((*TRADES, "--output", "Alert=a.csv"), "There is no output stream 'Alert'\nHint: Did you mean 'Alerts'?"),
        ((*TRADES, "--output", "Alerts=a.xls"), "the name of a.xls does not say what it holds"),
        ((*TRADES, "--output", "Alerts=none/a.csv"), "cannot write none/a.csv"),
        ((*TRADES, "--until", "soon"), "'soon' is no time"),
        ((*TRADES, "--until", "--5"), "'--5' is no time"),
    ],
)
def test_what_is_wrong_with_the_data_is_a_sentence_and_exit_code_1(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "Trades"), "'Trades' is not STREAM=FILE"),
        ((*TRADES, "--output", "=a.csv"), "Invalid value for --output"),
        ((*TRADES, "--input", "Trades=more.csv"), "stream 'Trades' has two files"),
        (("--output", "Alerts=a.csv"), "Invalid value for --output: it goes with --input"),
        (("--time-unit", "s"), "Invalid value for --time-unit: it goes with --input"),
        ((*TRADES, "--shards", "2"), "Invalid value for --shards: it is for a live run"),
        ((*TRADES, "--until-idle", "2"), "Invalid value for --until-idle: it is for a live run"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_command_line(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
