"""Prints the results as tables, and writes them to docs/benchmarks.md with charts."""

import charts
from contestants import ALL, ROOT
from results import bars

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "benchmarks"

# By the name of a load: the title, the figure that is compared, and the unit of this figure.
TITLES = {
    "config": ("Config reads", "rate", "answers a second"),
    "events": ("Single events", "rate", "durable events a second"),
    "batch": ("Batches of 100 events", "event_rate", "durable events a second"),
    "mix": ("90 % events, 5 % repeats, 5 % config reads", "rate", "answers a second"),
    "connections": ("Single events over more and fewer connections", "rate", "durable events a second"),
    "fresh": ("A fresh connection for each event", "rate", "durable events a second"),
    "half": ("Single events at half the maximum rate", "p99_us", "microseconds"),
    "latency": ("One connection, one event at a time", "p50_us", "microseconds"),
    "postgres": ("Single events on PostgreSQL", "rate", "durable events a second"),
    "table": ("Single events into a large table", "rate", "durable events a second"),
    "start": ("Cold start on a database of 1 GB", "start_ms", "milliseconds to the first answer"),
    "memory": ("Resident memory", "resident_mb", "MB"),
}

INTRODUCTIONS = {
    "config": "`GET /native/config`. Every service checks the token of every request.",
    "events": "`POST /native/events`. Every event has its own id, and is on disk before the service answers "
              "200.",
    "batch": '`POST /native/events/batch`. Each batch has a hundred events of one driver. "SQLite alone, N a commit" '
             "is a program in C that inserts events into Dwell's tables in one thread, with `synchronous=FULL` and N "
             "events in each transaction, and without HTTP, JSON and journeys.",
    "mix": "A repeat posts the last event of its connection again. The service must answer "
           "`already_processed`.",
    "connections": "The load is the same as for single events. Each connection waits for an answer before it sends "
                   "the next request.",
    "fresh": "The client opens a connection, posts one event and closes the connection.",
    "half": "Requests are due at half the rate that was reached with single events. The latency of a request "
            'counts from the time at which it is due, so it includes any wait for a free connection. "The '
            'disk alone" is one thread that repeatedly writes 24 KiB, flushes them, and pauses for a millisecond. The '
            "time of a write and its flush shows how much of a slow answer the disk causes.",
    "latency": "The time from sending an event to receiving the answer, compared with the time that SQLite "
               "alone takes for a transaction with one event.",
    "postgres": "PostgreSQL runs on the same cores, with its default durability. The CPU time is that of the service "
                "alone. \"PostgreSQL alone\" is a program in C that sends the statements of a recorded run of Dwell again, with "
                "the same values in the same groups, without HTTP, JSON and journeys.",
    "table": "The load of single events on a database that already has many events, compared with the same load on an "
             "empty database. The server is started anew for each database.",
    "start": "The time from `exec` to the first answer 200. The database file is not in the page cache at the "
             "start.",
    "memory": "The memory of one process under the load of single events, read after each tenth of the events.",
}


def series_title(load, series):
    name, _, detail = series.partition("-") if series not in ALL else (series, "", "")
    if series in ALL:
        return ALL[series].title
    if name == "sqlite":
        return f"SQLite alone, {detail} a commit"
    if load == "connections":
        key, _, count = series.rpartition("-")
        return f"{ALL[key].title}, {int(count):,}"
    return {"disk": "the disk alone", "postgres-alone": "PostgreSQL alone", "empty": "empty table", "filled": "large table"}.get(series, series)


def figure(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def rows_of(results, load):
    """Yields for each series of a load: name, title, and the median, minimum and maximum of the compared figure."""
    counted = TITLES[load][1]
    for series in results.loads[load]["series"]:
        values = results.values(load, series, counted)
        if values:
            yield series, series_title(load, series), results.median(load, series, counted), min(values), max(values)


BAR_HEAD = ("", "median", "least and most of a round", "bar", "")


def bar_text(bar):
    sign = "at least" if bar.at_least else "at most"
    rounds = f"{figure(min(bar.rounds))} - {figure(max(bar.rounds))}" if len(bar.rounds) > 1 else ""
    return (bar.what, figure(bar.found) + (f" {bar.unit}" if bar.found is not None else ""), rounds,
            f"{sign} {bar.bar:g} {bar.unit}", bar.verdict)


def aligned(rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(widths[place]) if place == 0 else cell.rjust(widths[place])
                  for place, cell in enumerate(row)).rstrip()
        for row in rows)


