#!/usr/bin/env python3
"""Tests both proxy configurations of config/ in front of a server, with TLS (docs/deploy.md). The tests change only the
configurations' addresses, ports, names and paths. One check also changes the rate limit.

Requests and streams pass, and the server sees the client's address. The server's limit on bodies applies, and no
internal route is reachable. If the server is unreachable, the proxy responds in the contract's error format."""

import contextlib
import datetime
import http.client
import json
import os
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from client import Client, token
from ports import free_port
from processes import REPOSITORY, UNLIMITED, Folder, Server, arguments, wait_until
from report import Report

FINGERPRINTS = [":".join([pair] * 32) for pair in ("AA", "BB")]
# Apps that open links, with both keys of an Android app.
LINKS = {"LINK_APPS": "ABCDE12345.com.example.app", "LINK_PATHS": "!/open/web/*,/open/*",
         "ANDROID_APPS": ",".join(f"com.example.app:{fingerprint}" for fingerprint in FINGERPRINTS)}

# The address from which the client connects. It is not the proxy's address, and the server does not trust it.
CLIENT = "127.0.0.9"
PATIENCE_SECONDS = 60


def certificate(folder):
    """Writes a self-signed certificate for `localhost` and its key to two files. Returns their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256()))
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return folder / "certificate.pem", folder / "key.pem"


def page_files(folder):
    files = {"PRIVACY_FILE": "privacy.html", "TERMS_FILE": "terms.md", "SUPPORT_FILE": "support.txt"}
    for file in files.values():
        (folder / file).write_text(f"<p>Our page {file}</p>" if file.endswith("html") else f"# Our page {file}\n")
    return {name: str(folder / file) for name, file in files.items()}


def replaced(text, *pairs):
    for before, after in pairs:
        assert before in text, f"{before} is not in the file"
        text = text.replace(before, after)
    return text


class Nginx:
    def __init__(self, folder, upstream, *more):
        """`more`: further replacements in the file."""
        self.port = free_port()
        self.authority, key = certificate(folder)
        site = replaced(
            (REPOSITORY / "config/nginx.conf").read_text(), ("127.0.0.1:8080", f"127.0.0.1:{upstream}"),
            ("    listen [::]:443 ssl http2;\n", ""), ("    listen [::]:80;\n", ""),
            ("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"), ("listen 80", f"listen 127.0.0.1:{free_port()}"),
            ("/etc/letsencrypt/live/dwell.example.org/fullchain.pem", str(self.authority)),
            ("/etc/letsencrypt/live/dwell.example.org/privkey.pem", str(key)),
            ("/var/log/nginx/dwell.log", f"{folder}/access.log"), ("/var/log/nginx/dwell-error.log", f"{folder}/error.log"),
            ("dwell.example.org", "localhost"), *more)
        paths = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            # If root runs the tests, only root can access the directory. nginx's workers must then run as root,
            # although this is not their default.
            ("user root; " if os.geteuid() == 0 else "") + f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; worker_processes 1;\n"
            f"events {{}}\nhttp {{ access_log off; {paths}\n{site}\n}}\n")
        self.command = ["nginx", "-p", str(folder), "-e", str(folder / "nginx.log"), "-c", str(folder / "nginx.conf")]
        self.environment = dict(os.environ)


class Caddy:
    def __init__(self, folder, upstream):
        self.port = free_port()
        self.authority = folder / "caddy/pki/authorities/local/root.crt"
        # Sets the directory of Caddy's certificate authority, and prevents a change of the machine's trust store.
        text = replaced(
            (REPOSITORY / "config/Caddyfile").read_text(),
            ("{\n\tservers {", f"{{\n\tadmin off\n\tskip_install_trust\n\thttp_port {free_port()}\n\tservers {{"))
        (folder / "Caddyfile").write_text(text)
        self.command = ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
        self.environment = {**os.environ, "DWELL_SITE": f"https://localhost:{self.port}", "DWELL_UPSTREAM": f"127.0.0.1:{upstream}",
                            "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}


@contextlib.contextmanager
def running(proxy, folder):
    with open(folder / "proxy.log", "ab") as log:
        process = subprocess.Popen(proxy.command, env=proxy.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def answers():
        assert process.poll() is None, (folder / "proxy.log").read_text()[-2000:]
        try:
            return ask(proxy, "GET", "/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    try:
        wait_until(answers, PATIENCE_SECONDS, "the start of the proxy")
        yield proxy
    finally:
        process.terminate()
        process.wait(30)


def connection(proxy, client=CLIENT):
    return http.client.HTTPSConnection(
        "localhost", proxy.port, timeout=PATIENCE_SECONDS, source_address=(client, 0),
        context=ssl.create_default_context(cafile=str(proxy.authority)))


def ask(proxy, method, path, body=None, fields=None, client=CLIENT):
    each = connection(proxy, client)
    try:
        each.request(method, path, body, {
            "Authorization": f"Bearer {token('proxied')}", "Content-Type": "application/json", **(fields or {})})
        answer = each.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        each.close()


# Header fields in which proxies, networks and frameworks state where a request came from.
FORWARDING = [
    "Forwarded", "X-Forwarded", *(f"X-Forwarded-{part}" for part in (
        "For", "Host", "Proto", "Port", "Server", "Prefix", "Scheme", "Ssl", "User", "Email", "By", "Path", "Protocol", "Uri",
        "Client-Cert")),
    "X-Real-IP", "X-Real-Port", "X-Client-IP", "X-Cluster-Client-IP", "Client-IP", "True-Client-IP", "Fastly-Client-IP",
    "CF-Connecting-IP", "DO-Connecting-IP", "X-Original-Forwarded-For", "X-Original-Host", "X-Original-URL", "X-Rewrite-URL",
    "X-ProxyUser-IP"]


class Echo(ThreadingHTTPServer):
    """Replaces the server, and answers with the header fields that it receives."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(self.headers.items()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.port = self.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def check_forwarding(report, name, kind):
    """Checks that the server receives no value that a client sends in a field of FORWARDING."""
    claims = {field: f"claimed-{number}" for number, field in enumerate(FORWARDING)}
    with Folder() as folder, Echo() as echo, running(kind(folder, echo.port), folder) as proxy:
        status, _, body = ask(proxy, "GET", "/", fields=claims)
        received = json.loads(body)
        claimed = [f"{field}: {value}" for field, value in received if "claimed-" in value]
        report.check(status == 200 and not claimed, f"{name}: none of {len(claims)} headers reaches the server as the client sent it", *claimed)
        own = {field.lower(): value for field, value in received if field.lower().startswith(("forwarded", "x-"))}
        report.check(own.get("x-forwarded-for") == CLIENT and set(own) <= {"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"},
                     f"{name}: and what the proxy adds is what it saw", own)


