"""Checks that hold for every page: contrast, width, keyboard, names for a screen reader, nothing from other hosts.
Numbers such as 1.4.3 are criteria of WCAG 2.2."""

from chromium import PHONE, TAB, WIDE

# Compares each visible text with its background (WCAG 1.4.3). In an SVG, each filled rectangle or circle behind the
# text is also a background. Returns the number of comparisons, and the texts with a contrast below 4.5, lowest contrast
# first.
CONTRAST = r"""
const parse = (text) => { const n = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0]; return { rgb: n.slice(0, 3), a: n.length > 3 ? n[3] : 1 }; };
const light = ({ rgb }) => { const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const behind = (node) => { for (let at = node; at; at = at.parentElement) { const c = parse(getComputedStyle(at).backgroundColor); if (c.a === 1) return c; if (c.a > 0) return { rgb: [NaN, 0, 0] }; } return { rgb: [255, 255, 255] }; };
const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const low = [];
let count = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const owner = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(owner.tagName) || !owner.checkVisibility({ visibilityProperty: true })) continue;
    const style = getComputedStyle(owner);
    const svg = owner.closest("svg");
    const backs = [behind(owner)];
    if (svg) for (const shape of svg.querySelectorAll("rect, circle")) {
        const fill = getComputedStyle(shape).fill;
        if (fill !== "none" && overlap(shape.getBoundingClientRect(), owner.getBoundingClientRect())) backs.push(parse(fill));
    }
    for (const back of backs) {
        count += 1;
        const value = ratio(parse(svg ? style.fill : style.color), back);
        if (!(value >= 4.5)) low.push([value, owner.tagName + "." + owner.getAttribute("class"), walker.currentNode.data.trim().slice(0, 40)]);
    }
}
return { count, low: low.sort((a, b) => a[0] - b[0]) };
"""

# Returns the elements that a user must be able to reach with Tab, in document order (2.1.1, 2.4.3).
STOPS = r"""
window.stopName = (node) => node.id || `${node.tagName} ${(node.getAttribute("aria-label") || node.innerText || node.getAttribute("href") || "").trim().slice(0, 40)}`;
return [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
    .filter((node) => node.checkVisibility({ visibilityProperty: true }) && !node.disabled).map(stopName);
"""

# Returns the focused element, and whether its focus is visible (2.4.7): an outline of at least 2 px.
FOCUS = r"""
const node = document.activeElement;
if (!node || node === document.body || node === document.documentElement) return null;
const style = getComputedStyle(node);
return { name: stopName(node), isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 };
"""

# Collects the changed texts that a screen reader would read aloud (4.1.3). Returns them after `times` changes of the
# element `clock`.
CHATTER = r"""
const [clock, times, done] = arguments;
let spoken = [], ticks = 0;
const live = new MutationObserver((changes) => spoken.push(...changes.map((change) => change.target.textContent)));
for (const node of document.querySelectorAll("[role=status], [role=alert], [aria-live]")) live.observe(node, { childList: true, characterData: true, subtree: true });
const ticking = new MutationObserver(() => { ticks += 1; if (ticks >= times) { live.disconnect(); ticking.disconnect(); done(spoken); } });
ticking.observe(document.querySelector(clock), { childList: true, characterData: true, subtree: true });
"""

CONTROLS = {"button", "link", "textbox", "searchbox", "checkbox", "combobox", "DisclosureTriangle", "image", "img",
            "form", "search", "navigation", "table", "group", "region"}
UNNAMED = {"table", "group"}


class PageChecks:
    def __init__(self, browser, report, page):
        self.browser = browser
        self.report = report
        self.page = page

    def contrast_and_width(self, name):
        """Checks the page in each colour scheme at each width. Takes a screenshot of each combination if screenshots
        are wanted."""
        for scheme in ("light", "dark"):
            for width_name, size in (("wide", WIDE), ("phone", PHONE)):
                self.browser.show_as(size, scheme)
                found = self.browser.run(CONTRAST)
                self.report.check(found["count"] > 0 and not found["low"],
                                  f"{self.page}, {name}, {scheme}, {width_name}: all text in 4.5:1 or better", *found["low"])
                width = self.browser.run("return document.documentElement.scrollWidth")
                self.report.check(width <= size[0],
                                  f"{self.page}, {name}, {scheme}, {width_name}: nothing to scroll sideways",
                                  f"{width} px")
                self.browser.keep_picture(f"{self.page}-{name}-{width_name}-{scheme}")
        self.browser.show_as(WIDE)

    def keyboard(self, name, at_most=400):
        """Presses Tab repeatedly. The focus must reach the first `at_most` controls in their order, and must be visible
        each time."""
        expected = self.browser.run(STOPS)
        self.browser.run("document.activeElement?.blur(); window.getSelection().removeAllRanges(); window.scrollTo(0, 0);"
                         "document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
        reached, unseen = [], []
        for _ in range(min(len(expected), at_most)):
            self.browser.press(TAB)
            focus = self.browser.run(FOCUS)
            if focus is None:
                break
            reached.append(focus["name"])
            if not focus["isSeen"]:
                unseen.append(focus["name"])
        self.report.check(reached == expected[:at_most], f"{self.page}, {name}: Tab reaches every control, in order",
                          f"there: {expected[:at_most]}", f"reached: {reached}")
        self.report.check(reached and not unseen, f"{self.page}, {name}: the focus is seen at each", *unseen)

    def names(self, name):
        """Checks what a screen reader announces: names, landmarks, headings (1.1.1, 1.3.1, 2.4.6, 4.1.2)."""
        nodes = self.browser.accessibility()
        roles = [role for role, _, _ in nodes]
        nameless = [role for role, text, _ in nodes if role in CONTROLS - UNNAMED and not text.strip()]
        self.report.check(not nameless, f"{self.page}, {name}: every control and drawing has a name", *nameless)
        self.report.check(roles.count("main") == 1 and roles.count("banner") == 1,
                          f"{self.page}, {name}: one main part, one banner",
                          roles.count("main"), roles.count("banner"))
        levels = [int(properties.get("level", 0)) for role, _, properties in nodes if role == "heading"]
        steps = all(after <= before + 1 for before, after in zip(levels, levels[1:]))
        self.report.check(levels.count(1) == 1 and steps,
                          f"{self.page}, {name}: one first heading, and no level is left out", levels)

    def stillness(self):
        """Checks that nothing moves for a user who asks for reduced motion (2.3.3)."""
        self.browser.show_as(WIDE, reduced_motion=True)
        moving = self.browser.run("""return [...document.querySelectorAll("*")].filter((node) => { const style = getComputedStyle(node);
            return style.animationName !== "none" || style.transitionDuration.split(", ").some((time) => time !== "0s"); }).length""")
        self.report.check(moving == 0, f"{self.page}: nothing moves for whoever asked for that", moving)
        self.browser.show_as(WIDE)

    def quiet(self, clock, times):
        spoken = self.browser.driver.execute_async_script(CHATTER, clock, times)
        self.report.check(not spoken, f"{self.page}: {times} pictures without a word to a screen reader", *spoken)

    def only_from(self, origin):
        strangers = [url for url in self.browser.addresses() if not url.startswith((origin, "data:"))]
        self.report.check(self.browser.requested and not strangers,
                          f"{self.page}: nothing was asked of any other host", *strangers)

    def console(self, when, *expected):
        """Fails if a line of the console contains none of the texts in `expected`."""
        lines = [line for line in self.browser.complaints() if not any(piece in line for piece in expected)]
        self.report.check(not lines, f"{self.page}: the console is silent {when}", *lines)
