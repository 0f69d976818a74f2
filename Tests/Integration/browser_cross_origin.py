#!/usr/bin/env python3
"""Tests a web page of another origin, which calls the server with fetch in Chromium. The page can use the server only
if CORS_ALLOWED_ORIGINS contains the page's origin."""

import contextlib
import http.server
import json
import secrets
import threading
import time

from chromium import Chromium
from client import token
from phones import rfc3339
from processes import Folder, Server, arguments
from report import Report

PAGE = b"<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>Another origin</title>"

# Makes the calls. Returns the status, body and readable fields of each response, or the error of the call.
CALLS = r"""
const [server, token, calls, done] = arguments;
const names = ["RateLimit", "RateLimit-Policy", "Retry-After", "ETag", "X-Request-Id", "Idempotent-Replayed"];
(async () => {
    const results = {};
    for (const [name, path, options] of calls) {
        if (options.bodyBytes) options.body = "x".repeat(options.bodyBytes);
        const headers = { Authorization: `Bearer ${token}`, ...options.headers };
        if (options.body) headers["Content-Type"] = "application/json";
        try {
            const answer = await fetch(server + path, { ...options, headers });
            const text = await answer.text();
            let json = null;
            try { json = JSON.parse(text); } catch { }
            results[name] = { status: answer.status, json, fields: Object.fromEntries(names.map((each) => [each, answer.headers.get(each)])) };
        } catch (error) {
            results[name] = { error: String(error) };
        }
    }
    return results;
})().then(done, (error) => done({ error: String(error) }));
"""

# Opens the stream and reads `count` messages. If `event` is given, posts it after the first message.
STREAM = r"""
const [server, token, lastEventID, count, event, done] = arguments;
(async () => {
    const headers = { Authorization: `Bearer ${token}` };
    const stop = new AbortController();
    const resuming = lastEventID === null ? {} : { "Last-Event-ID": lastEventID };
    const answer = await fetch(server + "/native/session/stream", { headers: { ...headers, ...resuming }, signal: stop.signal });
    const messages = [];
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; messages.length < count;) {
        const piece = await reader.read();
        if (piece.done) break;
        text += piece.value;
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
            const data = text.slice(0, end).split("\n").find((line) => line.startsWith("data: "));
            if (!data) continue;
            messages.push(JSON.parse(data.slice(6)));
            if (event && messages.length === 1) await fetch(server + "/native/events", { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: event });
        }
    }
    stop.abort();
    return { status: answer.status, states: messages.map((message) => message.state) };
})().then(done, (error) => done({ error: String(error) }));
"""


@contextlib.contextmanager
def page():
    """Serves one empty page and yields its origin."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def event(name="chargerTargeted", **more):
    now = rfc3339(int(time.time() * 1000))
    return json.dumps({"event_id": secrets.token_hex(8), "event": name, "occurred_at": now, "charger_id": "c-1", **more})


def post(body, **more):
    return {"method": "POST", "body": body, **more}


def calls():
    first = event()
    keyed = {"X-Sent-At": rfc3339(int(time.time() * 1000)), "X-Request-Id": "from-the-page"}
    return [
        ("stored", "/native/events", post(first, headers=keyed)),
        ("with credentials", "/native/events", post(first, credentials="include")),
        ("wrong", "/native/events", post("{}")),
        ("too long", "/native/events", {"method": "POST", "bodyBytes": 70_000}),
        ("not signed in", "/native/session", {"headers": {"Authorization": "Bearer none"}}),
        ("no such path", "/native/nowhere", post("{}")),
        ("wrong method", "/native/events", {"method": "DELETE"}),
        ("settings", "/native/config", {}),
        ("limited", "/native/events", post(event())),
    ]


def allowed(report, results):
    def expect(name, status, what, *fields, code=None):
        result = results.get(name, {})
        holds = result.get("status") == status and all(result["fields"].get(field) for field in fields)
        holds = holds and (code is None or (result["json"] or {}).get("code") == code)
        report.check(holds, what, json.dumps(result))

    expect("stored", 200, "an event is stored", "RateLimit", "RateLimit-Policy", "X-Request-Id")
    report.check(results["stored"].get("fields", {}).get("X-Request-Id") == "from-the-page", "and the page's own request id comes back")
    expect("with credentials", 200, "the page may include credentials, and sees that it was a repeat", "Idempotent-Replayed")
    expect("wrong", 400, "a problem of a handler is read", "X-Request-Id", code="validation_failed")
    expect("too long", 413, "a problem of the HTTP layer is read", "X-Request-Id", code="content_too_large")
    expect("not signed in", 401, "so is 401", code="unauthorized")
    expect("no such path", 404, "so is 404 of a path that is not there", code="not_found")
    expect("wrong method", 405, "so is 405", code="method_not_allowed")
    expect("settings", 200, "the settings' ETag is read", "ETag")
    expect("limited", 429, "Retry-After of a 429 is read", "Retry-After", "RateLimit", code="rate_limited")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("browser_cross_origin")
    with Folder() as folder, page() as origin, page() as stranger, Chromium() as browser:
        environment = {"CORS_ALLOWED_ORIGINS": f"https://app.example.org, {origin}", "RATE_LIMIT_PRESESSION_EVENTS": "1",
                       "RATE_LIMIT_SESSION_EVENTS": "0"}
        with Server(options, folder, environment) as server:
            address = f"http://127.0.0.1:{server.port}"
            browser.open(origin)
            allowed(report, browser.driver.execute_async_script(CALLS, address, token("a"), calls()))
            stream = browser.driver.execute_async_script
            streamed = stream(STREAM, address, token("b"), None, 2, event("enteredChargerIntentZone"))
            report.check(streamed == {"status": 200, "states": ["IDLE", "NEAR_CHARGER"]},
                         "the stream is followed with fetch, and tells of the page's own event", streamed)
            resumed = stream(STREAM, address, token("b"), "0", 1, None)
            report.check(resumed == {"status": 200, "states": ["NEAR_CHARGER"]}, "and goes on behind an id", resumed)
            browser.open(stranger)
            results = browser.driver.execute_async_script(CALLS, address, token("c"), calls())
            report.check(results and all(list(result) == ["error"] for result in results.values()),
                         "a page of an origin that is not allowed reads nothing", json.dumps(results))
            report.check(all(driver != "c" for driver, _ in server.stored_keys()), "and has stored nothing")
    report.exit()


main()
