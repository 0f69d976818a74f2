#!/usr/bin/env python3
"""Posts distinct events over 64 keep-alive connections for some seconds, records every response, and compares the
acknowledged events with the stored ones."""

import os

from phones import Load, Phone, latencies
from processes import UNLIMITED, Folder, Server, arguments, compare_with_disk
from report import Report


def main():
    parser = arguments(__doc__)
    parser.add_argument("--connections", default=64, type=int)
    parser.add_argument("--seconds", default=10, type=float, help="before scaling (default: 10)")
    options = parser.parse_args()
    seconds = options.seconds * options.scale

    report = Report("load")
    with Folder() as folder, Server(options, folder, UNLIMITED) as server:
        phones = [Phone(f"load-{os.getpid()}-{index}") for index in range(options.connections)]
        load = Load(server.port, phones, repeat_every=20)
        load.run(seconds)
        report.note(
            f"{len(load.exchanges)} requests in {seconds:.0f} s over {options.connections} connections, "
            f"{len(load.exchanges) / seconds:.0f}/s with the client on the same machine; {latencies(load.exchanges)}")

        report.check(len(load.exchanges) > 100 * seconds, "the load was one", f"{len(load.exchanges)} requests")
        refused = [exchange for exchange in load.exchanges if exchange.status != 200]
        report.check(not refused, "every answer is 200", *refused)
        report.check(load.broken == 0, "no connection broke", f"{load.broken} did")
        report.check(not load.unanswered, "every request was answered", *load.unanswered)
        wrong = load.wrong_words()
        report.check(not wrong, "new events answer ok, repeats already_processed", *wrong)
        acknowledged = load.acknowledged()
        compare_with_disk(report, server, acknowledged, acknowledged, "under way")
        report.check(len(server.stored_keys()) == len(acknowledged), "as many rows as acknowledged events")

        report.check(server.stop() == 0, "SIGTERM ends the server with 0", server.log())
        compare_with_disk(report, server, acknowledged, acknowledged, "after the end")
        report.check(server.integrity() == "ok", "SQLite finds nothing wrong", server.integrity())
    report.exit()


if __name__ == "__main__":
    main()
