"""Settings of an identity provider: ``auth.configs`` with ``type: external``; with WSO2's keys, where they fit.

What is not here of WSO2's stands in `spdist.config.ignored`. Ours are ``issuer``, ``audience``, ``publicClientId``,
``usernameClaim``, ``rolesClaim``, ``roleMapping``, ``introspection``, ``trustFile``, ``nodeGrant`` and ``nodeScope``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from spdist.config.binding import listing, setting
from spdist.errors import ConfigError

if TYPE_CHECKING:
    # The binder finds them in the annotations, which are text until then: `spdist.config.binding.field_keys`.
    from pydantic import Field

    from spdist.config.types import Place, SafeUrl, SecretText, Text, duration

__all__ = ["External", "MappedRole", "check_external"]


@dataclass(frozen=True, slots=True)
class MappedRole:
    """One of ``roleMapping``: whoever is in `group` at the provider, or shows a token with `scope`, has `role` here."""

    role: Text = setting("role")
    group: Text = setting("group", "")
    scope: Text = setting("scope", "")


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

    issuer: SafeUrl = setting("properties.issuer", "")
    km_token_url: SafeUrl = setting("properties.kmTokenUrl", "")
    jwks_url: SafeUrl = setting("properties.jwksUrl", "")
    introspection_url: SafeUrl = setting("properties.introspectionUrl", "")
    client_id: Text = setting("properties.spClientId", "")
    client_secret: SecretText | None = setting("properties.spClientSecret", None)
    public_client_id: Text = setting("properties.publicClientId", "")
    km_username: Text = setting("properties.kmUsername", "")
    km_password: SecretText | None = setting("properties.kmPassword", None)
    audience: Text = setting("properties.audience", "")
    login_scopes: Text = setting("properties.allScopes", "openid profile groups")
    username_claim: Text = setting("properties.usernameClaim", "sub")
    roles_claim: Text = setting("properties.rolesClaim", "groups")
    role_mapping: tuple[MappedRole, ...] = listing("properties.roleMapping")
    admin_scope: Text = setting("properties.adminScope", "")
    scim_url: SafeUrl = setting("properties.idpBaseUrl", "", also=("properties.scimBaseUrl",))
    scim_username: Text = setting("properties.idpUsername", "")
    scim_password: SecretText | None = setting("properties.idpPassword", None)
    introspection: Literal["opaque", "always"] = setting("properties.introspection", "opaque")
    cache_timeout_s: Annotated[int, Field(ge=0, le=86_400)] = setting("properties.cacheTimeout", 60)
    grant_type: Literal["authorization_code", "password"] = setting("properties.grantType", "authorization_code")
    node_grant: Literal["password", "client_credentials"] = setting("properties.nodeGrant", "password")
    node_scope: Text = setting("properties.nodeScope", "")
    base_url: SafeUrl = setting("properties.baseUrl", "")
    provider_trust_file: Place | None = setting("properties.trustFile", None)
    connection_timeout_ms: Annotated[int, duration(100)] = setting("properties.connectionTimeout", 5_000)
    read_timeout_ms: Annotated[int, duration(100)] = setting("properties.readTimeout", 10_000)

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
