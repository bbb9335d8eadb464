"""The OpenAPI document, made from the table of endpoints and the types of the bodies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

import msgspec

from nextclick import __version__
from nextclick.serving.limits import Limits
from nextclick.serving.refusals import JSON, ErrorBody
from nextclick.serving.routes import Endpoint
from nextclick.serving.schemas import NoOptions

STATUSES = {
    "400": "The request is not as it must be; `field` says where",
    "401": "A key is needed, or is not known",
    "403": "The key lacks the scope; or, without keys, the host is not this machine",
    "404": "Nothing is known by this id, or there is nothing at this address",
    "408": "The body took too long to arrive",
    "413": "The body is too long",
    "415": "The body is of another type",
    "429": "Too many requests, of this key or at a time",
    "503": "The service is starting or stopping, or a part of it has failed",
    "507": "No space for clicks; recommendations go on",
}


def document(endpoints: Iterable[Endpoint], limits: Limits) -> dict[str, Any]:
    """Return the document that describes these endpoints."""
    shown = [endpoint for endpoint in endpoints if endpoint.path not in ("/", "/docs")]
    types = _types(shown)
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    schema_of = {id(type_): schema for type_, schema in zip(types, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for endpoint in shown:
        operation = _operation(endpoint, schema_of, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nextclick",
            "version": __version__,
            "summary": "Recommendations in anonymous sessions that learn from every click",
            "description": _limits(limits),
        },
        "paths": paths,
        "components": {
            "schemas": {name: _plain(schema) for name, schema in components.items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(endpoints: Iterable[Endpoint]) -> list[Any]:
    types: list[Any] = [ErrorBody]
    for endpoint in endpoints:
        types += [
            type_
            for type_ in (endpoint.body, *_either(endpoint.answer), endpoint.options)
            if type_ is not None and not any(type_ is known for known in types)
        ]
    return types


def _either(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _operation(
    endpoint: Endpoint, schema_of: dict[int, Any], components: dict[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done"}
    if endpoint.answer is not None or endpoint.gives != JSON:
        either = [
            schema_of.get(id(type_), {"type": "string"}) for type_ in _either(endpoint.answer)
        ]
        schema = either[0] if len(either) == 1 else {"anyOf": either}
        answer["content"] = {endpoint.gives.partition(";")[0]: {"schema": schema}}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _name(endpoint),
        "parameters": [*_places(endpoint), *_options(endpoint, components)],
        "responses": {"200": answer, **_errors(endpoint)},
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {endpoint.takes: {"schema": schema_of[id(endpoint.body)]}},
        }
    if endpoint.takes != JSON:
        # A line has this schema; the whole body is text.
        operation["requestBody"]["content"] = {endpoint.takes: {"schema": {"type": "string"}}}
    if endpoint.scope is not None:
        operation["security"] = [{"key": []}, {}]
        operation["description"] = f"Needs a key with the scope `{endpoint.scope}`."
    return operation


def _errors(endpoint: Endpoint) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}
    possible = {"400", "404"} if "{" in endpoint.path else {"400"}
    if endpoint.scope is not None:
        possible |= {"401", "403", "429", "503"}
    if endpoint.path.startswith("/health/"):
        possible |= {"503"}
    if endpoint.body is not None:
        possible |= {"408", "413", "415"}
    if endpoint.scope == "write":
        possible |= {"507"}
    return {
        status: {"description": STATUSES[status], "content": error} for status in sorted(possible)
    }


def _places(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {
            "name": segment[1:-1],
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 1024},
        }
        for segment in endpoint.segments
        if segment.startswith("{")
    ]


def _options(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    if endpoint.options is NoOptions:
        return []
    schema = components[endpoint.options.__name__]
    return [
        {"name": name, "in": "query", "schema": property_}
        for name, property_ in schema["properties"].items()
    ]


def _name(endpoint: Endpoint) -> str:
    words = re.findall(r"[a-z0-9]+", endpoint.path.removeprefix("/v1").replace("_id", ""))
    return "_".join([endpoint.method.lower(), *words])


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its description as one paragraph or more, without indentation."""
    if "description" in schema:
        schema = {**schema, "description": cleandoc(schema["description"]).split("\n\nParam")[0]}
    return schema


def _limits(limits: Limits) -> str:
    rows = [f"- `{name}`: {value:,}" for name, value in limits.model_dump().items()]
    return "\n".join(["Limits of this service, by the names that refusals use:", "", *rows])
