#!/usr/bin/env python3
"""Checks /docs in Chromium. The page shows every operation of openapi.json and loads nothing from other hosts. It can
be used with a keyboard, with a screen reader, on a phone, and in dark mode.

Screenshots go to $DWELL_SCREENSHOTS, if it is set."""

import json

from chromium import Chromium
from client import Client
from page_checks import PageChecks
from processes import UNLIMITED, Folder, Server, arguments
from report import Report

METHODS = ("get", "put", "post", "patch", "delete")
READ_OPERATIONS = """return [...document.querySelectorAll("section.operation")].map((section) => [
    section.id, section.querySelector(".method").innerText + " " + section.querySelector(".path").innerText,
    [...section.querySelectorAll(".status")].map((status) => status.innerText)])"""
SHOWN = """return [...document.querySelectorAll(arguments[0])].filter((node) => node.checkVisibility()).length"""


def described(server):
    with Client(server.port, None) as client:
        document = json.loads(client.request("GET", "/openapi.json").body)
    return {operation["operationId"]: (f"{method.upper()} {path}", sorted(operation["responses"]))
            for path, item in document["paths"].items() for method, operation in item.items() if method in METHODS}


def operations(server, browser, report):
    expected = described(server)
    shown = {name: (title, sorted(statuses)) for name, title, statuses in browser.run(READ_OPERATIONS)}
    report.check(shown == expected, f"each of {len(expected)} operations is there with all its answers",
                 *(set(map(str, expected.items())) ^ set(map(str, shown.items()))))
    links = browser.run("return [...document.querySelectorAll('nav a')].map((link) => link.hash.slice(1))")
    report.check(sorted(links) == sorted(expected), "and each has its link", links)
    text = browser.text("main")
    report.check("undefined" not in text and "[object" not in text, "no value is shown that is none")


def filtering(browser, report):
    browser.run("document.getElementById('filter').focus()")
    browser.press("native/events/batch")
    browser.wait(SHOWN + " === 1", "the filter leaves what it names", "section.operation")
    report.check(browser.run(SHOWN, "nav h2") == 1, "a heading without links is not shown")
    browser.run("const field = document.getElementById('filter'); field.value = ''; field.dispatchEvent(new Event('input'))")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("browser_docs")
    with Folder() as folder, Server(options, folder, UNLIMITED) as server, Chromium() as browser:
        browser.open(f"http://127.0.0.1:{server.port}/docs")
        browser.wait("return document.getElementById('content').getAttribute('aria-busy') === 'false'", "the description is drawn")
        checks = PageChecks(browser, report, "docs")
        operations(server, browser, report)
        report.run("the filter", lambda: filtering(browser, report))
        browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
        checks.contrast_and_width("opened")
        browser.run("for (const each of document.querySelectorAll('details')) each.open = false")
        checks.contrast_and_width("closed")
        checks.keyboard("page", at_most=60)
        checks.names("page")
        checks.stillness()
        checks.console("throughout")
        checks.only_from(f"http://127.0.0.1:{server.port}/")
    report.exit()


main()
