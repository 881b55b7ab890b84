"""Users as SCIM 2.0 lists them: what is asked for, page by page, and what an answer says (RFC 7643, RFC 7644). Pure.

Servers differ in what they can: one without filters may refuse the filter, or ignore it and list everybody; one with
many users lists them in pages. No `count` is asked for: how long a page is, is the server's to say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

__all__ = ["ACCEPT", "ListedUser", "UsersPage", "read_page", "told_by", "users_query"]

Json = dict[str, Any]

#: RFC 7644, 3.1: the second where a server does not know SCIM's own.
ACCEPT = "application/scim+json, application/json;q=0.9"
#: Groups of one user.
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class ListedUser:
    """A user whom the server lists.

    Parameters
    ----------
    active : bool
        Whether the user may log in; a server that does not say so means yes.
    groups : tuple of str
        The groups, as their `display` names them.
    """

    active: bool
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsersPage:
    """What one answer says of a user.

    Parameters
    ----------
    user : ListedUser or None
        None where the page does not have the user.
    next : int or None
        `startIndex` of the page that follows; None behind the last one.
    """

    user: ListedUser | None
    next: int | None


def users_query(username: str, start: int = 1, *, filtered: bool = True) -> str:
    r"""Return the query for a user: ``filter``, ``attributes``, and ``startIndex`` from the second page on.

    Examples
    --------
    >>> users_query("ann", 101, filtered=False)
    'attributes=userName%2Cgroups%2Cactive&startIndex=101'
    """
    # A filter's texts are JSON's.
    query = {"filter": f"userName eq {json.dumps(username)}"} if filtered else {}
    query["attributes"] = "userName,groups,active"
    if start > 1:
        query["startIndex"] = str(start)
    return urlencode(query)


def read_page(answer: Json, username: str, start: int = 1) -> UsersPage:
    """Return what a list that begins with the resource number `start` says of a user.

    A name counts only as a whole and as it is written, whatever the server took for equal to it.

    Raises
    ------
    ValueError
        It is no list of SCIM's.
    """
    total, listed = answer.get("totalResults"), answer.get("Resources", [])
    if not isinstance(total, int) or not isinstance(listed, list):
        raise ValueError("it lists no users: it has no totalResults")
    following = start + len(listed)
    for one in listed:
        if isinstance(one, dict) and one.get("userName") == username:
            return UsersPage(_listed(one), None)
    return UsersPage(None, following if listed and following <= total else None)


def told_by(answer: object) -> tuple[str, str]:
    """Return `scimType` and `detail` of an error (RFC 7644, 3.12); both empty where it is none.

    Examples
    --------
    >>> told_by({"scimType": "invalidFilter", "detail": "no filters here", "status": "400"})
    ('invalidFilter', 'no filters here')
    """
    found = answer if isinstance(answer, dict) else {}
    kind, detail = found.get("scimType"), found.get("detail")
    return (kind if isinstance(kind, str) else ""), (detail[:300] if isinstance(detail, str) else "")


def _listed(one: Json) -> ListedUser:
    groups = one.get("groups")
    names = [group.get("display") for group in (groups if isinstance(groups, list) else ()) if isinstance(group, dict)]
    return ListedUser(one.get("active", True) is True, tuple(name for name in names[:_MOST] if isinstance(name, str)))