def markdown(rows):
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in body])


def load_table(results, load):
    yield ["", "median", "least", "most", "p50 µs", "p99 µs", "CPU µs a request", "resident MB"]
    for series, title, median, least, most in rows_of(results, load):
        others = [results.median(load, series, name) for name in ("p50_us", "p99_us", "cpu_us", "resident_mb")]
        yield [title, figure(median), figure(least), figure(most), *map(figure, others)]


def print_tables(results, loads):
    for load in loads:
        if load not in results.loads:
            continue
        print(f"\n{TITLES[load][0]}, {TITLES[load][2]}\n")
        print(aligned(list(load_table(results, load))))
    verdicts = [bar_text(bar) for bar in bars(results) if bar.load in loads]
    if verdicts:
        print("\nFigures and bars\n")
        print(aligned([BAR_HEAD] + verdicts))


def write_document(results):
    PICTURES.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Benchmarks", "",
        "`make bench` measures on the machine that it runs on, and writes this page. "
        "[decisions/benchmarks](decisions/benchmarks.md) explains what is measured and why. The services with which "
        "Dwell is compared are in `Benchmarks/peers/`.", ""]
    parts += machines(results)
    if any(entry["busy"] > 0.2 for entry in results.loads.values()):
        parts += ["**Other programs ran on this machine during the measurement, so these figures are not reliable. Measure again on an idle machine.**", ""]
    verdicts = [bar_text(bar) for bar in bars(results)]
    parts += ["## Figures and bars", "", markdown([BAR_HEAD] + verdicts), ""]
    for load in TITLES:
        if load in results.loads:
            parts += section(results, load)
    DOCUMENT.write_text("\n".join(parts).rstrip() + "\n")


def machines(results):
    machine = next((entry["machine"] for entry in results.loads.values()), None)
    if machine is None:
        return []
    return [
        f"Measured on: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['kernel']}, "
        f"{machine['filesystem']}; one flush to disk {machine['flush_us']:.0f} µs. The clients run on the same cores. "
        "They check every answer. After every measurement, the number of rows on disk is compared with the number of "
        "acknowledged events.", ""]


def section(results, load):
    entry = results.loads[load]
    title, _, unit = TITLES[load]
    rounds = max(len(figures) for figures in entry["series"].values())
    conditions = f"{entry['when']}, version {entry['version']}, {rounds} round{'s' * (rounds != 1)}"
    if load not in ("memory", "start"):
        conditions += f" of {entry['seconds']:g} s"
    if load not in ("connections", "latency", "start"):
        conditions += f", {entry['connections']} connections"
    if entry["busy"] > 0.2:
        conditions += f". **The machine was busy: other programs used {entry['busy']:g} processors when this measurement began**"
    parts = [f"## {title}", "", INTRODUCTIONS[load] + f" Medians, in {unit}. {conditions}.", ""]
    picture = chart(results, load)
    if picture:
        (PICTURES / f"{load}.svg").write_text(picture)
        parts += [f"![{title}](benchmarks/{load}.svg)", ""]
    return parts + [markdown(list(load_table(results, load))), ""]


def chart(results, load):
    title, _, unit = TITLES[load]
    if load == "memory":
        points = results.loads[load]["series"]["dwell"][-1]["points"]
        return charts.line(title, points, "events stored", "MB", limit=150)
    rows = [
        (name, median, least, most, "ours" if series.startswith(("dwell", "filled", "empty")) else "other")
        for series, name, median, least, most in rows_of(results, load)]
    return charts.bars(title, rows, unit) if len(rows) > 1 else None
