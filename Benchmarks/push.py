#!/usr/bin/env python3
"""Measures how many notifications a second `dwell push-test` sends on one connection. A stand-in for APNs
(push/apns.go, HTTP/2 over TLS on loopback) receives them. It runs on the same machine, so the rates are lower bounds.

The first measurement sends notifications as fast as possible, and prints the sender's processor time per notification.

In the second measurement, a server also stores --events events a second, and --rate limits the notifications a second.
It prints the rate and latency of the events.

Needs Go and golang.org/x/net (Debian: golang-go, golang-golang-x-net-dev), a C compiler and openssl."""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Integration"))
sys.path.insert(0, str(HERE / "bench"))

from client import token  # noqa: E402
from contestants import LIMITS  # noqa: E402
from processes import Server  # noqa: E402

DEVICE = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"
# A payload as long as Dwell's.
PAYLOAD = json.dumps({"aps": {"alert": {"title": "Your charging session", "body": "The grace period ends in 3 minutes."},
                              "sound": "default"}, "session_id": "s-01HQ3K7Z9N4V5B6C7D8E9F0G1H"})


class APNs:
    """The stand-in as a process. After its end, `counts` has its figures."""

    def __init__(self, binary, folder, delay_milliseconds):
        self.certificate = folder / "certificate.pem"
        self.process = subprocess.Popen([binary, "-certificate", self.certificate, "-delay", f"{delay_milliseconds}ms"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.counts = json.loads(self.process.communicate()[0])


def build(binary, generator, folder):
    # Debian's packages are a GOPATH, not modules.
    subprocess.run(["go", "build", "-o", binary, HERE / "push" / "apns.go"], check=True,
                   env={**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(folder / "cache")})
    subprocess.run(["cc", "-O2", "-pthread", "-o", generator, HERE / "load" / "load.c"], check=True)


def environment(folder, apns):
    key = folder / "key.p8"
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key], check=True,
                   stderr=subprocess.DEVNULL)
    key.chmod(0o600)
    return {"PATH": os.environ["PATH"], "ENV_FILE": "/dev/null", "PUSH_APNS_TEAM_ID": "T", "PUSH_APNS_KEY_ID": "K",
            "PUSH_APNS_KEY_FILE": str(key), "PUSH_APNS_TOPIC": "org.example.chargers",
            "PUSH_APNS_URL": f"https://localhost:{apns.port}", "PUSH_CA_FILE": str(apns.certificate)}


def push(options, binary, folder, what, rate=0, during=None):
    folder.mkdir()
    payload = folder / "payload.json"
    payload.write_text(PAYLOAD)
    with APNs(binary, folder, options.delay) as apns:
        command = [options.dwell, "push-test", "--token", DEVICE, "--payload", payload, "--count", str(options.count),
                   "--in-flight", str(options.in_flight), "--rate", str(rate)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.monotonic()
        load = during() if during else None
        run = subprocess.run(command, env=environment(folder, apns), capture_output=True, text=True)
        seconds = time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        events = json.loads(load.communicate()[0]) if load else None
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if run.returncode:
        sys.exit(f"{run.stdout}{run.stderr}")
    line = (f"{what}: {options.count / seconds:.0f} notifications/s for {seconds:.1f} s on {apns.counts['connections']} "
            f"connection(s), at most {apns.counts['most_streams']} streams")
    print(line + ("" if events else f", {processor / options.count * 1e6:.0f} µs of processor time each"))
    if events:
        print(f"  beside it: {json.dumps(events)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dwell", type=pathlib.Path, default=HERE.parent / ".build/release/dwell")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--in-flight", type=int, default=1000)
    parser.add_argument("--delay", type=int, default=20, help="milliseconds until the stand-in answers")
    parser.add_argument("--rate", type=int, default=5000, help="notifications a second beside the events")
    parser.add_argument("--events", type=int, default=2000, help="events a second beside it; 0: none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        binary, generator, tokens = folder / "apns", folder / "load", folder / "tokens"
        build(binary, generator, folder)
        push(options, binary, folder / "alone", "alone")
        if not options.events:
            return
        tokens.write_text("".join(token(f"driver-{number:05}") + "\n" for number in range(2000)))
        (folder / "server").mkdir()
        chosen = argparse.Namespace(dwell=options.dwell, redis_url=None)
        with Server(chosen, folder / "server", LIMITS) as server:
            seconds = max(5, options.count / 5000)
            push(options, binary, folder / "beside", f"{options.rate} a second beside {options.events} events/s", options.rate, lambda: subprocess.Popen(
                [generator, "--port", str(server.port), "--tokens", tokens, "--load", "events", "--connections", "64",
                 "--threads", "1", "--rate", str(options.events), "--seconds", str(seconds)],
                stdout=subprocess.PIPE, text=True))


if __name__ == "__main__":
    main()
