#!/usr/bin/env python3
"""Tests links and pages: 404 without their settings, no start with a wrong setting, and new pages after SIGHUP.
proxies.py tests the right responses behind nginx and Caddy.

Also tests `dwell check-config --links` with a TLS server that returns right and wrong responses. Apple's and Google's
servers would reject the wrong ones."""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from client import Client
from processes import UNLIMITED, Folder, Server, arguments, wait_until
from proxies import LINKS, certificate, page_files
from report import Report

APPLE, ANDROID = "/.well-known/apple-app-site-association", "/.well-known/assetlinks.json"
PAGES = ("/privacy", "/terms", "/support")


def get(server, path, fields=None):
    with Client(server.port, None) as client:
        return client.request("GET", path, headers=fields)


def unset(report, options, folder):
    with Server(options, folder, UNLIMITED) as server:
        for path in (APPLE, ANDROID, *PAGES):
            answer = get(server, path)
            report.check(answer.status == 404 and json.loads(answer.body)["code"] == "not_found",
                         f"{path} is 404 without its setting", answer)


def wrong_at_start(report, options, folder):
    base = {"PATH": os.environ["PATH"], "DATABASE_PATH": str(folder / "dwell.sqlite3"), "HTTP_PORT": "0"}
    for name, value in (("LINK_APPS", "com.example.app"), ("LINK_PATHS", "open/*"), ("ANDROID_APPS", "com.example.app:AB"),
                        ("PRIVACY_FILE", str(folder / "missing.html")), ("TERMS_FILE", "/etc/hostname"), ("SUPPORT_FILE", str(folder))):
        run = subprocess.run([options.dwell.resolve(), "serve"], env={**base, name: value}, cwd=folder, capture_output=True, text=True, timeout=30)
        report.check(run.returncode == 78 and f"{name}=" in run.stderr and "is not allowed" in run.stderr,
                     f"{name}={value} prevents the start with a line that names it", run.returncode, run.stderr)


def lines_of(server, message):
    return [line for line in map(json.loads, server.log_path.read_text().splitlines()) if line["message"] == message]


def reload(server, message):
    before = len(lines_of(server, message))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(lines_of(server, message)) > before, 20, message)


def pages(report, options, folder):
    environment_file = folder / "settings.env"
    files = page_files(folder)
    environment_file.write_text("".join(f"{name}={path}\n" for name, path in files.items()))
    with Server(options, folder, {**UNLIMITED, "LOG_LEVEL": "info", "ENV_FILE": str(environment_file)}) as server:
        docs = get(server, "/docs")
        for path, kind in zip(PAGES, ("text/html", "text/plain", "text/plain")):
            answer = get(server, path)
            report.check(answer.status == 200 and answer.headers["content-type"] == f"{kind}; charset=utf-8"
                         and path[1:].encode() in answer.body, f"{path} is its file, as {kind}", answer)
            guards = ("content-security-policy", "x-content-type-options", "referrer-policy", "cache-control")
            report.check(all(answer.headers[guard] == docs.headers[guard] for guard in guards),
                         f"{path} has the header fields of /docs", answer.headers)
            tag = {"If-None-Match": answer.headers["etag"]}
            report.check(get(server, path, tag).status == 304, f"{path} is 304 while it is the same")

        old = get(server, "/privacy")
        (folder / "privacy.html").write_text("<p>A later privacy policy</p>")
        report.check(get(server, "/privacy").body == old.body, "a changed file has no effect before SIGHUP")
        reload(server, "pages reloaded")
        new = get(server, "/privacy", {"If-None-Match": old.headers["etag"]})
        report.check(new.status == 200 and b"later" in new.body and lines_of(server, "pages reloaded")[-1]["pages"] == "/privacy",
                     "after SIGHUP it has, and the log names the page", new, lines_of(server, "pages reloaded"))
        reload(server, "settings reloaded; no changes")
        report.check(len(lines_of(server, "pages reloaded")) == 1, "a reload without a change says nothing about pages")

        (folder / "terms.md").unlink()
        (folder / "privacy.html").write_text("<p>not in force</p>")
        reload(server, "settings not reloaded; previous settings stay in effect")
        problems = lines_of(server, "settings not reloaded; previous settings stay in effect")[-1]["problems"]
        report.check(get(server, "/terms").status == 200 and b"later" in get(server, "/privacy").body and "TERMS_FILE" in str(problems),
                     "a file that is missing at SIGHUP changes nothing, and the log names its setting", problems)

        environment_file.write_text(f"PRIVACY_FILE={files['PRIVACY_FILE']}\nLINK_APPS=ABCDE12345.a.b\nLINK_PATHS=/a\n")
        reload(server, "changed settings take effect after a restart")
        report.check(get(server, "/terms").status == 404 and b"not in force" in get(server, "/privacy").body,
                     "a page whose setting is removed is 404 after SIGHUP")
        needed = lines_of(server, "changed settings take effect after a restart")[-1]["needs_restart"]
        report.check(needed == "LINK_APPS, LINK_PATHS", "the apps need a restart, the pages do not", needed)


