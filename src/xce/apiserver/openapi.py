"""The description of REST in OpenAPI 3.1, made from the routes and the types that they name."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from xce.apiserver.call import JSON, NDJSON, PROBLEM
from xce.apiserver.problems import Problem
from xce.apiserver.routes.parameters import Parameter
from xce.apiserver.routes.table import PREFIX, Route

_REFERENCE: Final = "#/components/schemas/{name}"
_HEADERS: Final = {
    "XCE-Seq": {
        "description": "The entry of the journal that the answer reflects",
        "schema": {"type": "integer"},
    }
}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string"},
    "description": "A request that is sent again under the same key is carried out once: "
    "seconds since the epoch, a dash, something random",
}
_MIN_SEQ: Final = {
    "name": "XCE-Min-Seq",
    "in": "header",
    "schema": {"type": "integer"},
    "description": "Wait (at most 5 s) until the answer reflects this entry",
}


def render_openapi(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the whole document."""
    types: list[Any] = [Problem]
    for route in routes:
        types += [*route.takes, *_lines(route), *route.gives]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    known = iter(schemas)
    problem = next(known)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        takes, lines, gives = (
            _one_of([next(known) for _ in kinds])
            for kinds in (route.takes, _lines(route), route.gives)
        )
        operation = _operation(route, takes, lines, gives, problem)
        paths.setdefault(f"{PREFIX}{route.path}", {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "XCE", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components},
    }


def _lines(route: Route) -> tuple[Any, ...]:
    return (route.takes_lines,) if route.takes_lines else ()


def _one_of(schemas: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(schemas) > 1:
        return {"oneOf": schemas}
    return schemas[0] if schemas else None


def _operation(
    route: Route,
    takes: dict[str, Any] | None,
    lines: dict[str, Any] | None,
    gives: dict[str, Any] | None,
    problem: dict[str, Any],
) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    parameters += [_parameter(item, "query") for item in route.parameters]
    parameters += [_parameter(item, "header") for item in route.headers]
    if route.method == "POST":
        parameters.append(_KEY)
    elif route.is_read:
        parameters.append(_MIN_SEQ)
    content = {route.gives_media: {"schema": gives or {"type": "string", "format": "binary"}}}
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            str(route.status): {
                "description": "done",
                "headers": _HEADERS,
                "content": content,
            },
            "default": {
                "description": "refused",
                "content": {PROBLEM: {"schema": problem}},
            },
        },
    }
    body = {media: {"schema": kind} for media, kind in ((JSON, takes), (NDJSON, lines)) if kind}
    if body:
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _parameter(item: Parameter, where: str) -> dict[str, Any]:
    return {
        "name": item.name,
        "in": where,
        "description": item.text,
        "schema": {"type": item.kind},
    }
