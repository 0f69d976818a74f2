#!/usr/bin/env python3
"""Checks what clients can make the server log. A flood of rejected requests causes only a bounded number of lines, and
the server logs exactly how many lines it omitted. The flood affects neither the metrics nor the lines about signed-in
drivers.

Counts lines and bytes, not time."""

import json
import re
import socket
import subprocess
import threading
import time

from client import Client, token
from processes import UNLIMITED, Folder, Server, arguments
from report import Report

PER_CLIENT = 10
IN_ALL = 50
FLOOD = 40_000
METRICS = "metrics-token-of-this-test"


def lines_of(server):
    return [json.loads(line) for line in server.log_path.read_text().splitlines()]


def flood(port, source, count):
    """Sends pipelined requests for a path that does not exist, and waits for all responses."""
    request = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0)) as connection:
        def send():
            for _ in range(count // 100):
                connection.sendall(request * 100)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        answers, rest = 0, b""
        while answers < count:
            more = connection.recv(1 << 20)
            assert more, f"closed after {answers} answers"
            received = rest + more
            answers += received.count(b"HTTP/1.1 404")
            rest = received[-11:]
            answers -= rest.count(b"HTTP/1.1 404")
        sender.join()


def answered(port, status):
    """Returns the metric's count of responses with this status."""
    with Client(port, METRICS) as client:
        text = client.request("GET", "/metrics").body.decode()
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in text.splitlines()
               if line.startswith("dwell_http_requests_total{") and f'status="{status}"' in line)


def seconds_of(lines):
    return {line["time"][:19] for line in lines}


def one_client(report, server):
    before = answered(server.port, 404)
    flood(server.port, "127.0.0.7", FLOOD)
    # A second later, the server logs how many lines it omitted.
    server.wait_for_line("rejected requests omitted from the log", sum_of="count", until=lambda total, lines: total + lines == FLOOD)
    lines = lines_of(server)
    refused = [line for line in lines if line["message"] == "request" and line["client"] == "127.0.0.7"]
    counted = [line for line in lines if line["message"].startswith("rejected requests")]
    seconds = len(seconds_of(refused))
    report.check(0 < len(refused) <= PER_CLIENT * seconds, f"{FLOOD} refused requests of one client in {seconds} s make {len(refused)} lines")
    total = len(refused) + sum(int(line["count"]) for line in counted)
    report.check(total == FLOOD, "lines and counts together are every request", total)
    report.check(len(counted) <= seconds and {line["busiest_client"] for line in counted} == {"127.0.0.7"},
                 "one line a second counts the rest and names the client", *counted[:3])
    size = len(server.log_path.read_bytes())
    report.check(size < 1000 * (PER_CLIENT + 2) * (seconds + 1), f"the log has {size} bytes", size)
    report.check(answered(server.port, 404) - before == FLOOD, "the metrics count every one of them", answered(server.port, 404) - before)


def many_clients(report, server):
    """Floods the server from many addresses. Meanwhile, a driver sends accepted requests and one rejected request."""
    position = len(lines_of(server))
    threads = [threading.Thread(target=flood, args=(server.port, f"127.0.1.{number}", 400)) for number in range(1, 41)]
    for thread in threads:
        thread.start()
    with Client(server.port, token("anna")) as anna:
        statuses = [anna.request("GET", "/native/session", headers={"X-Request-Id": f"good-{number}"}).status for number in range(100)]
        refused = anna.request("GET", "/native/sessions/none", headers={"X-Request-Id": "refused-driver"}).status
    for thread in threads:
        thread.join()
    server.wait_for_line("rejected requests omitted from the log", after=position)
    lines = lines_of(server)[position:]
    flooded = [line for line in lines if line["message"] == "request" and line["client"].startswith("127.0.1.")]
    seconds = len(seconds_of(flooded))
    report.check(0 < len(flooded) <= IN_ALL * seconds, f"16000 refused requests of 40 clients in {seconds} s make {len(flooded)} lines")
    good = {line["request_id"] for line in lines if line["message"] == "request" and str(line["status"]) == "200"}
    report.check(statuses == [200] * 100 and {f"good-{number}" for number in range(100)} <= good,
                 "every line of a signed-in driver whose requests go well is there", 100 - len(good))
    report.check(refused == 404 and any(line.get("request_id") == "refused-driver" for line in lines),
                 "and a driver's own refusal is not hidden by the flood")


