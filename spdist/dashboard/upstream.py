"""The managers behind a dashboard: whether they are there, and whether a user and a password are right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdist.cluster.clients.asking import Reply, UnreachableNode
from spdist.cluster.clients.calling import Caller
from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.protocol.wire_errors import read_error
from spdist.cluster.security.access import Permission
from spdist.errors import ClusterError, ClusterUnreachableError, SpdistError, UnauthorizedError
from spdist.transports.sockets.tls import Certificate

__all__ = ["Upstream"]

#: Characters of a name or a password; nodes refuse longer ones.
_LONGEST = 500
_ENVIRONMENT = {"trust_file": "SPDIST_TRUST_FILE", "cert_file": "SPDIST_CERT_FILE", "key_file": "SPDIST_KEY_FILE"}


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the managers are, and how they are reached over TLS.

    Parameters
    ----------
    managers : tuple of str
        Base URLs; one that answers is enough.
    trust_file : Path, optional
        PEM file with the authorities to trust for https.
    cert_file, key_file : Path, optional
        For managers that ask for a certificate. It says which machine calls, not which user.
    """

    managers: tuple[str, ...]
    trust_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @classmethod
    def from_environment(cls, environment: dict[str, str]) -> Upstream:
        """Return what `to_environment` has written."""
        files = {name: Path(environment[key]) for name, key in _ENVIRONMENT.items() if key in environment}
        return cls(tuple(environment["SPDIST_URL"].split(",")), **files)

    def to_environment(self) -> dict[str, str]:
        """Return variables for the environment of a kernel."""
        files = {key: getattr(self, name) for name, key in _ENVIRONMENT.items()}
        known = {key: str(file.absolute()) for key, file in files.items() if file is not None}
        return {"SPDIST_URL": ",".join(self.managers), **known}

    def client(self, username: str, password: str) -> ClusterClient:
        """Return a client for a user; it asks nothing yet.

        Raises
        ------
        ClusterError
            One of the managers is no address.
        TransportError
            A file cannot be used, or a key has no certificate.
        """
        certificate = Certificate.named(self.cert_file, self.key_file)
        return ClusterClient(self.managers, username, password, trust_file=self.trust_file, certificate=certificate)

    def check(self) -> None:
        """Check that a manager answers; nobody has to log in for that.

        Raises
        ------
        SpdistError
            None does.
        """
        reply = self._ask("", "", "/login/auth-type")
        if not isinstance(reply.body, dict) or "authType" not in reply.body:
            raise ClusterError(
                f"{', '.join(self.managers)}: who answers is no manager of this version of spdist",
                hint="--url names managers, such as https://m1:9543",
            )

    def may_look(self, username: str, password: str) -> bool | None:
        """Tell whether a user may look at the cluster; None where name or password are wrong.

        Raises
        ------
        SpdistError
            The manager does not say: there were too many wrong ones, or none answers.
        """
        # Of a name with a colon nobody knows where its password begins (RFC 7617).
        if not username or ":" in username or max(len(username), len(password)) > _LONGEST:
            return None
        reply = self._ask(username, password, "/managers/roles", permissionSuffix=Permission.VIEW.value)
        if reply.status == 401:
            return None
        if reply.status == 403:
            return False
        if reply.status != 200:
            raise _problem(reply)
        return True

    def _ask(self, username: str, password: str, path: str, **params: str) -> Reply:
        """Return the answer of the first manager that has one."""
        certificate = Certificate.named(self.cert_file, self.key_file)
        caller = Caller(username, password, trust_file=self.trust_file, certificate=certificate)
        silent = []
        try:
            for url in self.managers:
                try:
                    reply = caller.call("GET", url + path, params=params)
                except UnreachableNode as error:
                    silent.append(str(error))
                    continue
                if reply.status < 500:
                    return reply
                silent.append(str(_problem(reply)))
        finally:
            caller.close()
        raise ClusterUnreachableError(
            f"no manager answered: {'; '.join(silent)}", hint="are they up, and are these their addresses?"
        )


def _problem(reply: Reply) -> SpdistError:
    body: Any = reply.body
    error = read_error(body, f"the login ({reply.status})")
    return error if isinstance(error, UnauthorizedError) else ClusterError(error.message, hint=error.hint)