class Host(ThreadingHTTPServer):
    """A TLS server. `answers` maps a path to the response (status, header fields, body). The response to any other path
    is a 404."""

    daemon_threads = True

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, fields, body = self.server.answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.answers = {}
        self.authority, key = certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority, key)
        # The handler's thread does the handshake, so a failed handshake does not end the server's loop.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, *_):
        pass

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


JSON = {"Content-Type": "application/json"}


def judge(report, options, folder):
    settings = {**LINKS, **page_files(folder)}
    with Server(options, folder, {**UNLIMITED, **settings}) as server:
        right = {path: get(server, path) for path in (APPLE, ANDROID, *PAGES)}
    right = {path: (200, {"Content-Type": answer.headers["content-type"]}, answer.body) for path, answer in right.items()}

    with Host(folder) as host:
        def check(answers, environment=None, authority=True, name="localhost"):
            host.answers = answers
            words = ["--links", f"https://{name}:{host.server_address[1]}"] + (["--links-authority", str(host.authority)] if authority else [])
            run = subprocess.run([options.dwell.resolve(), "check-config", *words], cwd=folder, capture_output=True, text=True, timeout=60,
                                 env={"PATH": os.environ["PATH"], **(settings if environment is None else environment)})
            return run.returncode, run.stdout, run.stderr

        status, printed, errors = check(right)
        lines = printed.splitlines()
        report.check(status == 0 and len(lines) == 6 and lines[0].startswith("warning /: ") and all(line.startswith("ok ") for line in lines[1:]),
                     "what the server sends is right: one line each, status 0", status, printed, errors)

        def wrong(what, changes, path, text, **more):
            status, printed, errors = check({**right, **changes}, **more)
            found = [line for line in printed.splitlines() if line.startswith(f"FAILED {path}: ") and text in line]
            report.check(status == 1 and len(found) == 1, f"{what}: status 1 and a line", status, printed, errors)

        for path in (APPLE, ANDROID):
            status, fields, body = right[path]
            wrong(f"{path} missing", {path: (404, JSON, b"{}")}, path, "status 404")
            wrong(f"{path} moved", {path: (301, {"Location": path + "/"}, b"")}, path, "a redirect")
            wrong(f"{path} as text", {path: (200, {"Content-Type": "text/plain"}, body)}, path, "text/plain")
            wrong(f"{path} without a type", {path: (200, {}, body)}, path, "missing")
            wrong(f"{path} of more than 128 KiB", {path: (200, JSON, body + b" " * (131_073 - len(body)))}, path, "more than 131072 bytes")
            wrong(f"{path} cut off", {path: (200, JSON, body[:-1])}, path, "not JSON")
            status, printed, _ = check({**right, path: (200, JSON, body + b" " * (131_072 - len(body)))})
            report.check(status == 0, f"{path} of 128 KiB is right", printed)
        wrong("another team's app", {APPLE: (200, JSON, right[APPLE][2].replace(b"ABCDE12345", b"ZZZZZ12345"))}, APPLE, "is missing")
        wrong("the old form of paths", {APPLE: (200, JSON, right[APPLE][2].replace(b'"components"', b'"paths"'))}, APPLE, "not JSON with")
        wrong("one of two fingerprints", {ANDROID: (200, JSON, right[ANDROID][2].replace(b',"BB', b',"CC'))}, ANDROID, "lacks the fingerprint BB:")
        wrong("an earlier privacy policy", {"/privacy": (200, {"Content-Type": "text/html"}, b"old")}, "/privacy", "not the content")
        wrong("no terms", {"/terms": (404, {}, b"")}, "/terms", "status 404")
        wrong("a certificate that nobody trusts", {}, APPLE, "the certificate is not trusted", authority=False)
        wrong("a certificate of another name", {}, ANDROID, "the certificate is not trusted", name="127.0.0.1")
        wrong("a document that no setting asks for", {}, APPLE, "although LINK_APPS is not set", environment={})
        status, printed, errors = check({}, environment={})
        report.check(status == 0 and printed.count("\nok ") == 2, "without settings, 404 is right", status, printed, errors)
        status, printed, errors = check(right, environment={"LINK_APPS": "x"})
        report.check(status == 1 and not printed and errors.startswith("LINK_APPS=x"), "wrong settings are reported first", status, printed, errors)

    run = subprocess.run([options.dwell.resolve(), "check-config", "--links", f"https://localhost:{host.server_address[1]}"],
                         cwd=folder, capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"], **settings})
    report.check(run.returncode == 1 and run.stdout.count("no connection with TLS") == 5, "a host that is away: status 1", run.stdout)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("links")
    for what, body in (("404 when unset", unset), ("wrong settings", wrong_at_start), ("pages", pages), ("check-config --links", judge)):
        with Folder() as folder:
            report.run(what, lambda: body(report, options, folder))
    report.exit()


main()
