"""Settings of an identity provider: ``auth.configs`` with ``type: external``; with WSO2's keys, where they fit.

What is not here of WSO2's stands in `spdist.config.ignored`. Ours are ``issuer``, ``audience``, ``publicClientId``,
``usernameClaim``, ``rolesClaim``, ``roleMapping``, ``introspection``, ``trustFile``, ``nodeGrant`` and ``nodeScope``.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from spdist.config.binding import listing, setting
from spdist.config.kinds import ScalarKind, Secret, choice, duration, path, secret, text, whole
from spdist.config.source import ResolvedScalar
from spdist.errors import ConfigError

__all__ = ["External", "MappedRole", "check_external", "is_safe_url"]


def is_safe_url(url: str) -> bool:
    """Return whether secrets may go to an address: https, or http on the loopback; without user and query."""
    try:
        parts = urlsplit(url)
        # Reading `port` raises ValueError where it is no number.
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f]", url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_url(reference: ResolvedScalar, _: Path) -> str:
    if not is_safe_url(reference.text):
        raise ValueError("an address such as https://id.example/realms/sp; http:// only on 127.0.0.1, ::1 or localhost")
    return reference.text


_url = ScalarKind(_read_url)


@dataclass(frozen=True, slots=True)
class MappedRole:
    """One of ``roleMapping``: whoever is in `group` at the provider, or shows a token with `scope`, has `role` here."""

    role: str = setting("role", text)
    group: str = setting("group", text, "")
    scope: str = setting("scope", text, "")


@dataclass(frozen=True, slots=True)
class External:
    """``auth.configs.properties`` with ``type: external``: the provider of identities, OAuth 2.0 or OpenID Connect.

    `issuer` is where ``/.well-known/openid-configuration`` is found; without it, it is ``<kmTokenUrl>/token``, as with
    WSO2 Identity Server. `spClientId` and `spClientSecret` are of this node, which the provider knows by them;
    `publicClientId` is of ``spdist login``, which has no secret. A token must be meant for `audience` (without it, for
    `spClientId`). What the claim `rolesClaim` lists, a path with dots, and the token's scopes become roles by
    `roleMapping`, and only by that: a group that is called admin grants nothing by its name.

    A JWT is checked here with the keys of the provider, unless `introspection` is ``always``; other tokens are always
    asked about. Answers are kept for `cacheTimeout` s, 60 where WSO2 has 900: so long does a revoked token go on. With
    `grantType` ``password`` this node takes a password and shows it to the provider; WSO2 does so by default, here
    people log in at the provider and no node sees a password. `kmUsername` and `kmPassword` are shown in place of the
    client's secret where tokens are asked about, as WSO2's server wants it.

    Where a token grants no role, the groups of its user are looked up by SCIM 2.0 at `idpBaseUrl`, as `idpUsername`, or
    with a token of this client's own; a user whom it does not list, or says is not active, is refused.

    With `node_grant` ``client_credentials`` this node shows others a token of its client, asked for with `node_scope`,
    and no password.
    """

    issuer: str = setting("properties.issuer", _url, "")
    km_token_url: str = setting("properties.kmTokenUrl", _url, "")
    jwks_url: str = setting("properties.jwksUrl", _url, "")
    introspection_url: str = setting("properties.introspectionUrl", _url, "")
    client_id: str = setting("properties.spClientId", text, "")
    client_secret: Secret | None = setting("properties.spClientSecret", secret, None)
    public_client_id: str = setting("properties.publicClientId", text, "")
    km_username: str = setting("properties.kmUsername", text, "")
    km_password: Secret | None = setting("properties.kmPassword", secret, None)
    audience: str = setting("properties.audience", text, "")
    login_scopes: str = setting("properties.allScopes", text, "openid profile groups")
    username_claim: str = setting("properties.usernameClaim", text, "sub")
    roles_claim: str = setting("properties.rolesClaim", text, "groups")
    role_mapping: tuple[MappedRole, ...] = listing("properties.roleMapping", MappedRole)
    admin_scope: str = setting("properties.adminScope", text, "")
    scim_url: str = setting("properties.idpBaseUrl", _url, "", also=("properties.scimBaseUrl",))
    scim_username: str = setting("properties.idpUsername", text, "")
    scim_password: Secret | None = setting("properties.idpPassword", secret, None)
    introspection: str = setting("properties.introspection", choice("opaque", "always"), "opaque")
    cache_timeout_s: int = setting("properties.cacheTimeout", whole(0, 86_400), 60)
    grant_type: str = setting("properties.grantType", choice("authorization_code", "password"), "authorization_code")
    node_grant: str = setting("properties.nodeGrant", choice("password", "client_credentials"), "password")
    node_scope: str = setting("properties.nodeScope", text, "")
    base_url: str = setting("properties.baseUrl", _url, "")
    provider_trust_file: Path | None = setting("properties.trustFile", path, None)
    connection_timeout_ms: int = setting("properties.connectionTimeout", duration(100), 5_000)
    read_timeout_ms: int = setting("properties.readTimeout", duration(100), 10_000)

    @property
    def issued_by(self) -> str:
        """The issuer, as tokens name it."""
        return self.issuer or f"{self.km_token_url.rstrip('/')}/token"


def check_external(external: External, file: Path) -> None:
    """Check that an identity provider can be used.

    Raises
    ------
    ConfigError
        Something is missing, or grants nobody anything.
    """

    def need(given: bool, key: str, hint: str) -> None:
        if not given:
            told = f"{file}: auth.configs.properties.{key} is missing, and type: external cannot do without it"
            raise ConfigError(told, hint=hint)

    need(bool(external.issuer or external.km_token_url), "issuer", "the provider's address, as its tokens name it")
    need(bool(external.client_id), "spClientId", "register this cluster at the provider as a client, and name it here")
    if external.node_grant == "client_credentials":
        hint = "nodeGrant: client_credentials needs the client's secret, such as ${env:SPDIST_CLIENT_SECRET}"
        need(external.client_secret is not None, "spClientSecret", hint)
    hint = "for example roleMapping: [{group: stream-admins, role: admin}, {scope: siddhi.view, role: viewer}]"
    need(bool(external.role_mapping or external.admin_scope), "roleMapping", hint)
    for number, one in enumerate(external.role_mapping):
        if bool(one.group) is bool(one.scope):
            told = f"{file}: auth.configs.properties.roleMapping[{number}] must have a group or a scope, one of the two"
            raise ConfigError(told)
    for name, username, password in (
        ("km", external.km_username, external.km_password),
        ("idp", external.scim_username, external.scim_password),
    ):
        if bool(username) is not bool(password):
            told = f"auth.configs.properties has one of {name}Username and {name}Password; give both, or none"
            raise ConfigError(f"{file}: {told}")