def check_rate(report):
    """Checks nginx's rate limit with a lower rate and a lower burst. Requests of one address above them are rejected.
    Requests of another address pass."""
    slower = (("rate=100r/s", "rate=1r/m"), ("burst=500 nodelay", "burst=5 nodelay"))
    with Folder() as folder, Echo() as echo, running(Nginx(folder, echo.port, *slower), folder) as proxy:
        answers = [ask(proxy, "GET", "/", client="127.0.0.11") for _ in range(9)]
        report.check([status for status, _, _ in answers] == [200] * 6 + [429] * 3, "nginx: one request and its burst of 5 pass, then 429",
                     [status for status, _, _ in answers])
        _, fields, body = answers[-1]
        problem = json.loads(body)
        report.check(fields["Content-Type"] == "application/problem+json" and fields["Retry-After"] == "5" and problem["status"] == 429
                     and problem["code"] == "rate_limited" and problem["retryable"] is True and problem["retry_after"] == 5,
                     "nginx: its 429 is in the contract's format", dict(fields), problem)
        report.check(ask(proxy, "GET", "/", client="127.0.0.12")[0] == 200, "nginx: another address is not affected")


def check_garbage(report, proxy, server, name):
    """Checks that a client cannot hide behind the proxy's address. The server must use the client's address in its log
    and for the limit per address."""
    before = len(lines_of(server))
    # More requests than RATE_LIMIT_AUTH allows.
    statuses = [ask(proxy, "GET", "/auth/me", fields={"Forwarded": "garbage", "X-Forwarded-For": "garbage"})[0] for _ in range(4)]
    clients = {line["client"] for line in lines_of(server)[before:]}
    report.check(clients == {CLIENT}, f"{name}: garbage in Forwarded does not hide the client", clients)
    direct = Client(server.port, token("proxied")).request("GET", "/auth/me").status
    report.check(429 in statuses and direct != 429, f"{name}: and its requests count as its own, not as the proxy's", statuses, direct)


