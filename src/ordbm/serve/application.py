"""The application: routes, problems, the page, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.gzip import GZipMiddleware

import ordbm
from ordbm.serve import (
    bulk_routes,
    item_routes,
    operation_routes,
    person_routes,
    picture_routes,
    predict_together,
    question_routes,
)
from ordbm.serve.gathering import Gathering
from ordbm.serve.guard import Guard
from ordbm.serve.page_files import PageFiles
from ordbm.serve.problems import add_problem_handlers
from ordbm.serve.service import Service
from ordbm.serve.service_metrics import ServiceMetrics
from ordbm.serve.service_settings import is_loopback
from ordbm.serve.tracing import FRAMEWORKS_OWN

_ROUTERS = (
    question_routes.QUESTIONS,
    person_routes.PEOPLE,
    item_routes.CATALOGUE,
    picture_routes.PICTURES,
    bulk_routes.BULK,
    operation_routes.MODEL,
    operation_routes.HEALTH,
)


def application(service: Service) -> Any:
    """The ASGI application of a worker."""
    settings = service.settings

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.end()

    app = FastAPI(
        title="ordbm",
        version=ordbm.__version__,
        summary="Ratings in, distributions and lists out, by an ordinal Boltzmann machine.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they would fetch scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        telemetry=FRAMEWORKS_OWN,
    )
    app.state.service = service
    add_problem_handlers(app, _methods_at)
    for router in _ROUTERS:
        app.include_router(router)
    service.metrics = ServiceMetrics(service.run_folder, route_names())
    service.predicting = Gathering(
        service.question_room,
        lambda questions: predict_together.predict_together(service, questions),
        predict_together.MOST_QUESTIONS,
    )
    app.mount("/", PageFiles(), name="page")
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    return Guard(
        app,
        keys=service.keys,
        local_only=is_loopback(settings.host) and service.keys is None,
        rate=settings.rate,
        max_body=settings.max_body,
        max_import=settings.max_import,
        timeout=settings.timeout,
        count=service.metrics.count,
    )


def _routes() -> Iterator[APIRoute]:
    for router in _ROUTERS:
        yield from (route for route in router.routes if isinstance(route, APIRoute))


def _methods(route: APIRoute) -> set[str]:
    return route.methods or set()


def route_names() -> list[str]:
    """The method and path of each route of the API."""
    return [f"{method} {route.path}" for route in _routes() for method in sorted(_methods(route))]


def _methods_at(scope: Any) -> set[str]:
    """The methods of the API's routes at an address."""
    path = scope["path"]
    return set().union(*(_methods(one) for one in _routes() if one.path_regex.fullmatch(path)))
