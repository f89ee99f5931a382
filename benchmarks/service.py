"""How much a service answers, beside its own load generator on the same cores.

    .venv/bin/python benchmarks/service.py [--data ../shared/data/ml-1m.zip] [--requests 4000]

Each kind of question alone: as fast as can be, then at half of what is needed for the latencies,
and all as ratios to a route that answers a constant. Writes `benchmarks/results/service.json` and
`.md`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from load import Asked, run_load
from load import request as written
from served import CONNECTIONS, Service, options, served, write_results

GIVEN = 20
KINDS = {
    "constant": "a route that answers a constant",
    "predict": "one prediction for a known user",
    "recommend": "a list of ten of the whole catalogue for a known user",
    "new": f"the same for somebody whose {GIVEN} ratings come in the body",
    "put": "a rating stored",
}
SHARE = {"constant": 4.0, "predict": 4.0, "recommend": 1.0, "new": 0.25, "put": 0.5}
NEEDED = {"predict": 1000.0, "recommend": 200.0, "new": 50.0}


def questions(kind: str, model: Any, count: int, seed: int) -> list[Asked]:
    """So many requests of a kind."""
    rng = np.random.default_rng(seed)
    users, items = model.users, [one for one in model.items if model.known_items([one])[0]]
    levels = getattr(model.scale, "labels", None) or model.scale.values.tolist()

    def some(of: list[Any]) -> Any:
        return of[int(rng.integers(len(of)))]

    def one() -> bytes:
        if kind == "constant":
            return written("GET", "/health/live")
        if kind == "predict":
            return written("POST", "/v1/predict", {"user": some(users), "items": [some(items)]})
        if kind == "recommend":
            return written("POST", "/v1/recommend", {"user": some(users), "n": 10})
        if kind == "put":
            path = f"/v1/users/{rng.integers(10**6, 2 * 10**6)}/ratings/{some(items)}"
            return written("PUT", path, {"rating": some(levels)})
        given = {str(some(items)): some(levels) for _ in range(GIVEN)}
        return written("POST", "/v1/recommend", {"ratings": given, "n": 10})

    return [Asked(one()) for _ in range(count)]


def shared_out(asked: list[Asked]) -> list[list[Asked]]:
    """Among the connections."""
    return [asked[first::CONNECTIONS] for first in range(CONNECTIONS)]


def throughput(service: Service, model: Any, count: int) -> dict[str, Any]:
    """Rates of each kind alone, beside the constant; latencies at half of what is needed."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        many = max(CONNECTIONS, int(count * SHARE[kind]))
        run_load(service.place, shared_out(questions(kind, model, CONNECTIONS * 4, 1)))
        load = run_load(service.place, shared_out(questions(kind, model, many, 2)))
        half = NEEDED.get(kind, load.rate) / 2
        paced = run_load(service.place, shared_out(questions(kind, model, many // 2, 3)), half)
        found[kind] = {
            "rate": load.rate, "requests": load.requests, "wrong": load.wrong + paced.wrong,
            "paced_rate": half,
            "p50_ms": paced.milliseconds(0.5), "p99_ms": paced.milliseconds(0.99),
        }  # fmt: skip
        found[kind]["ratio"] = load.rate / found["constant"]["rate"]
        print(f"{kind}: {load.rate:,.0f}/s, p99 {found[kind]['p99_ms']:.1f} ms at {half:,.0f}/s")
    return found


def lines_of(found: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    lines = [
        "# How much a service answers",
        "",
        "| | a second | needed | of a constant's | p50, ms | p99, ms | at rate | not answered |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, one in found["throughput"].items():
        needed = f"{NEEDED[kind]:,.0f}" if kind in NEEDED else ""
        cells = f"{one['rate']:,.0f} | {needed} | {one['ratio']:.2f} | {one['p50_ms']:.1f} | "
        cells += f"{one['p99_ms']:.1f} | {one['paced_rate']:,.0f} | {len(one['wrong'])}"
        lines.append(f"| {KINDS[kind]} | {cells} |")
    return lines


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options(parser)
    parser.add_argument("--requests", type=int, default=4000, help="lists; of others in proportion")
    told = parser.parse_args()
    with served(told) as (service, model, about):
        found = {**about, "throughput": throughput(service, model, told.requests)}
    write_results("service", found, lines_of(found))


if __name__ == "__main__":
    main()
