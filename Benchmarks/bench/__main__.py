"""`make bench`: compares Dwell with its peers and with the limits of the machine, and writes the results to a page.

Exits with 1 if a response violates the contract, or if the number of rows on disk differs from the number of
acknowledged events."""

import argparse
import datetime
import os
import shutil
import sys
import time

import loads
import machine
import report
from contestants import ALL, BUILT, ROOT, Failed, run
from results import Results


def arguments():
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--loads", default="headline", help=f"headline, all, or some of {','.join(loads.NAMES)}")
    parser.add_argument("--seconds", type=float, default=5, help="that each measurement counts (5)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--table-rows", type=int, default=10_000_000, help="of the large table (10,000,000)")
    parser.add_argument("--memory-events", type=int, default=10_000_000, help="posted to one process (10,000,000)")
    parser.add_argument(
        "--only", default="", help="some of " + ",".join(ALL) + ",sqlite, to try something out: nothing is kept")
    parser.add_argument("--report", action="store_true", help="write docs/benchmarks.md again from the last results")
    options = parser.parse_args()
    names = {"headline": loads.HEADLINE, "all": loads.NAMES}.get(options.loads, options.loads.split(","))
    unknown = [name for name in names if name not in loads.NAMES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: there are headline, all, {', '.join(loads.NAMES)}")
    return options, names


class Progress:
    def __init__(self, total):
        self.total, self.done, self.begun = total, 0, time.monotonic()

    def tell(self, step, figures):
        self.done += 1
        elapsed = time.monotonic() - self.begun
        left = elapsed / self.done * (self.total - self.done)
        counted = report.TITLES[step.load][1]
        print(
            f"[{self.done:3}/{self.total}, about {left / 60:4.1f} min left] {step.load:12} {step.series:14} "
            f"{report.figure(figures.get(counted)):>10} {report.TITLES[step.load][2]}", flush=True)


def version():
    """Returns the commit, followed by a plus if Sources or migrations differ from the commit."""
    try:
        commit = run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT).strip()
        return commit + ("+" if run(["git", "status", "--porcelain", "Sources", "migrations"], cwd=ROOT).strip() else "")
    except (Failed, OSError):
        return "unknown"


def measure(options, names):
    data = BUILT / f"data-{os.getpid()}"
    bench = loads.Bench(loads.Options(
        seconds=options.seconds, rounds=options.rounds, connections=options.connections, table_rows=options.table_rows,
        memory_events=options.memory_events, data=data))
    wanted = set(filter(None, options.only.split(",")))
    chosen = {name: [step for step in loads.steps(bench, name) if not wanted or takes_part(step, wanted)] for name in names}
    for key in sorted({key for steps in chosen.values() for step in steps for key in ALL if uses(step, key)}):
        print(f"building {ALL[key].title}", flush=True)
        ALL[key].build()
    results = Results() if wanted else Results.read()
    place = machine.describe(data)
    print(f"{place['cpu']}, {place['cores']} cores, {place['kernel']}, one flush {place['flush_us']} µs", flush=True)
    progress = Progress(sum(step.rounds or options.rounds for steps in chosen.values() for step in steps))
    for name, steps in chosen.items():
        entry = {
            "machine": place, "when": datetime.date.today().isoformat(), "version": version(),
            "seconds": options.seconds, "connections": options.connections, "busy": machine.busy(), "series": {}}
        # Measure in the order A B C A B C, so that a disturbance of the machine affects A, B and C alike.
        for round_number in range(options.rounds):
            for step in steps:
                if step.rounds and round_number >= step.rounds:
                    continue
                figures = step.measure()
                entry["series"].setdefault(step.series, []).append(figures)
                progress.tell(step, figures)
        results.loads[name] = entry
        if name == "events":
            bench.maximum = {key: results.median(name, key, "rate") for key in ALL}
        if not wanted:
            results.write()
    return results


def uses(step, key):
    """Every measurement uses Dwell, because `dwell migrate` creates the tables for SQLite alone."""
    return key == "dwell" or step.series == key


def takes_part(step, wanted):
    return any(step.series == name or step.series.startswith(name + "-") for name in wanted)


def main():
    options, names = arguments()
    try:
        results = Results.read() if options.report else measure(options, names)
    except Failed as failure:
        print(f"\nbench: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(BUILT / f"data-{os.getpid()}", ignore_errors=True)
    report.print_tables(results, loads.NAMES if options.report else names)
    if not options.only:
        report.write_document(results)
        print(f"\nwritten: {report.DOCUMENT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
