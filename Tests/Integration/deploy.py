#!/usr/bin/env python3
"""Replaces a running server under a thousand requests a second (docs/deploy.md). As with systemd, each new process gets
the listening socket of the process before it. No request may fail, and each acknowledged event is stored once."""

import json
import socket
import subprocess
import sys
import threading
import time
import uuid

from client import Client, token
from processes import Folder, Server, UNLIMITED, arguments, compare_with_disk
from report import Report

CONNECTIONS = 50
REQUESTS_PER_SECOND = 1000
DEPLOYS = 3
# The maximum time for which a client waits for a connection, or for more bytes of a response.
PATIENCE_SECONDS = 20


# A Python program that starts the server as systemd does. It moves the listening socket to descriptor 3, sets the
# variables of systemd's protocol, and then replaces itself with the server.
HAND_OVER = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])"""


class ActivatedServer(Server):
    """A server that is started like a systemd service with a socket unit. This class opens the socket, and the socket
    stays open when a server process ends."""

    def __init__(self, options, folder, environment):
        super().__init__(options, folder, environment)
        self.socket = socket.create_server(("127.0.0.1", self.port), backlog=4096)

    def __exit__(self, *_):
        super().__exit__()
        self.socket.close()

    def launch(self, log):
        descriptor = self.socket.fileno()
        return subprocess.Popen(
            [sys.executable, "-c", HAND_OVER, str(descriptor), self.binary, "serve"], pass_fds=(descriptor,),
            env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class SteadyClient(threading.Thread):
    """A client that sends requests at an even pace. It keeps its connection until the server closes it, and never sends
    a request twice."""

    def __init__(self, port, number, interval, ends):
        super().__init__(daemon=True)
        self.port = port
        self.number = number
        self.interval = interval
        self.ends = ends
        self.token = token(f"driver-{number}")
        self.answered = 0
        self.connections = 0
        self.failures = []
        self.acknowledged = []
        self.slowest = 0.0

    def run(self):
        client = None
        due = time.monotonic() + self.interval * self.number / CONNECTIONS
        while not self.ends.is_set():
            time.sleep(max(0, due - time.monotonic()))
            due = max(due + self.interval, time.monotonic() - 1)
            begun = time.monotonic()
            try:
                if client is None:
                    client = Client(self.port, self.token, timeout=PATIENCE_SECONDS)
                    self.connections += 1
                answer = self.ask(client)
                if answer.status != 200:
                    self.failures.append(f"{answer.status} {answer.body[:200]}")
                self.answered += 1
                if answer.headers.get("connection", "").lower() == "close":
                    client.socket.close()
                    client = None
            except OSError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                client = None
            self.slowest = max(self.slowest, time.monotonic() - begun)
        if client:
            client.socket.close()

    def ask(self, client):
        if self.answered % 10:
            return client.request("GET", "/native/config")
        event_id = str(uuid.uuid4())
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {"event_id": event_id, "event": "chargerTargeted", "charger_id": "c", "occurred_at": now}
        answer = client.request("POST", "/native/events", json.dumps(event).encode())
        if answer.status == 200:
            self.acknowledged.append((f"driver-{self.number}", event_id))
        return answer


def deploy_under_load(options, report):
    seconds = max(2, 3 * options.scale)
    ends = threading.Event()
    with Folder() as folder:
        with ActivatedServer(options, folder, UNLIMITED) as server:
            clients = [SteadyClient(server.port, number, CONNECTIONS / REQUESTS_PER_SECOND, ends)
                       for number in range(CONNECTIONS)]
            for client in clients:
                client.start()
            begun = time.monotonic()
            gaps = []
            for _ in range(DEPLOYS):
                time.sleep(seconds)
                stopping = time.monotonic()
                report.check(server.stop() == 0, "the old server drains and ends with 0", server.log())
                server.start()
                gaps.append(time.monotonic() - stopping)
            time.sleep(seconds)
            ends.set()
            for client in clients:
                client.join(PATIENCE_SECONDS)
            took = time.monotonic() - begun

            answered = sum(client.answered for client in clients)
            failures = [failure for client in clients for failure in client.failures]
            acknowledged = [event for client in clients for event in client.acknowledged]
            report.note(f"{answered} requests in {took:.1f} s ({answered / took:.0f}/s) over "
                        f"{sum(client.connections for client in clients)} connections; "
                        f"SIGTERM to serving again: {', '.join(f'{gap:.2f}' for gap in gaps)} s; "
                        f"the slowest request took {max(client.slowest for client in clients):.2f} s")
            report.check(not failures, f"none of them failed over {DEPLOYS} deploys", len(failures), *failures)
            report.check(answered > 0.5 * REQUESTS_PER_SECOND * took, "it was a load", f"{answered / took:.0f}/s")
            report.check(server.stop() == 0, "the last server ends with 0", server.log())
            compare_with_disk(report, server, set(acknowledged), set(acknowledged), "three deploys")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("deploy")
    deploy_under_load(options, report)
    report.exit()


main()
