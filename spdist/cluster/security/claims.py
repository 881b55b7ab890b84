"""What a token of an identity provider says of who shows it: signatures, claims, roles. Pure; the door to joserfc.

Keys, settings and the time are given. A refusal says why, for the log and for whoever shows the token; it never repeats
the token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import BadSignatureError, ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jwk import JWKRegistry, KeySet

__all__ = [
    "LEEWAY_S",
    "Identified",
    "Keys",
    "RefusedToken",
    "Rules",
    "UnknownKey",
    "identified",
    "is_jwt",
    "key_set",
    "roles_of",
    "shown_name",
    "signed",
]

Json = dict[str, Any]
Keys = KeySet

#: How far the clocks of the provider and of this node may be apart, s.
LEEWAY_S = 30
#: Signatures that only the provider can make: a shared secret, or none, is never enough.
_ALGORITHMS = [
    *(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)),
    "EdDSA", "Ed25519",
]  # fmt: skip
#: What a token that lets in may be called in its head (RFC 9068 names the second).
_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
#: Of a user's name, characters; and of one list of groups or scopes, items.
_NAME, _MOST = 200, 10_000
#: A time after all tokens, s since 1970.
_LATEST_S = 10**12


class RefusedToken(Exception):
    """A token that lets nobody in; the text is the reason."""


class UnknownKey(RefusedToken):
    """A token that a key has signed which is not among those that are known; the provider may have new ones."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of tokens, and what they grant.

    Parameters
    ----------
    issuer, audience : str
        Who must have made them, and for whom.
    clients : frozenset of str
        Clients whose tokens are meant for this cluster where the provider names no audience.
    username_claim, roles_claim : str
        Where the user and the groups stand; dots lead into objects.
    groups, scopes : mapping of str to str
        From each to a role.
    """

    issuer: str
    audience: str
    clients: frozenset[str]
    username_claim: str
    roles_claim: str
    groups: Mapping[str, str]
    scopes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Identified:
    """Whose token it is.

    Parameters
    ----------
    username : str
        As the provider names the user.
    roles : frozenset of str
        What the user is here; may be empty.
    until_s : float or None
        When the token ends, s since 1970; None where the provider does not say.
    """

    username: str
    roles: frozenset[str]
    until_s: float | None


def is_jwt(token: str) -> bool:
    """Return whether a token is a signed JWT, whoever has signed it; others are opaque."""
    if token.count(".") != 2:
        return False
    try:
        return "alg" in jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, AttributeError):
        return False


def key_set(document: Any) -> Keys:
    """Return the keys of a JWK set (RFC 7517) that can check signatures; those of other kinds are left out.

    Raises
    ------
    ValueError
        It is none, or has none.
    """
    found = []
    for one in document["keys"] if isinstance(document, dict) and isinstance(document.get("keys"), list) else ():
        # A secret (oct) that everybody can read signs nothing.
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or one.get("kty") == "oct":
            continue
        try:
            found.append(JWKRegistry.import_key(one))
        except (JoseError, ValueError, TypeError, KeyError):
            continue
    if not found:
        raise ValueError("there is no key that could check a signature")
    return KeySet(found)


def signed(token: str, keys: Keys) -> Json:
    """Return the claims of a JWT that one of `keys` has signed; what they say is not looked at.

    Raises
    ------
    UnknownKey
        It names a key that is not among them.
    RefusedToken
        No such key has signed it, or it is no such token.
    """
    registry = jws.JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
    registry.max_header_length = 4096
    try:
        decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS, registry=registry)
    except InvalidKeyIdError as error:
        raise UnknownKey("the token names no key of the identity provider") from error
    except BadSignatureError as error:
        raise RefusedToken("the signature of the token is wrong") from error
    except (JoseError, ValueError, TypeError, KeyError) as error:
        told = error.description if isinstance(error, JoseError) else "it cannot be read"
        raise RefusedToken(f"the token cannot be checked: {told}") from error
    kind = decoded.header.get("typ", "")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise RefusedToken("the token is made for something else: its typ is not that of an access token")
    return decoded.claims


def identified(claims: Json, rules: Rules, now_s: float, *, asked: bool = False) -> Identified:
    """Return who shows a token and what the user is here.

    Parameters
    ----------
    claims : dict
        What the token says: of one whose signature was checked (`signed`), or the provider's own answer (RFC 7662).
    rules : Rules
        What is asked of it.
    now_s : float
        The time, s since 1970.
    asked : bool
        Whether the provider was asked: then it need not say when the token ends, nor name itself.

    Raises
    ------
    RefusedToken
        It lets nobody in.

    Examples
    --------
    >>> rules = Rules("https://id", "sp", frozenset(), "sub", "groups", {"ops": "admin"}, {})
    >>> claims = {"iss": "https://id", "aud": ["sp"], "exp": 1000, "sub": "ann", "groups": ["ops", "tennis"]}
    >>> identified(claims, rules, 900.0)
    Identified(username='ann', roles=frozenset({'admin'}), until_s=1000.0)
    """
    if asked and claims.get("active") is not True:
        raise RefusedToken("the identity provider says that this token has ended, was revoked, or is not known")
    if asked and not claims.get("aud"):
        if claims.get("client_id") not in rules.clients:
            raise RefusedToken(
                "the token is meant for somebody else: neither its audience nor its client is known here"
            )
        claims = {**claims, "aud": rules.audience}
    needed = not asked
    registry = jwt.JWTClaimsRegistry(
        now=int(now_s),
        leeway=LEEWAY_S,
        iss={"essential": needed, "value": rules.issuer},
        aud={"essential": True, "value": rules.audience},
        exp={"essential": needed},
    )
    try:
        registry.validate({key: value for key, value in claims.items() if value is not None})
    except ExpiredTokenError as error:
        raise RefusedToken("the token has ended") from error
    except JoseError as error:
        raise RefusedToken(_told(error, rules)) from error
    username, until_s = _username(claims, rules), claims.get("exp")
    scopes = _names(claims.get("scope", claims.get("scp")), " ")
    roles = roles_of(_names(_at(claims, rules.roles_claim)), rules) | {
        role for name in scopes if (role := rules.scopes.get(name))
    }
    return Identified(username, roles, None if until_s is None else float(min(until_s, _LATEST_S)))


def roles_of(groups: Iterable[str], rules: Rules) -> frozenset[str]:
    """Return the roles of who is in these groups."""
    return frozenset(role for name in groups if (role := rules.groups.get(name)))


def _told(error: JoseError, rules: Rules) -> str:
    said = error.description
    for claim, told in (
        ("'iss'", f"the token is not of {rules.issuer}"),
        ("'aud'", f"the token is meant for somebody else: {rules.audience} is not its audience"),
    ):
        if claim in said or claim.strip("'") == said:
            return told
    return f"the token cannot be used: {said}"


def _username(claims: Json, rules: Rules) -> str:
    """Return the user of a token; a client's own token, of no user, is the client's."""
    for name in (rules.username_claim, "sub", "client_id", "azp"):
        found = _at(claims, name)
        if isinstance(found, str) and found.strip():
            if len(found) > _NAME or not found.isprintable():
                raise RefusedToken(f"the user that the token names cannot be a user here: see its claim {name}")
            return found
    raise RefusedToken(f"the token names no user: it has no claim {rules.username_claim}")


def _at(claims: Json, path: str) -> Any:
    """Return a claim; where none has the whole name, dots lead into objects."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _names(found: Any, separator: str = ",") -> list[str]:
    """Return a list of names, which may be written as one text."""
    if isinstance(found, str):
        found = [part.strip() for part in found.split(separator)]
    if not isinstance(found, list):
        return []
    return [name for name in found[:_MOST] if isinstance(name, str)]


def shown_name(token: str) -> str:
    """Return the user that a token claims to be of, unchecked, for counting who guesses; empty where it says none."""
    if not is_jwt(token):
        return ""
    try:
        claims = json.loads(jws.extract_compact(token.encode()).payload or b"")
        name = claims.get("sub") if isinstance(claims, dict) else ""
    except (JoseError, ValueError, TypeError):
        return ""
    return name[:_NAME] if isinstance(name, str) else ""
