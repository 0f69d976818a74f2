#!/usr/bin/env python3
"""Measures how much App Store notifications delay events. Runs the release server in pairs: one run without and one run
with notifications, each on a new database. Use an idle machine.

By default it posts 5,000 events and 2,000 notifications a second. The notifications belong to 1,000 subscriptions, and
are signed before the measurement.

Prints JSON: for each run, the rates and latencies, and the processor time of the server and of other processes
(`other_cores`); for all runs together, the number of lost notifications and a ratio.

The ratio of a pair is the 99th percentile latency of events with notifications, divided by that without. The median of
the pairs is printed. Exits with 1 if a notification was lost, the ratio exceeds 1.5, or a load did not reach its
rate."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Integration"))

from app_store import DAY, AppStore, now_ms, number  # noqa: E402
from client import token  # noqa: E402
from processes import UNLIMITED, Folder, Server  # noqa: E402


def bodies(store, subscriptions, count, worker):
    """Yields the bodies of notifications. Like Apple's, each reports a renewal with a signed transaction and signed
    renewal info."""
    for index in range(count):
        original = subscriptions[index % len(subscriptions)]
        signed = store.transaction(transactionId=f"{worker + 1}{number()}", originalTransactionId=original, signedDate=now_ms() + index % 1000,
                                   expiresDate=now_ms() + 30 * DAY)
        yield json.dumps({"signedPayload": store.notification("DID_RENEW", None, signed, store.renewal(original))})


STORE = None
# The maximum share of unsent requests. Requests that become due in the last moment of the load are not sent.
RATE_SHORTFALL_MAX = 0.01


def signed(part):
    return list(bodies(STORE, *part))


def load(binary, *words):
    return subprocess.Popen([binary, *map(str, words)], stdout=subprocess.PIPE, text=True)


def processor_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Returns the processor seconds of all processes, without I/O wait and the time of other virtual machines."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[index]) for index in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


def measure(options, folder, binary, file, name):
    """Measures one run. If `file` is not None, also sends the notifications in this file."""
    (folder / name).mkdir()
    with Server(options, folder / name, {**UNLIMITED, **STORE.environment(folder)}) as server:
        before, server_before = machine_seconds(), processor_seconds(server)
        common = ["--port", server.port, "--tokens", folder / "tokens", "--seconds", options.seconds, "--warmup", 2]
        events = load(binary, *common, "--load", "events", "--rate", options.events, "--connections", 64)
        others = file and load(binary, *common, "--load", "notifications", "--bodies", file, "--rate",
                               options.notifications, "--connections", 32)
        result = {"events": chosen(events)}
        if others:
            result["notifications"] = chosen(others)
        server_seconds = processor_seconds(server) - server_before
        load_seconds = sum(load["load_cpu_seconds"] for load in result.values())
        result["server_cores"] = round(server_seconds / (options.seconds + 2), 2)
        result["other_cores"] = round((machine_seconds() - before - server_seconds - load_seconds) / (options.seconds + 2), 2)
        if others:
            with sqlite3.connect(server.database_path) as database:
                result["stored"] = database.execute("SELECT count(*) FROM store_notification").fetchone()[0]
                result["transactions"] = database.execute("SELECT count(*) FROM purchase_transaction").fetchone()[0]
        return result


def chosen(process):
    result = json.loads(process.communicate()[0])
    return {name: result[name] for name in
            ("requests", "rate", "stored", "unsent", "failures", "broken", "p50_us", "p90_us", "p99_us", "max_us", "load_cpu_seconds")}


def lost(run):
    """Returns the number of notifications that were not stored or got no 200."""
    sent = run["notifications"]
    return sent["requests"] - min(run["stored"], run["transactions"]) + sent["failures"] + sent["broken"]


def main():
    global STORE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dwell", default=HERE.parent / ".build/release/dwell", type=pathlib.Path)
    parser.add_argument("--seconds", default=15, type=int)
    parser.add_argument("--pairs", default=2, type=int)
    parser.add_argument("--events", default=5000, type=int, help="per second (default: 5000)")
    parser.add_argument("--notifications", default=2000, type=int, help="per second (default: 2000)")
    options = parser.parse_args()
    options.redis_url = None
    STORE = AppStore()
    count = (options.seconds + 2) * options.notifications
    subscriptions = [number() for _ in range(1000)]
    with Folder() as folder:
        binary = folder / "load"
        subprocess.run(["cc", "-O2", "-pthread", "-o", binary, HERE / "load" / "load.c"], check=True)
        (folder / "tokens").write_text("".join(token(f"driver-{index}") + "\n" for index in range(5000)))
        workers = os.cpu_count() or 1
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            parts = pool.map(signed, [(subscriptions, count // workers, worker) for worker in range(workers)])
            file = folder / "bodies"
            file.write_text("".join(body + "\n" for part in parts for body in part))
        pairs = [{"without": measure(options, folder, binary, None, f"{pair}-without"),
                  "with": measure(options, folder, binary, file, f"{pair}-with")} for pair in range(options.pairs)]
    ratio = statistics.median(pair["with"]["events"]["p99_us"] / max(pair["without"]["events"]["p99_us"], 1) for pair in pairs)
    missing = sum(lost(pair["with"]) for pair in pairs)
    unsent = sum(run[name]["unsent"] for pair in pairs for run in pair.values() for name in ("events", "notifications")
                 if name in run)
    is_reached = unsent < RATE_SHORTFALL_MAX * options.seconds * (2 * options.events + options.notifications) * options.pairs
    print(json.dumps({"pairs": pairs, "p99_ratio": round(ratio, 2), "lost": missing, "unsent": unsent}, indent=1))
    sys.exit(0 if not missing and ratio <= 1.5 and is_reached else 1)


if __name__ == "__main__":
    main()
