"""Where NATS is, without its library."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["NatsSettings"]


@dataclass(frozen=True, slots=True)
class NatsSettings:
    """Where the servers are and how to speak to them. Passwords are not shown.

    Parameters
    ----------
    urls : str
        ``nats://host:port`` (or ``tls://``) of one server or several, with commas between them.
    username, password, token : str
        Credentials, where the servers ask for them.
    credentials_file, nkey_seed_file : str
        Files with a JWT and its key, or with the seed of an NKey.
    ca_file, certificate_file, key_file : str
        PEM files: whom to trust, and who we are.
    replicas : int
        Copies of each new stream.
    patience_ms : int
        How long to try where no server answers.
    """

    urls: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials_file: str = ""
    nkey_seed_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    replicas: int = 1
    patience_ms: int = 30_000