def event(key, name="enteredChargerIntentZone", metadata=None):
    return {"event_id": key, "event": name, "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **({"metadata": metadata} if metadata else {})}


def lines_of(server):
    return [line for line in map(json.loads, server.log_path.read_text().splitlines()) if line.get("message") == "request"]


def clients_in(server):
    return {line["client"] for line in lines_of(server)}


def stream(proxy, name):
    """Checks that the proxy does not buffer the stream. The current state must arrive at once, and so must the new
    state after an event."""
    each = connection(proxy)
    each.request("GET", "/native/session/stream", headers={"Authorization": f"Bearer {token('proxied')}"})
    answer = each.getresponse()

    def message():
        for line in answer:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the stream ended")

    assert answer.status == 200 and message()["snapshot"], answer.status
    status, _, body = ask(proxy, "POST", "/native/events", json.dumps(event(f"{name}-stream")))
    assert status == 200, body
    caused = message()["caused_by"]["event_id"]
    assert caused == f"{name}-stream", caused
    each.close()


# The identifying values in paths, queries and header fields.
IDENTIFIERS = {part: f"identifier-{part}-9f2c41d7" for part in ("push", "session", "sign-in", "cursor", "key", "agent", "referer")}


def send_identifiers(proxy):
    who, cursor = IDENTIFIERS, f"?cursor={IDENTIFIERS['cursor']}"
    fields = {"Idempotency-Key": who["key"], "User-Agent": who["agent"], "Referer": f"https://localhost/{who['referer']}"}
    return [ask(proxy, method, path, body, fields)[0] for method, path, body in (
        ("PUT", f"/native/devices/{who['push']}", json.dumps({"platform": "ios", "environment": "sandbox"})),
        ("DELETE", f"/native/devices/{who['push']}", None),
        ("GET", f"/native/sessions/{who['session']}{cursor}", None),
        ("GET", f"/native/sessions{cursor}", None),
        ("DELETE", f"/auth/sessions/{who['sign-in']}", None))]


def check_log(report, name, folder, statuses):
    """Checks that neither the access log nor the error log contains an identifying value."""
    logs = "".join(file.read_text(errors="replace") for file in folder.glob("*.log"))
    found = [part for part, text in IDENTIFIERS.items() if text in logs]
    report.check(not found, f"{name}: no push token, session id, cursor, key or header of a client is in its logs", found)
    report.check("/native/devices" in logs and "502" in logs and 502 in statuses, f"{name}: the requests are", statuses, logs[-2000:])


def curl(proxy, path, *words):
    """Fetches the path without a token, and follows redirects. Returns the status, the content type, the number of
    redirects, and the body."""
    run = subprocess.run(
        ["curl", "--silent", "--show-error", "--location", "--cacert", str(proxy.authority), "--max-time", str(PATIENCE_SECONDS),
         "--write-out", "\n%{http_code} %{num_redirects} %{content_type}", *words, f"https://localhost:{proxy.port}{path}"],
        capture_output=True, text=True, check=True)
    body, _, line = run.stdout.rpartition("\n")
    status, redirects, content_type = line.split(" ", 2)
    return int(status), content_type, int(redirects), body


def check_links(report, proxy, server, name):
    """Checks that the proxy does not change links and pages, and that `dwell check-config --links` reports no error."""
    apple = curl(proxy, "/.well-known/apple-app-site-association")
    report.check(apple[:3] == (200, "application/json", 0), f"{name}: Apple's document: 200, its type, no redirect", apple)
    detail = json.loads(apple[3])["applinks"]["details"][0]
    report.check(detail == {"appIDs": ["ABCDE12345.com.example.app"],
                            "components": [{"/": "/open/web/*", "exclude": True}, {"/": "/open/*"}]}, f"{name}: and its content", detail)
    android = curl(proxy, "/.well-known/assetlinks.json")
    report.check(android[:3] == (200, "application/json", 0), f"{name}: Google's document: 200, its type, no redirect", android)
    target = json.loads(android[3])[0]["target"]
    report.check(target == {"namespace": "android_app", "package_name": "com.example.app", "sha256_cert_fingerprints": FINGERPRINTS},
                 f"{name}: and its content", target)
    pages = [curl(proxy, path)[:3] for path in ("/privacy", "/terms", "/support")]
    report.check(pages == [(200, "text/html; charset=utf-8", 0)] + 2 * [(200, "text/plain; charset=utf-8", 0)], f"{name}: the pages pass", pages)
    tag = [line.split(" ")[1] for line in curl(proxy, "/.well-known/assetlinks.json", "--head")[3].splitlines() if line.lower().startswith("etag")]
    again = curl(proxy, "/.well-known/assetlinks.json", "--header", f"If-None-Match: {''.join(tag)}")
    report.check(again[0] == 304, f"{name}: and are 304 while they are the same", tag, again)
    run = subprocess.run(
        [server.binary, "check-config", "--links", f"https://localhost:{proxy.port}", "--links-authority", str(proxy.authority)],
        env=server.environment, cwd=server.folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    report.check(run.returncode == 0 and run.stdout.count("ok /") == 5, f"{name}: dwell check-config --links agrees", run.stdout, run.stderr)


def check(report, proxy, server, name):
    status, fields, body = ask(proxy, "GET", "/native/session", fields={"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.8"})
    report.check(status == 200, f"{name}: requests pass", body)
    report.check(CLIENT in clients_in(server) and "198.51.100.7" not in clients_in(server),
                 f"{name}: the server knows who the client is, and not who it says it is", clients_in(server))
    check_garbage(report, proxy, server, name)
    report.run(f"{name}: links and pages", lambda: check_links(report, proxy, server, name))
    report.run(f"{name}: a stream passes as it comes", lambda: stream(proxy, name))
    large = json.dumps({"events": [event(f"{name}-{number}", "heavy", {"text": "x" * 7000}) for number in range(140)]})
    status, _, body = ask(proxy, "POST", "/native/events/batch", large)
    report.check(len(large) > 900_000 and status == 200 and len(json.loads(body)["results"]) == 140,
                 f"{name}: a batch of {len(large)} bytes passes", status, body[:200])
    status, _, body = ask(proxy, "POST", "/native/events/batch", b" " * (3 << 19))
    report.check(status == 413 and json.loads(body).get("code") == "content_too_large",
                 f"{name}: one too large has the server's own 413",
                 status, body[:300])
    inner = [ask(proxy, "GET", path)[0] for path in (
        "/readyz", "/metrics", "/ops", "/ops/", "/ops/ops.js", "/ops/picture", "/ops/sessions/s")]
    report.check(inner == [404] * 7, f"{name}: /readyz, /metrics and /ops are not outside", inner)
    statuses = send_identifiers(proxy)
    server.stop()
    statuses += send_identifiers(proxy)
    status, fields, body = ask(proxy, "POST", "/native/events", json.dumps(event(f"{name}-away")))
    problem = json.loads(body)
    report.check(status == 502 and problem["code"] == "upstream_unreachable" and problem["retryable"] is True
                 and fields["Content-Type"] == "application/problem+json" and fields["Retry-After"] == "5",
                 f"{name}: a server that is away is told as the contract has it", status, dict(fields), body)
    server.start()
    wait_until(lambda: ask(proxy, "POST", "/native/events", json.dumps(event(f"{name}-back")))[0] == 200, PATIENCE_SECONDS,
               "the way back")
    report.check(True, f"{name}: and requests pass again when it is back")
    return statuses


def main():
    options = arguments(__doc__).parse_args()
    report = Report("proxies")
    check_rate(report)
    for name, kind in (("nginx", Nginx), ("caddy", Caddy)):
        check_forwarding(report, name, kind)
        with Folder() as folder:
            environment = {**UNLIMITED, **LINKS, **page_files(folder), "TRUSTED_PROXIES": "127.0.0.1", "LOG_LEVEL": "debug",
                           "RATE_LIMIT_AUTH": "3"}
            with Server(options, folder, environment) as server, running(kind(folder, server.port), folder) as proxy:
                statuses = check(report, proxy, server, name)
            check_log(report, name, folder, statuses)
    report.exit()


if __name__ == "__main__":
    main()
