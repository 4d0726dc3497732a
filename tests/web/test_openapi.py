"""Requests that schemathesis makes of /openapi.json: what fits it is answered as it says, or refused for what is served."""

import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import wordpipe
from wordpipe.web import endpoint

pytestmark = pytest.mark.oracle

_CASES = 25  # of each operation
OF_WHAT_IS_SERVED = re.compile(
    # one parameter beside another one, which a URL has no schema for
    r"the query is empty|needs row or id, not both|needs stream|needs (another )?mode|cannot be used with"
    r"|k with explain|number of queries"
    # what an artifact has
    r"|there is no artifact named|does not support|no mask to fill|is a pair|no attention of this kind|no head with this"
    r"|no layer with this|no vector|too few different|has no character|dimensions: out of bounds|no column|has no fields"
    r"|no field with this name|only an index over texts|have no ids|unknown attribute"
    # a language of its own: times, values of a field, messages of the Model Context Protocol (and conditions, see below)
    r"|not a condition|does not fit the columns|should be a time|a message is an object|a message needs a method"
)
"""What a request that fits the document may still be refused for."""


def test_what_fits_the_document_is_answered_as_it_says(built, records, heads):
    schemathesis = pytest.importorskip("schemathesis", reason="not installed: pip install schemathesis")
    artifacts = [f"records={records}", *(built / name for name in ("index", "words", "sentences", "model"))]
    statuses, wrong = Counter(), []
    with wordpipe.serve([*artifacts, heads / "clm", heads / "colours"], port=0, timeout=3) as server:
        document = schemathesis.openapi.from_url(server.url + "/openapi.json")
        for operation in (one.ok() for one in document.get_all_operations()):

            @settings(max_examples=_CASES, deadline=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
            @given(case=operation.as_strategy())
            def ask(case):
                reply = case.call(timeout=60)
                statuses[reply.status_code] += 1
                said = reply.content.decode()
                if reply.status_code in (202, 503):  # a notification to /mcp; documented
                    return
                try:
                    case.validate_response(reply)
                except schemathesis.errors.FailureGroup:
                    has_condition = (case.body if isinstance(case.body, dict) else case.query).get("where")
                    may_be_refused = OF_WHAT_IS_SERVED.search(said) or has_condition
                    if reply.status_code not in (400, 422, 424) or not may_be_refused:
                        wrong.append((case.as_curl_command(), reply.status_code, said))

            ask()
    assert not wrong, (len(wrong), wrong[0])
    assert statuses[200] > 5 * len(endpoint.TABLE)
