"""A real identity provider for the tests, canaille, as a process of its own with an environment of its own."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey

from spdist.services.maven import cache_directory
from spdist.transports.sockets.tls import Certificate

#: The models of SCIM are those that this canaille was written for: it fails with newer ones.
_PACKAGES = ["canaille[front,oidc,scim]==0.3.6", "scim2-models>=0.6.12,<0.7", "flask>=3.1,<4", "werkzeug>=3.1,<4"]
#: Who is known: name → groups. Passwords are ``<name>-secret``.
USERS = {"ada": ["stream-admins", "tennis"], "vic": ["stream-viewers"], "nell": ["tennis"]}
_SCIM = "urn:ietf:params:scim"
CLIENT, SECRET, PUBLIC = "spdist", "secret-of-spdist/+", "spdist-cli"


class NoProvider(RuntimeError):
    """Canaille cannot be installed; the text says why."""


def environment_python() -> str:
    """Return the Python that has canaille; it is installed once, into the user's cache."""
    home = cache_directory() / f"tests-{'-'.join(re.findall(r'[a-z]+|[0-9.]+', _PACKAGES[0]))}-{sys.version_info[1]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    python = home / "bin" / "python"
    with open(home.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
            subprocess.run([sys.executable, "-m", "venv", *(["--without-pip"] if uv else []), str(home)], check=True)
            command = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
            done = subprocess.run([*command, "-q", *_PACKAGES], capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoProvider(f"canaille cannot be installed: {done.stderr.strip()[-300:]}")
            (home / "complete").touch()
    return str(python)


class IdentityProvider:
    """Runs while it is entered.

    Attributes
    ----------
    url : str
        The issuer.
    key : RSAKey
        What it signs with, to make tokens that it would not.
    """

    def __enter__(self) -> Self:
        program = [environment_python(), str(Path(__file__).with_name("canaille_server.py")), json.dumps(USERS)]
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=own
        )
        assert self._process.stdout is not None
        found = json.loads(self._process.stdout.readline())
        self.url, self.key = found["url"], RSAKey.import_key(found["key"])
        self.know(CLIENT, SECRET)
        self.know(PUBLIC, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def know(self, name: str, secret: str | None, *redirect_uris: str) -> None:
        """Make a client known, or other redirections of it; its tokens are for `CLIENT`."""
        scope = ["openid", "profile", "groups", "siddhi.view"]
        told = {"name": name, "secret": secret, "audience": CLIENT, "redirect_uris": redirect_uris, "scope": scope}
        self._tell({"client": told})

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nobody answers there: connections are refused, and then as before."""
        self._tell({"stop": True})
        try:
            yield
        finally:
            self._tell({"stop": False})

    def asked(self) -> list[str]:
        """The paths of all requests so far."""
        found: list[str] = self._tell({})["asked"]
        return found

    def over_tls(self, certificate: Certificate) -> str:
        """Where the same provider answers with a certificate; it goes on calling itself `url`."""
        told = self._tell({"certificate": [str(certificate.file), str(certificate.key_file)]})
        return f"https://127.0.0.1:{told['port']}"

    def _tell(self, what: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(what)}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    # ------------------------------------------------------------------------------------------------------------- SCIM
    @property
    def scim_url(self) -> str:
        return f"{self.url}/scim/v2"

    def scim(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """What somebody does who looks after users: one request of SCIM 2.0, as `CLIENT`."""
        head = {"Authorization": f"Bearer {self.opaque_token('openid')}"}
        answer = httpx.request(method, f"{self.scim_url}{path}", json=body, headers=head, trust_env=False, timeout=60)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def add_user(self, name: str) -> None:
        """Make a user known who can log in."""
        named = {"userName": name, "name": {"formatted": name, "familyName": name}, "active": True}
        self.scim(
            "POST", "/Users", {"schemas": [f"{_SCIM}:schemas:core:2.0:User"], "password": f"{name}-secret", **named}
        )

    def add_group(self, name: str, *members: str) -> None:
        """Make a group of users."""
        listed = [{"value": one, "$ref": f"{self.scim_url}/Users/{one}"} for one in members]
        schemas = [f"{_SCIM}:schemas:core:2.0:Group"]
        self.scim("POST", "/Groups", {"schemas": schemas, "displayName": name, "members": listed})

    def change(self, what: str, attribute: str, value: Any) -> None:
        """Replace an attribute of a user or of a group, such as ``Users/ann``."""
        operation = {"op": "replace", "path": attribute, "value": value}
        self.scim("PATCH", f"/{what}", {"schemas": [f"{_SCIM}:api:messages:2.0:PatchOp"], "Operations": [operation]})

    # ----------------------------------------------------------------------------------------------------------- tokens
    def token(self, user: str, scope: str = "openid groups") -> str:
        """A token that the provider gives to a user: a signed JWT, with the groups if its scope has them."""
        form = {"grant_type": "password", "username": user, "password": f"{user}-secret", "scope": scope}
        return str(self._ask("token", form)["access_token"])

    def opaque_token(self, scope: str) -> str:
        """A token of the client itself, of no user: only the provider knows what it means."""
        return str(self._ask("token", {"grant_type": "client_credentials", "scope": scope})["access_token"])

    def revoke(self, token: str) -> None:
        self._ask("revoke", {"token": token})

    def _ask(self, what: str, form: dict[str, str]) -> Any:
        answer = httpx.post(f"{self.url}/oauth/{what}", data=form, auth=(CLIENT, SECRET), trust_env=False, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def signed(self, key: RSAKey | None = None, algorithm: str = "RS256", **claims: Any) -> str:
        """A token as the provider makes them, but for what is given; of another key, if one is given."""
        own = key or self.key
        good = {"iss": self.url, "aud": [CLIENT], "sub": "ada", "exp": int(time.time()) + 600, "groups": USERS["ada"]}
        return jwt.encode({"alg": algorithm, "kid": own.kid}, {**good, **claims}, own, algorithms=[algorithm])

    def log_in(self, url: str, user: str) -> str:
        """What a browser does with `url`: log in on the provider's pages; return where that leads."""
        filled = {"login": user, "password": f"{user}-secret"}
        with httpx.Client(trust_env=False, follow_redirects=False, timeout=60) as browser:
            answer = browser.get(url)
            for _ in range(12):
                if answer.is_redirect:
                    where = urljoin(str(answer.url), answer.headers["location"])
                    if not where.startswith(self.url):
                        return where
                    answer = browser.get(where)
                    continue
                asked = {name: filled[name] for name in re.findall(r'name="(\w+)"', answer.text) if name in filled}
                assert answer.status_code == 200 and asked, answer.text
                answer = browser.post(str(answer.url), data=asked)
        raise AssertionError("the provider's pages lead nowhere")