def first_and_last(report, server, options, folder):
    """Checks the first and the last line of the log. Also checks that numbers are JSON numbers and that all lines have
    the same form."""
    lines = lines_of(server)
    first = lines[0]
    report.check(first["message"] == "starting" and first["schema"] >= 6 and first["database"] == str(server.database_path)
                 and first["redis"] and first["settings_version"] and first["version"] and len(first["migrations_run"]) == first["schema"],
                 "the first line says version, database, schema, migrations, settings and Redis", first)
    last = lines[-1]
    report.check(last["message"] == "stopped" and last["reason"] == "SIGTERM" and last["drained"] is True
                 and last["connections_cut"] == 0 and last["exit_status"] == 0 and isinstance(last["uptime_seconds"], int),
                 "the last line says why and how it ended", last)
    requests = [line for line in lines if line["message"] == "request"]
    report.check(all(isinstance(line[name], int) for line in requests for name in ("status", "duration_us", "bytes_in", "bytes_out")),
                 "figures are numbers")
    drivers = {line.get("driver") for line in requests if line.get("request_id", "").startswith(("good-", "refused-driver"))}
    strangers = {line.get("driver") for line in requests if line["client"].startswith("127.0.1.")}
    report.check(len(drivers) == 1 and re.fullmatch("[0-9a-f]{16}", drivers.copy().pop() or "") and strangers == {None}
                 and "anna" not in server.log_path.read_text(),
                 "a driver has one pseudonym, and nobody else has one", drivers, strangers)
    report.check({line["method"] for line in requests} == {"GET"}, "requests have their method")
    server.start()
    again = lines_of(server)[len(lines)]
    report.check(again["message"] == "starting" and again["migrations_run"] == [], "a second start runs no migration", again)
    with Client(server.port, token("anna")) as anna:
        anna.request("GET", "/native/session")
        anna.request("BREW", "/native/session", headers={"X-Request-Id": "brew"})
    server.stop()
    new = [line for line in lines_of(server)[len(lines):] if line["message"] == "request"]
    report.check({line["driver"] for line in new if "driver" in line} == drivers, "the pseudonym outlives a restart", new)
    report.check([line["method"] for line in new if line["request_id"] == "brew"] == ["other"], "a made-up method is no word of the log", new)

    for form in ("json", "text"):
        environment = {**server.environment, "LOG_FORMAT": form, "HTTP_PORT": "many", "DATABASE_PATH": str(folder / "none.sqlite3")}
        ended = subprocess.run([server.binary, "serve"], env=environment, cwd=folder, capture_output=True, text=True)
        wrong = ended.stderr.splitlines()
        is_one_form = all(line.startswith("{") for line in wrong) if form == "json" else all(re.match(r"[0-9T:.Z-]{24} CRITICAL ", line) for line in wrong)
        report.check(ended.returncode == 78 and wrong and is_one_form and "HTTP_PORT" in ended.stderr,
                     f"a wrong setting is told as {form}", ended.returncode, ended.stderr)
    held = socket.create_server(("127.0.0.1", 0))
    environment = {**server.environment, "HTTP_PORT": str(held.getsockname()[1])}
    ended = subprocess.run([server.binary, "serve"], env=environment, cwd=folder, capture_output=True, text=True)
    last = json.loads(ended.stderr.splitlines()[-1])
    report.check(ended.returncode == 1 and last["message"] == "server cannot run" and last["exit_status"] == 1,
                 "a port that is taken: the last line says why", ended.stderr)
    held.close()


class LoggedServer(Server):
    def wait_for_line(self, message, after=0, sum_of=None, until=lambda total, lines: True):
        from processes import wait_until

        def is_there():
            lines = lines_of(self)[after:]
            found = [line for line in lines if line["message"] == message]
            refused = sum(line["message"] == "request" and str(line["status"]) == "404" for line in lines)
            return found and until(sum(int(line[sum_of]) for line in found) if sum_of else 0, refused)

        wait_until(is_there, 20, f"the line: {message}")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("log lines")
    with Folder() as folder:
        environment = {**UNLIMITED, "LOG_LEVEL": "debug", "LOG_REFUSALS_PER_CLIENT": str(PER_CLIENT),
                       "LOG_REFUSALS_PER_SECOND": str(IN_ALL), "METRICS_TOKEN": METRICS}
        with LoggedServer(options, folder, environment) as server:
            report.run("one client", lambda: one_client(report, server))
            report.run("many clients", lambda: many_clients(report, server))
            # The checks above have used up the lines of this second, and the server names a client as the busiest one
            # only if that client has a line in the same second. The test therefore waits for the next second.
            time.sleep(1.1)
            flood(server.port, "127.0.0.8", 1000)
            position = len(lines_of(server))
            report.check(server.stop() == 0, "the server ends with 0")
            lines = lines_of(server)
            about = [line for line in lines if line.get("client") == "127.0.0.8" or line.get("busiest_client") == "127.0.0.8"]
            report.check(any("count" in line for line in about), "what is left out in the last second is counted before the end",
                         position, *about[-2:])
            first_and_last(report, server, options, folder)
    report.exit()


main()
