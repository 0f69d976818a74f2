#!/usr/bin/env python3
"""Compares two binaries of the server: `pairs.py NEW OLD`. Prints the figures of each round, and the medians of the
ratios NEW : OLD.

Both binaries run at the same time, each with its own load generator and database, so other work on the machine affects
both alike. With `--in-turn` they run one after the other.

Two runs of the same binary, one after the other, may differ by 30 %. If they run at the same time, their medians over
seven rounds differ by at most 1 %.

Processor time is the exact run time of the server's threads (/proc/PID/task/*/schedstat)."""

import argparse
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Integration"))

from client import token  # noqa: E402
from processes import Folder, Redis, Server  # noqa: E402

sys.path.insert(0, str(HERE / "bench"))

from contestants import LIMITS  # noqa: E402


def processor_microseconds(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


class Side:
    """One binary in one round."""

    def __init__(self, binary, folder, options, redis):
        folder.mkdir()
        chosen = argparse.Namespace(dwell=binary, redis_url=redis and redis.url)
        self.server = Server(chosen, folder, LIMITS)
        self.options = options

    def begin(self, generator, tokens):
        self.before = processor_microseconds(self.server.process.pid)
        command = [
            generator, "--port", str(self.server.port), "--tokens", tokens, "--salt", f"{random.randrange(1 << 23):x}",
            "--load", self.options.load, "--connections", str(self.options.connections),
            "--seconds", str(self.options.seconds), "--threads", "1"]
        self.load = subprocess.Popen(
            command + ["--fresh"] * self.options.fresh + ["--whole-seconds"] * self.options.whole_seconds, stdout=subprocess.PIPE, text=True)

    def end(self):
        found = json.loads(self.load.communicate()[0])
        spent = processor_microseconds(self.server.process.pid) - self.before
        return found["requests"] / self.options.seconds, spent / found["requests"]


def round_of(options, generator, tokens):
    with Folder() as root, contextlib.ExitStack() as stack:
        redis = None
        if options.redis:
            (root / "redis").mkdir()
            redis = stack.enter_context(Redis(root / "redis"))
        sides = [Side(options.new, root / "new", options, redis), Side(options.old, root / "old", options, redis)]
        order = random.sample(sides, 2)
        groups = [[side] for side in order] if options.in_turn else [order]
        results = {}
        for group in groups:
            with contextlib.ExitStack() as running:
                for side in group:
                    running.enter_context(side.server)
                for side in group:
                    side.begin(generator, tokens)
                for side in group:
                    results[side] = side.end()
        return [results[side] for side in sides]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("--load", default="events", choices=("events", "batch", "config", "mix"))
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fresh", action="store_true", help="a fresh connection for each request")
    parser.add_argument(
        "--drivers", type=int, default=2_000, help="each driver's first event includes the verification of its token")
    parser.add_argument("--whole-seconds", action="store_true", help="times without a fraction, as v1 clients send them")
    parser.add_argument("--redis", action="store_true")
    parser.add_argument("--in-turn", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generator = pathlib.Path(folder) / "load"
        subprocess.run(["cc", "-O2", "-pthread", "-o", generator, HERE / "load" / "load.c"], check=True)
        tokens = pathlib.Path(folder) / "tokens"
        tokens.write_text("".join(token(f"driver-{number:05}") + "\n" for number in range(options.drivers)))
        rates, costs = [], []
        for number in range(options.rounds):
            new, old = round_of(options, generator, tokens)
            rates.append(new[0] / old[0])
            costs.append(new[1] / old[1])
            print(f"{number + 1}: new {new[0]:.0f}/s {new[1]:.1f} µs, old {old[0]:.0f}/s {old[1]:.1f} µs", flush=True)
        print(
            f"new : old, medians of {options.rounds}: rate {statistics.median(rates):.3f} "
            f"({min(rates):.2f} to {max(rates):.2f}), processor time {statistics.median(costs):.3f} "
            f"({min(costs):.2f} to {max(costs):.2f})")


if __name__ == "__main__":
    main()
