#!/usr/bin/env python3
"""Tests two clients that generators make from the openapi.json of a running server. Each client must have every
operation. Each posts single events, events on the v1 routes and a batch, and parses the responses into its types."""

import contextlib
import datetime
import importlib
import json
import pathlib
import secrets
import subprocess
import sys

from client import Client, token
from processes import UNLIMITED, Folder, Server, arguments
from report import Report

METHODS = ("get", "put", "post", "patch", "delete")
BIN = pathlib.Path(sys.executable).parent
# If a generator prints one of these texts, the generator left something out.
DROPPED = ("will not be generated", "will be omitted", "Unable to", "Failure to process", "Could not find",
           "not supported", "Exception", "ERROR")


def generate(report, name, words, folder, operations, count):
    """Runs the generator and checks the client. `count` is a function that counts the operations in the client."""
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    said = run.stdout + run.stderr
    report.check(run.returncode == 0, f"{name} takes the description", said[-3000:])
    lines = [line for line in said.splitlines() if any(word in line for word in DROPPED)]
    report.check(not lines, f"{name} leaves nothing out", *lines)
    found = count()
    report.check(found == operations, f"{name} makes each of {operations} operations", f"{found} were made")


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def members(event, **more):
    return {"event": event, "occurred_at": now(), "timestamp": now(), **more}


# --- openapi-python-client ----------------------------------------------------------------------------------------


def openapi_python_client(report, folder, operations):
    (folder / "settings.yaml").write_text("post_hooks: []\n")
    package = folder / "attrs_client"
    generate(report, "openapi-python-client",
             [BIN / "openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none", "--config",
              "settings.yaml", "--output-path", package.name], folder, operations,
             lambda: sum(path.name != "__init__.py" for path in package.glob("api/*/*.py")))


class AttrsClient:
    """The calls of the generated client, as its user writes them."""

    def __init__(self, address, access_token):
        self.models = importlib.import_module("attrs_client.models")
        self.client = importlib.import_module("attrs_client.client").AuthenticatedClient(address, access_token)

    def call(self, operation, body, **headers):
        answer = importlib.import_module(f"attrs_client.api.events.{operation}").sync(
            client=self.client, body=body, **headers)
        return answer

    def event(self, model, name, **more):
        return getattr(self.models, model)(**members(name, **more))

    def batch(self, events):
        return self.call("post_event_batch", self.models.Batch(events=events)).results

    def problem(self, operation, body):
        return self.call(operation, body)


# --- openapi-generator --------------------------------------------------------------------------------------------


def openapi_generator(report, folder, operations):
    package = folder / "pydantic_client"

    def count():
        text = "".join(path.read_text() for path in package.glob("api/*_api.py"))
        return text.count("_with_http_info(\n        self,")

    generate(report, "openapi-generator",
             [BIN / "openapi-generator-cli", "generate", "-g", "python", "-i", "openapi.json", "-o", ".",
              "--package-name", package.name], folder, operations, count)


class PydanticClient:
    def __init__(self, address, access_token):
        self.models = importlib.import_module("pydantic_client")
        configuration = self.models.Configuration(host=address, access_token=access_token)
        self.api = self.models.EventsApi(self.models.ApiClient(configuration))

    def call(self, operation, body, **headers):
        return getattr(self.api, operation)(body, **headers)

    def event(self, model, name, **more):
        return getattr(self.models, model)(**members(name, **more))

    def batch(self, events):
        return [result.actual_instance for result in self.call("post_event_batch", self.models.Batch(events=events)).results]

    def problem(self, operation, body):
        try:
            self.call(operation, body)
        except self.models.ApiException as error:
            return error.data
        return None


# --- checks of both clients ---------------------------------------------------------------------------------------


def text(value):
    return getattr(value, "value", value)


def check_calls(report, name, client):
    def expect(answer, what, state, status="ok", key=None):
        holds = isinstance(answer, client.models.EventAnswer) and text(answer.status) == status
        holds = holds and text(answer.session.state) == state and text(answer.session.transition) == "applied"
        report.check(holds and key in (None, answer.event_id), f"{name}: {what}", answer)

    key = f"key of {name}"
    first = client.event("Event", "enteredChargerIntentZone", charger_id="c-1", sequence=1,
                         app_state=client.models.AppState.FOREGROUND)
    headers = {"idempotency_key": key, "x_sent_at": now().isoformat()}
    expect(client.call("post_event", first, **headers), "an event with its key in the header", "NEAR_CHARGER", key=key)
    expect(client.call("post_event", first, **headers), "the same again", "NEAR_CHARGER", "already_processed", key)
    second = client.event("PreSessionEventV1", "anchor_dwell_complete", event_id=secrets.token_hex(8))
    expect(client.call("post_pre_session_event_v1", second), "a pre-session event of v1", "ANCHORED")
    third = client.event("SessionEventV1", "exclusive_activated", event_id=secrets.token_hex(8), session_id=f"s-{name}")
    expect(client.call("post_session_event_v1", third), "a session event of v1", "SESSION_ACTIVE")

    session = {"session_id": f"s-{name}"}
    events = [client.event("Event", "departed_charger", event_id=f"batch of {name}", **session),
              client.event("Event", "entered_merchant_zone", event_id=f"batch of {name}", **session)]
    stored, refused = client.batch(events)
    report.check(isinstance(stored, client.models.BatchedEvent) and stored.status_code == 200
                 and text(stored.session.state) == "IN_TRANSIT", f"{name}: a typed batch, the event that is stored", stored)
    report.check(isinstance(refused, client.models.BatchedProblem) and refused.status_code == 422
                 and text(refused.code) == "idempotency_key_reused", f"{name}: and the one that is refused", refused)

    problem = client.problem("post_event", client.event("Event", "chargerTargeted"))
    report.check(isinstance(problem, client.models.Problem) and text(problem.code) == "validation_failed"
                 and problem.errors[0].pointer, f"{name}: a problem", problem)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("generated_clients")
    with Folder() as folder, Server(options, folder, UNLIMITED) as server, contextlib.ExitStack() as stack:
        with Client(server.port, None) as client:
            description = client.request("GET", "/openapi.json").body
        paths = json.loads(description)["paths"]
        operations = sum(method in METHODS for item in paths.values() for method in item)
        address = f"http://127.0.0.1:{server.port}"
        for make, kind in ((openapi_python_client, AttrsClient), (openapi_generator, PydanticClient)):
            name = make.__name__.replace("_", "-")
            made = stack.enter_context(Folder())
            (made / "openapi.json").write_bytes(description)
            make(report, made, operations)
            sys.path.insert(0, str(made))
            report.run(f"{name}: its calls", lambda: check_calls(report, name, kind(address, token(name))))
    report.exit()


main()
