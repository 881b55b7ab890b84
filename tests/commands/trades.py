"""The app of the tests of the commands."""

from __future__ import annotations

from collections.abc import Callable

from typer.testing import Result

TEXT = """@app:name('Trades') @app:playback
define stream Trades (symbol string, price double);
@sink(type='embedded', topic='Trades.Alerts')
define stream Alerts (symbol string);
@info(name='q') from Trades[price > 10.0] select symbol insert into Alerts;
"""


def deployed(run: Callable[..., Result]) -> None:
    done = run("deploy", "-", text=TEXT)
    assert done.exit_code == 0, done.output
