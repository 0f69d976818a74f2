"""A headless Chromium for one check: controlled over WebDriver; media, accessibility and network over the DevTools
protocol. It can reach only 127.0.0.1. Knows nothing about the content of the pages."""

import base64
import json
import os
import pathlib
import shutil
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

# Generous: what is waited for comes within seconds on an idle machine, and a busy one must not fail.
PATIENCE_SECONDS = 90
WIDE = (1280, 1000)
PHONE = (390, 844)


class Chromium:
    """For use with `with`."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="dwell-chromium.")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        # Chromium's own sandbox wants a user that is not root and a kernel that lets it; the pages are ours.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         f"--user-data-dir={self.folder}", "--no-first-run", "--disable-background-networking",
                         "--disable-component-update", "--disable-sync", "--lang=en-GB",
                         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # The driver's place is said, so that nothing looks for one on the network.
        service = webdriver.ChromeService(
            executable_path=shutil.which("chromedriver"), log_output=os.path.join(self.folder, "chromedriver.log"))
        # WebDriver goes over 127.0.0.1, whatever proxy the environment has.
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(PATIENCE_SECONDS)
        self.devtools("Network.enable")
        self.requested = []
        # What Chromium's own first page asked for is not ours.
        self.open("about:blank")
        self.driver.get_log("performance")
        self.show_as(WIDE)
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def devtools(self, command, **parameters):
        return self.driver.execute_cdp_cmd(command, parameters)

    def open(self, url):
        self.driver.get(url)

    def run(self, script, *values):
        return self.driver.execute_script(script, *values)

    def text(self, selector):
        """What is shown there; None when nothing is there."""
        return self.run("return document.querySelector(arguments[0])?.innerText.trim() ?? null", selector)

    def is_hidden(self, selector):
        return not self.run("return document.querySelector(arguments[0]).checkVisibility()", selector)

    def wait(self, script, what, *values):
        """Until the script answers something that is true; the answer."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (answer := self.run(script, *values)):
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {PATIENCE_SECONDS} s. The page: {self.text('body')[:1500]}")
            time.sleep(0.1)
        return answer

    def wait_for_text(self, selector, text):
        self.wait("return document.querySelector(arguments[0])?.innerText.includes(arguments[1])",
                  f"{selector} says “{text}”", selector, text)

    def press(self, *keys):
        """To whatever has the focus, as a keyboard does."""
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def show_as(self, size, scheme="light", reduced_motion=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1,
                      mobile=size == PHONE)
        # What the page draws anew for it is drawn after the next frame.
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}])

    def accessibility(self):
        """The nodes of the accessibility tree that a screen reader is told of: role, name, properties."""
        nodes = []
        for node in self.devtools("Accessibility.getFullAXTree")["nodes"]:
            if node.get("ignored"):
                continue
            properties = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
            nodes.append((node["role"]["value"], node.get("name", {}).get("value", ""), properties))
        return nodes

    def complaints(self):
        """What the console was told since the last time, warnings and violations of the policy included; without what
        Chromium's own first page is told on a slow machine."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] != "DEBUG" and not entry["message"].startswith("chrome://")]

    def addresses(self):
        """Every address that pages asked for so far."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        return self.requested

    def keep_picture(self, name):
        """The whole page as a PNG in $DWELL_SCREENSHOTS, if that is set."""
        folder = os.environ.get("DWELL_SCREENSHOTS")
        if not folder:
            return
        # A picture of the whole page has no scrollbar, and without one the page is wider.
        self.devtools("Emulation.setScrollbarsHidden", hidden=True)
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": self.run("return window.innerWidth"), "height": min(size["height"], 6000), "scale": 1})
        self.devtools("Emulation.setScrollbarsHidden", hidden=False)
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        pathlib.Path(folder, f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


TAB = Keys.TAB
ENTER = Keys.ENTER
ESCAPE = Keys.ESCAPE
