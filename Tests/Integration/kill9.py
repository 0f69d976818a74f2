#!/usr/bin/env python3
"""Kills the server with SIGKILL under load, repeatedly. After each restart, every acknowledged event must be stored
exactly once. The unacknowledged events are sent again, and must then also be stored exactly once."""

import os
import random
import time

from client import Client, token
from phones import Load, Phone
from processes import UNLIMITED, Folder, Server, arguments, compare_with_disk
from report import Report


def send_again(server, unanswered):
    """Sends each event once more. Returns the responses by event."""
    answers = {}
    for sent in unanswered:
        with Client(server.port, token(sent.driver)) as client:
            answers[sent.driver, sent.key] = client.post("/native/events", sent.event)
    return answers


def main():
    parser = arguments(__doc__)
    parser.add_argument("--connections", default=64, type=int)
    parser.add_argument("--rounds", default=20, type=int, help="before scaling (default: 20)")
    parser.add_argument("--seed", default=int(time.time()), type=int, help="of the moments of the kills")
    options = parser.parse_args()
    rounds = max(1, round(options.rounds * options.scale))

    report = Report("kill -9")
    report.note(f"{rounds} rounds, --seed {options.seed}")
    chance = random.Random(options.seed)
    acknowledged, sent, lost_answers, stored_anyway = set(), set(), 0, 0
    with Folder() as folder, Server(options, folder, UNLIMITED) as server:
        for number in range(1, rounds + 1):
            phones = [Phone(f"kill-{os.getpid()}-{number}-{index}") for index in range(options.connections)]
            load = Load(server.port, phones, repeat_every=10)
            load.run(chance.uniform(0.3, 1.5), at_end=server.kill)
            acknowledged |= load.acknowledged()
            sent |= acknowledged | {(one.driver, one.key) for one in load.unanswered}

            server.start()
            wrong = [exchange for exchange in load.exchanges if exchange.status != 200] + load.wrong_words()
            report.check(not wrong, f"round {number}: {len(load.exchanges)} right answers until the kill", *wrong)
            compare_with_disk(report, server, acknowledged, sent, f"round {number}")
            before = set(server.stored_keys())

            answers = send_again(server, load.unanswered)
            lost_answers += len(answers)
            stored_anyway += sum(key in before for key in answers)
            wrong = {
                key: answer for key, answer in answers.items()
                if answer[0] != 200
                or answer[1]["status"] != ("already_processed" if key in before else "ok")
            }
            report.check(
                not wrong, f"round {number}: {len(answers)} unanswered events sent again are told apart",
                *wrong.items())
            acknowledged |= answers.keys()
        compare_with_disk(report, server, acknowledged, sent, "in the end")
        report.check(server.integrity() == "ok", "SQLite finds nothing wrong", server.integrity())
        report.check(server.stop() == 0, "SIGTERM ends the server with 0", server.log())
    report.note(
        f"{len(acknowledged)} acknowledged over {rounds} kills; {lost_answers} answers were lost, of "
        f"{stored_anyway} events that were stored and {lost_answers - stored_anyway} that were not")
    report.exit()


if __name__ == "__main__":
    main()
