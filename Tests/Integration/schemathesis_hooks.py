"""Corrects a request of Schemathesis if the description cannot express a rule or a generated value is wrong. The checks
stay the same, and requests that must be rejected stay invalid."""

import re

import schemathesis

KEYED = ("/native/events", "/v1/native/session-events", "/v1/native/pre-session-events")
SENT_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path in KEYED and case.headers:
        is_positive = case.meta is None or case.meta.generation.mode == schemathesis.GenerationMode.POSITIVE
        agree_on_the_key(case, is_positive)
        # Only the driver of the token is accepted.
        if is_positive and isinstance(case.body, dict) and isinstance(case.body.get("driver_id"), str):
            case.body["driver_id"] = "made-up"
        # The coverage phase of Schemathesis takes the value "0" for a valid X-Sent-At. The header's pattern does not
        # allow this value, so the hook removes the header.
        if is_positive and not SENT_AT.match(str(case.headers.get("X-Sent-At", ""))):
            case.headers.pop("X-Sent-At", None)


def agree_on_the_key(case, is_positive):
    """Removes Idempotency-Key if it might contradict the key in the body. Also removes it if the body was generated
    without a key, because the header would supply this key."""
    body = case.body if isinstance(case.body, dict) else {}
    has_key = isinstance(body.get("idempotency_key"), str)
    has_none = not has_key and not isinstance(body.get("event_id"), str)
    if has_none or has_key and is_positive:
        case.headers.pop("Idempotency-Key", None)
