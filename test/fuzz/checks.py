"""What every answer of a gateway must be, as checks of schemathesis; AGENTTURN_SCOPE is what the token of the run is for."""

import json
import os

import schemathesis

CODES = set(json.loads(os.environ["AGENTTURN_CODES"]))
SCOPE = os.environ["AGENTTURN_SCOPE"]


@schemathesis.check
def problem_of_the_catalogue(ctx, response, case):
    """No 5xx, and every error is a problem with a code of the catalogue."""
    status = response.status_code
    assert status < 500, f"{status}: {response.text[:300]}"
    if status < 400:
        return
    kind = response.headers.get("content-type", [""])[0]
    assert kind == "application/problem+json", f"{status} is {kind}"
    code = response.json().get("code")
    assert code in CODES, f"{status} has the code {code}"


@schemathesis.check
def closed_without_scope(ctx, response, case):
    """An operation that needs another scope than the token has is refused, whatever else is wrong."""
    security = case.operation.definition.raw.get("security") or []
    wanted = [scope for each in security for scope in each.get("bearer", [])]
    if SCOPE == "all" or not wanted or SCOPE in wanted:
        return
    assert response.status_code >= 400, f"{response.status_code} for scope {SCOPE}, and {wanted} is needed"
