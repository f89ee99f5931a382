"""Routes for whoever runs the service: the model, its versions, health, metrics."""

from __future__ import annotations

import resource
import sys
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ordbm.serve.answer_json import learns_presence
from ordbm.serve.answer_schema import ModelAnswer
from ordbm.serve.item_features import learnt_features
from ordbm.serve.model_versions import activate, all_versions
from ordbm.serve.person import rating_names
from ordbm.serve.picture_json import popularity_deciles, rating_range
from ordbm.serve.problems import Problem, problem_answers, unavailable
from ordbm.serve.quality import quality
from ordbm.serve.service import InService, Service, answered, may
from ordbm.serve.service_metrics import gauge_lines
from ordbm.serve.update_trigger import pending_of

MODEL = APIRouter(
    prefix="/v1/model",
    tags=["model"],
    responses=problem_answers(400, 401, 403, 404, 409, 421, 422, 429, 500, 503, 507),
)
HEALTH = APIRouter(tags=["health"], responses=problem_answers(401, 403, 429, 500, 503))


@MODEL.get("", response_model=ModelAnswer, dependencies=[Depends(may("read"))])
async def get_model(service: InService, request: Request) -> Any:
    """Which model answers, and what it was learnt from."""

    def work() -> dict[str, Any]:
        served = service.slot.now()
        model, state = served.model, served.model._state
        pending = pending_of(service.store, served)
        return {
            "version": served.version.name,
            "ready": True,
            "scale": {
                "text": str(model.scale),
                "levels": rating_names(model.scale),
                "range": rating_range(model),
            },
            "users": int(state.rated_users.sum()),
            "items": int(state.rated_items.sum()),
            "ratings": len(state.given.by_user.column),
            "machine": repr(model),
            "learnt": model.origin._asdict(),
            "item_features": learnt_features(model),
            "presence": learns_presence(model),
            "popularity_deciles": popularity_deciles(model),
            "pending": pending,
        }

    found = await service.workroom.do(work)
    return answered(request, found, etag=f"{found['version']}+{found['pending']}")


@MODEL.get("/versions", dependencies=[Depends(may("admin"))])
async def get_versions(service: InService, request: Request) -> Any:
    """All versions, the newest first, with what was measured before each took over."""
    found = await service.workroom.do(lambda: service.store.read(all_versions))
    return answered(request, {"versions": [one.described() for one in found]})


@MODEL.post("/versions/{number}/activate", dependencies=[Depends(may("admin"))])
async def activate_version(
    service: InService, number: Annotated[int, Path(ge=1, le=2**31 - 1)]
) -> Any:
    """Let a version that was kept answer again; what came since it stays conditioned on."""

    def work() -> dict[str, Any]:
        found = service.store.write(lambda connection: activate(connection, number))
        if found is None:
            raise Problem(404, "there is no version of this number to go back to")
        return found.described()

    return JSONResponse(await service.workroom.do(work))


@MODEL.post("/update", status_code=202, dependencies=[Depends(may("admin"))])
async def update_model(service: InService) -> Any:
    """Learn from what has come since, in another process; the versions tell when it has ended."""
    if not await service.workroom.do(service.trigger.start):
        raise Problem(409, "an update is under way")
    return JSONResponse({"update": "started"}, 202)


@MODEL.get("/quality", dependencies=[Depends(may("admin"))])
async def get_quality(
    service: InService, request: Request, newest: Annotated[int, Query(ge=1, le=1000)] = 200
) -> Any:
    """How the newest ratings agree with what is predicted of them, each left out of its own."""

    def work() -> dict[str, Any]:
        return quality(service.store, service.slot.now(), newest)

    return answered(request, await service.workroom.do(work))


@HEALTH.get("/health/live", response_model=dict[str, str])
async def live() -> Any:
    """Whether the process answers at all."""
    return JSONResponse({"status": "live"})


@HEALTH.get("/health/ready", response_model=dict[str, str])
async def ready(service: InService) -> Any:
    """Whether every worker has a model that is warm, and the database answers."""
    version = service.slot.now().version.name
    if not service.is_ready:
        raise unavailable("the model is being loaded")
    if not await service.side_room.do(service.store.answers):
        raise Problem(503, "the database does not answer", headers={"Retry-After": "1"})
    return JSONResponse({"status": "ready", "model": version})


@HEALTH.get("/metrics", response_class=PlainTextResponse, dependencies=[Depends(may("read"))])
async def metrics(service: InService) -> Response:
    """Counters for Prometheus, of all workers together."""
    lines = [*service.metrics.lines(), *gauge_lines(await _gauges(service))]
    return PlainTextResponse(
        "\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def _gauges(service: Service) -> dict[str, tuple[str, float]]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {
        "ready": ("Whether this worker has a model.", float(service.slot.is_ready)),
        "work_taken": ("Requests of this worker that wait or are worked on.",
                       float(service.question_room.taken + service.workroom.taken)),
        "worker_peak_bytes": ("Most memory that this worker has had.",
                              float(peak * (1 if sys.platform == "darwin" else 1024))),
    }  # fmt: skip
    if service.slot.is_ready:
        served = service.slot.now()
        version = served.version
        found["model_version"] = ("The number of the version that answers.", version.number)
        if await service.side_room.do(service.store.answers):
            pending = await service.side_room.do(lambda: pending_of(service.store, served))
            found["pending_changes"] = ("Changes that are not in the parameters yet.", pending)
    return found
