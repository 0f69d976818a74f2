#!/usr/bin/env python3
"""Checks that Benchmarks/cost measures every route of API/Pages/openapi.json, except the routes that are listed here
with a reason."""

import importlib.util
import json
import pathlib
import sys

from report import Report

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Paths that need not be measured. The routes of shipped clients have the same handlers as the measured routes.
SHIPPED = ("/v1/", "/api/")
# These routes need not be measured, because only operators can call them, and operators are trusted. Wrong guesses at
# the operators' tokens are limited.
OPERATORS = ("/ops", "/metrics")
# This route need not be measured, because only services call it, and services are trusted.
SERVICES = ("/native/sessions/{session_id}/verification-code",)
# The server answers these paths from memory, without a credential. /healthz, which is measured, is answered in the same
# way.
PAGES = ("/docs", "/openapi.json", "/readyz", "/privacy", "/terms", "/support", "/.well-known/apple-app-site-association",
         "/.well-known/assetlinks.json")


def routes():
    paths = json.loads((REPOSITORY / "Sources/API/Pages/openapi.json").read_text())["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods
            if method in ("get", "put", "post", "patch", "delete")}


def measured():
    folder = REPOSITORY / "Benchmarks/cost"
    sys.path.insert(0, str(folder))
    declared = importlib.util.spec_from_file_location("cost", folder / "__main__.py")
    cost = importlib.util.module_from_spec(declared)
    declared.loader.exec_module(cost)
    return cost.rows(cost.Outside(None, None, None, None))


def main():
    report = Report("cost")
    rows = measured()
    rows_of = {row.route for row in rows}
    missing = sorted(route for route in routes() - rows_of
                     if not route.split(" ")[1].startswith(SHIPPED + OPERATORS + PAGES)
                     and route.split(" ")[1] not in SERVICES)
    report.check(not missing, f"each of {len(routes())} routes is measured, or named with a reason", *missing)
    gone = sorted(rows_of - routes() - {"any other"})
    report.check(not gone, "each row is about a route that exists", *gone)
    first = {}
    for row in rows:
        first.setdefault(row.unit, row)
    other = [f"{unit}: {row.what}" for unit, row in first.items() if "median" not in row.what]
    report.check(not other, "the first row of each charge is its median request", *other)
    free = [f"{row.route}, {row.what}" for row in rows if row.pays is not None and row.pays < 1]
    report.check(not free, "each row pays at least one charge", *free)
    report.exit()


main()
