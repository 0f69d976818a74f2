"""Prints the results as tables, and writes them to docs/benchmarks.md with charts."""

import charts
from contestants import ALL, ROOT
from results import bars

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "benchmarks"

# The name of a load -> its title, the figure that is compared, and the unit of that figure.
TITLES = {
    "config": ("Config reads", "rate", "answers a second"),
    "events": ("Single events", "rate", "durable events a second"),
    "batch": ("Batches of 100 events", "event_rate", "durable events a second"),
    "mix": ("90 % events, 5 % repeats, 5 % config reads", "rate", "answers a second"),
    "connections": ("Single events over more and fewer connections", "rate", "durable events a second"),
    "fresh": ("A fresh connection for each event", "rate", "durable events a second"),
    "half": ("Single events at half the maximum rate", "p99_us", "microseconds"),
    "latency": ("One connection, one event at a time", "p50_us", "microseconds"),
    "table": ("Single events into a large table", "rate", "durable events a second"),
    "start": ("Cold start on a database of 1 GB", "start_ms", "milliseconds to the first answer"),
    "memory": ("Resident memory", "resident_mb", "MB"),
}

TOLD = {
    "config": "`GET /native/config`, the token checked each time.",
    "events": "`POST /native/events`, each with an id of its own; a 200 means that it is on disk.",
    "batch": "`POST /native/events/batch`, a hundred events of one driver each. SQLite alone: rows of the same table in "
             "one thread, `synchronous=FULL`, so many to a transaction, no HTTP, no JSON, no journeys.",
    "mix": "A repeat is the last event of its connection, posted once more; it has to be answered `already_processed`.",
    "connections": "The same load as single events; each connection has one request under way.",
    "fresh": "Connect, one event, close.",
    "half": "Requests are sent when they are due, at half of what the load of single events reached, and timed from "
            "then: a request that had to wait for a connection is charged with the wait. The disk alone: 24 KiB written "
            "and flushed by one thread, again a millisecond later; that much of a slow answer is not Dwell's.",
    "latency": "The time from sending an event to having the answer, against SQLite's own time for a transaction of one "
               "row in the same table.",
    "table": "Against the same load on an empty database, both from a fresh start.",
    "start": "From `exec` to the first 200, the file not in the page cache.",
    "memory": "One process under the load of single events, read after each tenth of them.",
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
    return {"disk": "the disk alone", "empty": "empty table", "filled": "large table"}.get(series, series)


def figure(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def rows_of(results, load):
    """Yields, for each series of a load, its name, its title, and the median, minimum and maximum of the compared
    figure."""
    counted = TITLES[load][1]
    for series in results.loads[load]["series"]:
        values = results.values(load, series, counted)
        if values:
            yield series, series_title(load, series), results.median(load, series, counted), min(values), max(values)


BAR_HEAD = ("", "found", "in single rounds", "bar", "")


def bar_text(bar):
    sign = "at least" if bar.at_least else "at most"
    rounds = f"{figure(min(bar.rounds))} - {figure(max(bar.rounds))}" if len(bar.rounds) > 1 else ""
    return (bar.what, figure(bar.found) + (f" {bar.unit}" if bar.found is not None else ""), rounds,
            f"{sign} {bar.bar:g} {bar.unit}", bar.verdict)


def aligned(rows):
    """Returns the rows as a text table with aligned columns, for the terminal."""
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
    told = [bar_text(bar) for bar in bars(results) if bar.load in loads]
    if told:
        print("\nAgainst the bars\n")
        print(aligned([BAR_HEAD] + told))


def write_document(results):
    PICTURES.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Benchmarks", "",
        "Written by `make bench`, which measures on the machine it runs on; how and why is in "
        "[decisions/benchmarks](decisions/benchmarks.md). Who is compared, and how they are set up, is in "
        "`Benchmarks/peers/`.", ""]
    parts += machines(results)
    if any(entry["busy"] > 0.2 for entry in results.loads.values()):
        parts += ["**Other programs ran on this machine meanwhile: no figures to go by. Run it again on a quiet one.**", ""]
    told = [bar_text(bar) for bar in bars(results)]
    parts += ["## Against the bars", "", markdown([BAR_HEAD] + told), ""]
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
        f"{machine['filesystem']}; one flush to disk {machine['flush_us']:.0f} µs. The load runs on the same cores. "
        "Every answer was checked, and after every measurement the rows on disk were counted against what had been "
        "acknowledged.", ""]


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
        conditions += f". **The machine was busy: others kept {entry['busy']:g} processors when this began**"
    parts = [f"## {title}", "", TOLD[load] + f" Medians, in {unit}. {conditions}.", ""]
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
