"""The program of a real identity provider, canaille, with everything in memory; `tests.identity_provider` runs it.

It has an environment of its own, as canaille's package brings a `tests` that would hide ours. Argument: who is known,
as JSON. The first line that it prints is where it is and what it signs with; each line that it reads is an order.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import threading
from typing import Any

import canaille
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "true"
asked: list[str] = []


class Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


def add_users(users: dict[str, list[str]]) -> None:
    members: dict[str, list[Any]] = {}
    for name, groups in users.items():
        user = models.User(
            user_name=name,
            family_name=name,
            formatted_name=name,
            emails=[f"{name}@example.org"],
            password=f"{name}-secret",
        )
        Backend.instance.save(user)
        for group in groups:
            members.setdefault(group, []).append(user)
    for group, found in members.items():
        Backend.instance.save(models.Group(display_name=group, members=found, owner=found[0]))


def add_client(name: str, secret: str | None, audience: str, redirect_uris: list[str], scope: list[str]) -> None:
    """Make a client known; one that is known already gets these redirections."""
    client = Backend.instance.get(models.Client, client_id=name)
    if client is None:
        client = models.Client(
            client_id=name,
            client_name=name,
            client_uri="http://127.0.0.1",  # so no page asks for consent
            client_id_issued_at=datetime.datetime.now(datetime.UTC),
            client_secret=secret,
            grant_types=["password", "authorization_code", "refresh_token", "client_credentials"],
            response_types=["code"],
            scope=scope,
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )
        Backend.instance.save(client)
    client.redirect_uris = redirect_uris
    client.audience = [Backend.instance.get(models.Client, client_id=audience)]
    Backend.instance.save(client)


def main() -> None:
    key = RSAKey.generate_key(2048, auto_kid=True)

    def recorded(environ: Any, start: Any) -> Any:
        asked.append(environ["PATH_INFO"])
        environ["HTTP_HOST"] = host  # over TLS, too: it sends requests to another name away
        return app(environ, start)

    def started(port: int, certificate: tuple[str, str] | None = None) -> Any:
        server = make_server("127.0.0.1", port, recorded, threaded=True, request_handler=Quiet, ssl_context=certificate)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    server = started(0)
    host = f"127.0.0.1:{server.server_port}"
    app = canaille.create_app(
        {
            "SECRET_KEY": "of the tests",
            "SERVER_NAME": host,
            "PREFERRED_URL_SCHEME": "http",
            "WTF_CSRF_ENABLED": False,
            "CANAILLE": {"DATABASE": "memory", "JAVASCRIPT": False, "LOGGING": {"version": 1}},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)]},
            "CANAILLE_SCIM": {"ENABLE_SERVER": True},
        }
    )
    with app.app_context():
        add_users(json.loads(sys.argv[1]))
    print(json.dumps({"url": f"http://{host}", "key": key.as_dict(private=True)}), flush=True)
    for line in sys.stdin:  # ends with the tests
        what = json.loads(line)
        with app.app_context():
            if "client" in what:
                add_client(**what["client"])
        if what.get("stop") is True:
            server.shutdown()
            server.server_close()
        elif what.get("stop") is False:
            server = started(server.server_port)
        other = started(0, tuple(what["certificate"])).server_port if "certificate" in what else None
        print(json.dumps({"asked": asked, "port": other}), flush=True)


main()
