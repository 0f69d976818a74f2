"""Compares the server's responses with openapi.json. Checks every response of the integration run, and the responses to
requests that Schemathesis generates."""

import email.parser
import http
import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import referencing
import referencing.jsonschema

from client import token
from processes import UNLIMITED, Folder, Server, arguments
from report import Report

HERE = pathlib.Path(__file__).resolve().parent
DESCRIPTION = HERE.parents[1] / "Sources" / "API" / "Pages" / "openapi.json"
URI = "urn:dwell:openapi"


class Description:
    """The rules of openapi.json that a response must follow."""

    def __init__(self, document):
        self.document = document
        resource = referencing.Resource(document, referencing.jsonschema.DRAFT202012)
        self.registry = referencing.Registry().with_resource(URI, resource)
        self.templates = [
            (re.compile("^" + re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path)) + "$"), path)
            for path in sorted(document["paths"], key=lambda path: path.count("{"))
        ]
        self.validators = {}

    def resolve(self, value):
        while "$ref" in value:
            found = self.document
            for part in value["$ref"][2:].split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            value = found
        return value

    def operation(self, method, path):
        for pattern, template in self.templates:
            if pattern.match(path):
                item = self.document["paths"][template]
                return item.get("get" if method == "HEAD" else method.lower())
        return None

    def problems(self, method, path, status, fields, body):
        """Returns the differences between this response and the description; an empty list if there are none."""
        if path.endswith((".css", ".js")):
            # openapi.json does not describe the style sheets and scripts of pages.
            return []
        operation = self.operation(method, path)
        if operation is None:
            # openapi.json does not describe this operation, so no handler may have run. The response must be the answer
            # to a preflight request (204), a rejection, or a 404.
            return [] if status in (204, 400, 404, 405, 414, 431, 501, 505) else ["this operation is not described"]
        if status == 405:
            return []
        response = operation["responses"].get(str(status))
        if response is None:
            return [f"status {status} is not described"]
        response = self.resolve(response)
        return self.field_problems(response, fields) + self.body_problems(method, response, fields, body)

    def field_problems(self, response, fields):
        problems = []
        for name, field in response.get("headers", {}).items():
            field = self.resolve(field)
            values = fields.get_all(name) or []
            if not values and field.get("required"):
                problems.append(f"{name} is missing")
            for value in values:
                if field["schema"].get("type") == "integer" and re.fullmatch("[0-9]+", value):
                    value = int(value)
                problems += self.invalid(field["schema"], value, name)
        return problems

    def body_problems(self, method, response, fields, body):
        content = response.get("content", {})
        media_type = (fields.get("Content-Type") or "").split(";")[0].strip()
        if method == "HEAD":
            return []
        if not content:
            return [f"a body of {len(body)} bytes where none is described"] if body else []
        if media_type not in content:
            return [f"the media type {media_type!r} is not described"]
        if not media_type.endswith("json"):
            return []
        try:
            value = json.loads(body)
        except ValueError as error:
            return [f"the body is no JSON: {error}"]
        return self.invalid(content[media_type].get("schema", {}), value, "the body")

    def invalid(self, schema, value, what):
        return [f"{what} at {error.json_path}: {error.message[:300]}" for error in self.validator(schema).iter_errors(value)]

    def validator(self, schema):
        text = json.dumps(schema)
        if text not in self.validators:
            # References within the schema are resolved from the document's base URI.
            self.validators[text] = jsonschema.Draft202012Validator(
                json.loads(text.replace('"#/', f'"{URI}#/')), registry=self.registry,
                format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        return self.validators[text]


def exchanges(folder):
    for file in sorted(pathlib.Path(folder).iterdir()):
        asked, _, rest = file.read_bytes().partition(b"\n")
        method, _, target = asked.decode(errors="replace").partition(" ")
        # Skip an interim response (100) before the final response.
        while True:
            head, _, body = rest.partition(b"\r\n\r\n")
            status_line, _, lines = head.partition(b"\r\n")
            parts = status_line.split(b" ", 2)
            if len(parts) < 2 or not parts[1].isdigit():
                break
            status = int(parts[1])
            if status >= 200:
                yield method, target.split("?")[0], status, email.parser.BytesHeaderParser().parsebytes(lines + b"\r\n"), body
                break
            rest = body


def check_run(report, description, folder):
    count, findings = 0, {}
    seen = set()
    for method, path, status, fields, body in exchanges(folder):
        count += 1
        seen.add(status)
        for problem in description.problems(method, path, status, fields, body):
            findings.setdefault(f"{method} {path} -> {status}: {problem}", body[:200])
    report.note(f"{count} answers of this run, of {len(seen)} statuses, held against openapi.json")
    report.check(count > 0, "the run left answers to check")
    report.check(not findings, "every answer of the run is one that openapi.json describes",
                 *[f"{finding} {body!r}" for finding, body in sorted(findings.items())])


def check_that_it_can_fail(report, description):
    fields = email.parser.BytesHeaderParser().parsebytes(b"Content-Type: application/json\r\nX-Request-Id: a\r\n\r\n")
    wrong = description.problems("GET", "/healthz", http.HTTPStatus.OK, fields, b'{"status":"fine"}')
    report.check(wrong != [], "an answer that is not described is found")
    report.check(failure_lines("= X =\n\n1 test\n==== FAILURES ====\n__ GET /a __\nwrong\n") == [
        "= FAILURES ====", "__ GET /a __", "wrong"], "the failures of Schemathesis are shown")
    report.check(failure_lines("= X =\n\ncannot start\n") == ["= X =", "cannot start"],
                 "without a list of failures, the end of its output is shown")


def failure_lines(output):
    """Returns the output of Schemathesis from its list of failures on, or the last fifteen lines if there is no list.
    Leaves out empty lines and separators, because the report prints at most twenty lines."""
    begin = output.find("= FAILURES")
    lines = [line for line in output[max(begin, 0):].splitlines() if line.strip(" =_")]
    return lines if begin >= 0 else lines[-15:]


def check_made_up(report, options):
    """Runs Schemathesis against a separate server."""
    examples = max(10, round(60 * options.scale))
    # Without METRICS_TOKEN, the path /metrics would not exist. With it, /metrics rejects the tokens of these requests.
    environment = {**UNLIMITED, "RATE_LIMIT_AUTH": "0", "METRICS_TOKEN": "a-token-for-the-made-up-requests"}
    with Folder() as folder, Server(options, folder, environment) as server:
        run = subprocess.run(
            [
                pathlib.Path(sys.executable).with_name("schemathesis"), "--config-file", HERE / "schemathesis.toml",
                "run", f"http://127.0.0.1:{server.port}/openapi.json", "--no-color", "--max-examples", str(examples),
                "--suppress-health-check", "all", "-H", f"Authorization: Bearer {token('made-up')}",
            ],
            cwd=server.folder, env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, text=True, timeout=900, check=False)
        summary = [line.strip() for line in run.stdout.splitlines() if "generated" in line]
        report.note(f"Schemathesis: {'; '.join(summary) or 'no summary'}")
        report.check(run.returncode == 0, "Schemathesis finds nothing", *failure_lines(run.stdout), run.stderr[-2000:])
        report.check(server.is_alive(), "the server is still there")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("description")
    description = Description(json.loads(DESCRIPTION.read_text()))
    check_that_it_can_fail(report, description)
    if folder := os.environ.get("DWELL_EXCHANGES"):
        check_run(report, description, folder)
    # This check turns the rate limits off, so Redis makes no difference to it. A run with Redis therefore skips it.
    if not options.redis_url:
        check_made_up(report, options)
    report.exit()


main()
