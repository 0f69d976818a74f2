"""A headless Chromium for one check, controlled over WebDriver and the DevTools protocol. The browser can reach only
127.0.0.1.

This module is independent of the content of the pages."""

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

# The maximum time for which a check waits for the page. It is long, so that a busy machine does not make the test fail.
PATIENCE_SECONDS = 90
WIDE = (1280, 1000)
PHONE = (390, 844)


class Chromium:
    """A context manager that starts and stops the browser."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="dwell-chromium.")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        # Chromium's own sandbox is off, because it needs a user other than root and a kernel that permits it. This is
        # safe because the pages under test are trusted.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         f"--user-data-dir={self.folder}", "--no-first-run", "--disable-background-networking",
                         "--disable-component-update", "--disable-sync", "--lang=en-GB",
                         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        # Selenium gets the path of the driver, because otherwise it would look for a driver on the network.
        service = webdriver.ChromeService(
            executable_path=shutil.which("chromedriver"), log_output=os.path.join(self.folder, "chromedriver.log"))
        # WebDriver uses 127.0.0.1 directly, even if the environment has a proxy.
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_script_timeout(PATIENCE_SECONDS)
        self.devtools("Network.enable")
        self.requested = []
        # Discard the requests of Chromium's own first page.
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
        """Returns the text that the element shows, or None if there is no such element."""
        return self.run("return document.querySelector(arguments[0])?.innerText.trim() ?? null", selector)

    def is_hidden(self, selector):
        return not self.run("return document.querySelector(arguments[0]).checkVisibility()", selector)

    def wait(self, script, what, *values):
        """Waits until the script returns a true value, and returns that value."""
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
        """Sends keys to the focused element, as a keyboard does."""
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def show_as(self, size, scheme="light", reduced_motion=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1,
                      mobile=size == PHONE)
        # Waits for two frames, because the page is drawn in its new size only then.
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}])

    def accessibility(self):
        """Returns (role, name, properties) of each node of the accessibility tree that a screen reader can read."""
        nodes = []
        for node in self.devtools("Accessibility.getFullAXTree")["nodes"]:
            if node.get("ignored"):
                continue
            properties = {each["name"]: each["value"].get("value") for each in node.get("properties", [])}
            nodes.append((node["role"]["value"], node.get("name", {}).get("value", ""), properties))
        return nodes

    def complaints(self):
        """Returns the console messages since the last call, except debug messages. Also leaves out the messages of
        Chromium's own first page, which appear on slow machines."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] != "DEBUG" and not entry["message"].startswith("chrome://")]

    def addresses(self):
        """Returns every address that pages have requested so far."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        return self.requested

    def keep_picture(self, name):
        """If $DWELL_SCREENSHOTS is set, saves the first 6000 pixels of the page as a PNG in that directory."""
        folder = os.environ.get("DWELL_SCREENSHOTS")
        if not folder:
            return
        # A scrollbar makes the page narrower than its screenshot. The scrollbar is therefore hidden before the page is
        # measured.
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
