"""Ask a service whatever its OpenAPI document allows, and forbids, by all phases of schemathesis:

    PYTHONPATH=tests python tools/fuzz_service.py [--examples 50] [--page api-fuzzing.md]

Examples of the document, its boundary values, values drawn at random, and chains of requests. The
service has keys, and the requests one that may do everything. No answer may be an error of the
service, and each must be as the document says. Exit status 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ordbm.serve.key_ring import SCOPES, add_key
from service_runs import Server, small_model  # type: ignore[import-not-found]

TOOLS = str(Path(__file__).parent)
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "missing_required_header",
    "unsupported_method", "allow_header_conformance", "ignored_auth",
)  # fmt: skip
NOT_MEANT = {
    "positive_data_acceptance": "an id or a rating that this model does not know is a 422",
    "negative_data_rejection": "parameters of an address that nothing asks for are ignored",
    "use_after_free": "who was deleted may come back, and a rating withdrawn twice is no error",
    "ensure_resource_availability": "the same",
    "object_level_authorization": "keys belong to applications, not to people",
}


def fuzzed(examples: int, seed: int, folder: Path) -> tuple[int, str, Counter[int], list[str]]:
    """How schemathesis ends and what it says; answers by status; lines of the log on errors."""
    model, keys, report = folder / "model.ordbm", folder / "keys", folder / "report"
    # Ids and ratings that are likely to be drawn, or all that is said would be not to know them.
    small_model(range(24), range(30), scale=(0, 1, 2, 3, 4, 5)).save(model)
    key = add_key(keys, "fuzz", list(SCOPES))
    with Server(model, "--workers", "2", "--key-file", str(keys), "--timeout", "60") as server:
        done = subprocess.run(
            [Path(sys.executable).with_name("schemathesis"), "run",
             f"{server.url}/v1/openapi.json", "-H", f"Authorization: Bearer {key}",
             "--phases", "examples,coverage,fuzzing,stateful", "--checks", ",".join(CHECKS),
             "--max-examples", str(examples), "--seed", str(seed), "--request-timeout", "120",
             "--continue-on-failure", "--suppress-health-check", "all", "--no-color",
             "--report-dir", report],
            capture_output=True, text=True, check=False, cwd=folder,
            env={**os.environ, "PYTHONPATH": TOOLS, "SCHEMATHESIS_HOOKS": "schemathesis_lines"},
        )  # fmt: skip
    lines = [json.loads(one) for one in server.log if one.startswith("{")]
    asked = [one for one in lines if one.get("message") == "request"]
    is_ready = [one["route"] == "/health/ready" and one["status"] == 200 for one in asked]
    asked = asked[is_ready.index(True) :]  # those before asked whether it was
    troubles = [one for one in lines if one["level"] == "error"]
    statuses = Counter(int(one["status"]) for one in asked)
    told = done.stdout + done.stderr
    return done.returncode, told, statuses, [json.dumps(one) for one in troubles]


def page(told: str, statuses: Counter[int], examples: int, seed: int) -> str:
    """The results as Markdown."""
    cases = re.search(r"Test cases:\n\s*(.+)", told)
    found: list[Any] = [
        "# A service asked at random",
        "",
        "Schemathesis asks whatever the OpenAPI document allows and forbids, on all routes and",
        "in all its phases: the document's examples, its boundaries, random values, and chains of",
        f"requests; {examples:,} examples a route and seed {seed}. Keys are needed, and sent.",
        "",
        "```text",
        "make fuzz-service",
        "```",
        "",
        f"{cases[1] if cases else told[-2000:]}.",
        "",
        "| status | answers |",
        "| ---: | ---: |",
        *(f"| {status} | {count:,} |" for status, count in sorted(statuses.items())),
        "",
        "Checked: " + ", ".join(f"`{one}`" for one in CHECKS) + ". Not meant here:",
        "",
        *(f"- `{name}`: {why}." for name, why in NOT_MEANT.items()),
    ]
    return "\n".join(found) + "\n"


def main() -> None:
    """Run it; the exit status says whether there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=50, help="at most, of each route")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", type=Path, help="where to write the results")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        exit_status, told, statuses, troubles = fuzzed(options.examples, options.seed, Path(folder))
    print(told[-8000:], *troubles, sep="\n")
    text = page(told, statuses, options.examples, options.seed)
    print(text)
    if options.page:
        options.page.write_text(text)
    sys.exit(exit_status or bool(troubles))


if __name__ == "__main__":
    main()
