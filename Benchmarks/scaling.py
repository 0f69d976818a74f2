#!/usr/bin/env python3
"""Measures how the rate of events grows with the number of servers on one PostgreSQL. Needs root, for control groups.

Each server may use only a fixed share of a processor. PostgreSQL and the load generators have no such limit.

Prints for each number of servers: the rate of events, the ratio of this rate to linear growth, and the processor time
per event."""

import argparse
import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Integration"))

from client import token  # noqa: E402
from processes import Folder, Server  # noqa: E402

sys.path.insert(0, str(HERE / "bench"))

from contestants import LIMITS  # noqa: E402
from postgres import Postgres  # noqa: E402

PERIOD_US = 20_000
# A driver's first event costs more than later events, because the server verifies the token and adds the driver's row.
# The warm-up sends the first events of all drivers.
WARMUP_SECONDS = 3


class Share:
    """A control group, version 1 or 2. Its processes together may use the share `share` of one processor."""

    def __init__(self, name, share):
        quota = int(PERIOD_US * share)
        version1 = pathlib.Path("/sys/fs/cgroup/cpu")
        self.path = (version1 if version1.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"dwell-{os.getpid()}-{name}"
        self.path.mkdir()
        if version1.is_dir():
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def remove(self):
        self.path.rmdir()


def processor_microseconds(pids):
    found = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            found += sum(
                int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())
    return found / 1e3


def measure(options, count, generator, tokens):
    """Returns the events a second, and the processor time per event of the servers and of PostgreSQL, in
    microseconds."""
    with Folder() as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o711)
        postgres = Postgres(folder)
        stack.callback(postgres.end)
        servers = []
        for number in range(count):
            (folder / str(number)).mkdir()
            servers.append(Server(argparse.Namespace(dwell=options.dwell, redis_url=None), folder / str(number), {
                **LIMITS, "DATABASE_URL": postgres.url}))
            stack.enter_context(servers[-1])
            share = Share(number, options.share)
            stack.callback(share.remove)
            share.add(servers[-1].process.pid)
            stack.callback(servers[-1].kill)
        pids = [server.process.pid for server in servers]
        loads = [subprocess.Popen(
            [generator, "--port", str(server.port), "--tokens", tokens[number], "--salt", f"{random.randrange(1 << 23):x}",
             "--load", "events", "--connections", str(options.connections), "--seconds", str(options.seconds),
             "--warmup", str(WARMUP_SECONDS), "--threads", "1"], stdout=subprocess.PIPE, text=True) for number, server in enumerate(servers)]
        time.sleep(WARMUP_SECONDS)
        before = processor_microseconds(pids), processor_microseconds(postgres.processes())
        requests = sum(json.loads(load.communicate()[0])["requests"] for load in loads)
        spent = (processor_microseconds(pids) - before[0], processor_microseconds(postgres.processes()) - before[1])
        return requests / options.seconds, spent[0] / requests, spent[1] / requests


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dwell", default=HERE.parent / ".build/release/dwell", type=pathlib.Path)
    parser.add_argument("--share", type=float, default=0.1, help="of one processor, for each server")
    parser.add_argument("--servers", default="1,2,4")
    parser.add_argument("--connections", type=int, default=32, help="to each server")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    counts = [int(count) for count in options.servers.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        generator = pathlib.Path(folder) / "load"
        subprocess.run(["cc", "-O2", "-pthread", "-o", generator, HERE / "load" / "load.c"], check=True)
        tokens = []
        for number in range(max(counts)):
            tokens.append(pathlib.Path(folder) / f"tokens-{number}")
            tokens[-1].write_text("".join(token(f"driver-{number}-{driver:04}") + "\n" for driver in range(1000)))
        rounds = [[measure(options, count, generator, tokens) for count in counts] for _ in range(options.rounds)]
        for place, count in enumerate(counts):
            rate, servers, postgres = (statistics.median(found[place][figure] for found in rounds) for figure in range(3))
            linear = statistics.median(found[place][0] / found[0][0] / count * counts[0] for found in rounds)
            print(
                f"{count} servers: {rate:.0f} events/s, {linear:.2f} of linear, {servers:.1f} µs of the servers and "
                f"{postgres:.1f} µs of PostgreSQL an event", flush=True)


if __name__ == "__main__":
    main()
