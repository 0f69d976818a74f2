"""The measured figures, their medians and ratios, and the bars, which are targets. The figures stay in the build
directory, so a run of some loads keeps the figures of all other loads."""

import dataclasses
import json
import statistics

from contestants import BUILT

PATH = BUILT / "results.json"


class Results:
    def __init__(self, loads=None):
        self.loads = loads or {}

    @classmethod
    def read(cls):
        return cls(json.loads(PATH.read_text())) if PATH.exists() else cls()

    def write(self):
        PATH.parent.mkdir(parents=True, exist_ok=True)
        PATH.write_text(json.dumps(self.loads, indent=1) + "\n")

    def values(self, load, series, figure):
        return [figures[figure] for figures in self.loads.get(load, {}).get("series", {}).get(series, [])
                if figure in figures]

    def median(self, load, series, figure):
        values = self.values(load, series, figure)
        return statistics.median(values) if values else None

    def ratio(self, above, below):
        above, below = self.median(*above), self.median(*below)
        return above / below if above is not None and below else None

    def ratios_of_rounds(self, above, below):
        """Returns the ratio of each round. If these ratios differ much, the ratio of the medians is unreliable."""
        pairs = zip(self.values(*above), self.values(*below))
        return [first / second for first, second in pairs if second]


@dataclasses.dataclass
class Bar:
    load: str
    what: str
    found: float | None
    bar: float
    at_least: bool
    unit: str = "x"
    rounds: list[float] = dataclasses.field(default_factory=list)

    @property
    def verdict(self):
        if self.found is None:
            return "not measured"
        return "reached" if (self.found >= self.bar if self.at_least else self.found <= self.bar) else "missed"


def bars(results):
    """Returns all bars. Each ratio is computed from medians of one run on one machine."""
    def ratio(load, what, above, below, bar, at_least=True, figure="rate"):
        figures = (figure, figure) if isinstance(figure, str) else figure
        sides = (load, above, figures[0]), (load, below, figures[1])
        return Bar(load, what, results.ratio(*sides), bar, at_least, rounds=results.ratios_of_rounds(*sides))

    half = ratio("half", "p99 at half the maximum rate, compared with the p50 at that rate", "dwell", "dwell", 5, at_least=False,
                 figure=("p99_us", "p50_us"))
    # If the machine has become slower since the maximum rate was measured, half of this rate may be too much. All
    # requests then queue, and the ratio of p99 to p50 says nothing about the service. Discard the ratio.
    kept_up = results.ratio(("half", "dwell", "rate"), ("half", "dwell", "due_rate"))
    if kept_up is None or kept_up < 0.98:
        half.found, half.rounds = None, []
    growth = results.median("memory", "dwell", "growth_mb")
    return [
        ratio("events", "single events without Redis, compared with Hummingbird + GRDB", "dwell", "hummingbird", 6),
        ratio("events", "single events without Redis, compared with the bare C program", "dwell", "epoll", 0.30),
        ratio("events", "single events with Redis, compared with FastAPI + Redis", "dwell-redis", "fastapi", 12),
        ratio("events", "single events with Redis, compared with the bare C program", "dwell-redis", "epoll", 0.22),
        ratio("batch", "batches of 100, compared with SQLite alone with 256 rows in a transaction", "dwell", "sqlite-256", 0.6,
              figure="event_rate"),
        ratio("config", "config reads, compared with Hummingbird", "dwell", "hummingbird", 2.2),
        ratio("config", "config reads, compared with the bare C program", "dwell", "epoll", 0.70),
        half,
        ratio("connections", "256 connections, compared with 64 connections", "dwell-256", "dwell-64", 0.85),
        ratio("connections", "2,000 connections, compared with 64 connections", "dwell-2000", "dwell-64", 0.85),
        ratio("latency", "one connection, one event at a time, compared with SQLite's commit of one row", "dwell", "sqlite-1", 1.6,
              at_least=False, figure="p50_us"),
        ratio("postgres", "single events on PostgreSQL with Redis, compared with FastAPI + Redis + asyncpg",
              "dwell-postgres-redis", "fastapi-postgres", 8),
        ratio("postgres", "single events on PostgreSQL, compared with PostgreSQL alone", "dwell-postgres", "postgres-alone", 0.5),
        Bar("memory", "resident memory", results.median("memory", "dwell", "resident_mb"), 150, False, "MB"),
        # The memory must not grow. The limit is not 0, because the size of malloc's arenas varies by a few MB.
        Bar("memory", "growth of the resident memory after the first tenth of the events", growth, 8, False, "MB"),
        ratio("table", "events into a large table, compared with an empty table", "filled", "empty", 0.8),
        Bar("start", "cold start on a database of 1 GB, until the first answer", results.median("start", "dwell", "start_ms"), 200, False,
            "ms"),
    ]
