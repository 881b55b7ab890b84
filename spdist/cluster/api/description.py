"""The description of all routes of a node: an OpenAPI document, and a page of it that needs nothing from outside.

It is made from the routes, whoever wrote them: the first line of a handler's docstring is its summary, the rest its
description; parameters and permissions come from the signature and the guard. What all routes may answer is added here,
so that a route only names what is special to it (`spdist.cluster.api.models`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, Response

from spdist.cluster.api.guard import RequestGuard
from spdist.cluster.api.models import FORM, REASONS, ErrorBody, answers
from spdist.cluster.security.access import Permission
from spdist.cluster.workers.node_facts import installed_version

__all__ = ["describe", "publish"]

Json = dict[str, Any]

#: What a page may do: show itself.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
_ERROR = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorBody.__name__}"}}}


def publish(app: FastAPI, guard: RequestGuard, *, standby: bool) -> None:
    """Let those who may look read the description of `app` at ``/openapi.json`` and ``/docs``.

    Parameters
    ----------
    app : FastAPI
        All its routes are described, later ones too.
    guard : RequestGuard
        Who may read.
    standby : bool
        Whether the node may have to send people to another one that leads.
    """
    view = guard.asks(Permission.VIEW)

    @cache
    def document() -> Json:
        return describe(app, standby=standby)

    app.openapi = document  # type: ignore[method-assign]

    @app.get("/openapi.json", dependencies=[view], tags=["description"], **answers(Json))
    def openapi() -> Response:
        """Describe the routes of this node as an OpenAPI document."""
        return JSONResponse(document())

    @app.get("/docs", dependencies=[view], response_class=HTMLResponse, tags=["description"])
    def page() -> Response:
        """Show the routes of this node as a page."""
        return HTMLResponse(_page(document()), headers={"Content-Security-Policy": _POLICY})


def describe(app: FastAPI, *, standby: bool) -> Json:
    """Return the OpenAPI document of all routes of `app`."""
    document = get_openapi(title=app.title, version=installed_version(), routes=app.routes)
    schemas: Json = document.setdefault("components", {}).setdefault("schemas", {})
    for operation in (one for _, _, one in _operations(document)):
        _complete(operation, standby=standby)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            # OpenAPI resolves references from the document's root only
            schemas |= content["schema"].pop("$defs", {})
    schemas[ErrorBody.__name__] = ErrorBody.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def _complete(operation: Json, *, standby: bool) -> None:
    """Take summary and description from the docstring, and add the errors that every route like this one has."""
    told = operation.pop("description", "")
    first, _, rest = told.partition("\n")
    operation["summary"] = first.strip().rstrip(".") or operation["summary"]
    operation["description"] = rest.strip()
    responses: Json = operation["responses"]
    # FastAPI's own answer to what does not validate; here that is 400
    responses.pop("422", None)
    for status in _usual(operation, standby=standby):
        responses.setdefault(str(status), {"description": REASONS[status], "content": _ERROR})
    operation["responses"] = dict(sorted(responses.items()))


def _usual(operation: Json, *, standby: bool) -> Iterator[int]:
    """Yield the statuses of errors that follow from what an operation takes and who may use it."""
    parameters = operation.get("parameters", [])
    body = operation.get("requestBody", {}).get("content", {})
    if parameters or body:
        yield 400
    if any(one["in"] == "path" for one in parameters):
        yield 404
    if body:
        yield 413
    if {"text/plain", FORM} & set(body):
        yield 415
    if operation.get("security"):
        yield from (401, 403, 429, 500, 503)
        if standby:
            yield 307


# ------------------------------------------------------------------------------------------------------------- the page
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#1f2328}
details{border:1px solid #d0d7de;border-radius:6px;margin:.4em 0;padding:.3em .8em}
summary{cursor:pointer}b.m{display:inline-block;width:5em}
code,pre{background:#f6f8fa;border-radius:4px;padding:.1em .3em}
pre{padding:.6em;overflow:auto}table{border-collapse:collapse}
td,th{text-align:left;padding:.2em .8em;vertical-align:top}
"""


def _page(document: Json) -> str:
    info = document["info"]
    shown = "".join(_operation(method, path, one) for method, path, one in _operations(document))
    schemas = "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> {escape(schema.get("description", ""))}'
        f"</summary>{_json(schema)}</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    title = escape(f"{info['title']} {info['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        '<p>The same as a document for programs: <a href="openapi.json">openapi.json</a></p>'
        f"{shown}<h2>Bodies</h2>{schemas}</body></html>"
    )


def _operation(method: str, path: str, operation: Json) -> str:
    guarded = operation.get("security", ())
    needs = ", ".join(dict.fromkeys(role for one in guarded for roles in one.values() for role in roles))
    permission = f"<p>Permission: <code>{escape(needs)}</code></p>" if needs else "<p>Open to every user.</p>"
    permission = permission if guarded else "<p>Open to everybody.</p>"
    parameters = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{_kind(one['schema'])}</td><td>{escape(one.get('description', ''))}</td></tr>"
        for one in operation.get("parameters", ())
    )
    body = "".join(
        f"<h4>Body: {escape(media)}</h4>{_json(content.get('example', content['schema']))}"
        for media, content in operation.get("requestBody", {}).get("content", {}).items()
    )
    rows = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(one['description'])}</td>"
        f"<td>{', '.join(_kind(c.get('schema', {})) for c in one.get('content', {}).values())}</td></tr>"
        for status, one in operation["responses"].items()
    )
    return (
        f'<details><summary><b class="m">{escape(method.upper())}</b> <code>{escape(path)}</code> '
        f"{escape(operation['summary'])}</summary><p>{escape(operation['description'])}</p>{permission}"
        + (f"<h4>Parameters</h4><table>{parameters}</table>" if parameters else "")
        + f"{body}<h4>Answers</h4><table>{rows}</table></details>"
    )


def _kind(schema: Json) -> str:
    """Return what a value is, in a word, with a link where there is more to say."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any value")))


def _json(value: Any) -> str:
    return f"<pre>{escape(value if isinstance(value, str) else json.dumps(value, indent=1))}</pre>"
