// Functions that draw elements, tables and shapes on the operator page, and that format numbers and times. They insert
// all strings as text, never as HTML.
"use strict";

const svgNamespace = "http://www.w3.org/2000/svg";
const byID = (id) => document.getElementById(id);
const grouped = new Intl.NumberFormat("en");

function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
}

function shape(name, attributes, text) {
    const made = document.createElementNS(svgNamespace, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
}

function opener(text, label, open) {
    const button = element("button", { type: "button", class: "link", ...(label ? { "aria-label": label } : {}) }, ...breakable(text));
    button.open = open;
    return button;
}

// All buttons share one listener, because an update (every two seconds) may replace the buttons.
document.addEventListener("click", (event) => {
    const button = event.target.closest("button.link");
    if (button?.open) button.open();
});

// A wide table is a tab stop while it can be scrolled horizontally, so that the keyboard can scroll it.
function setTabStop(place) {
    place.tabIndex = place.scrollWidth > place.clientWidth ? 0 : -1;
}

const widths = new ResizeObserver((changes) => changes.forEach(({ target }) => setTabStop(target)));
document.querySelectorAll(".scroll").forEach((place) => widths.observe(place));

// Replaces the content of an element only if the new content differs. An update would otherwise clear the user's
// selection.
function put(id, ...made) {
    const place = byID(id);
    const next = place.cloneNode(false);
    next.append(...made);
    if (!next.isEqualNode(place)) {
        // If a button has the focus, the focus moves to the button that replaces it.
        const focused = [...place.querySelectorAll("button")].indexOf(document.activeElement);
        place.replaceChildren(...next.childNodes);
        if (focused >= 0) place.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    }
    if (place.classList.contains("scroll")) setTabStop(place);
}

function list(id, rows) {
    put(id, ...rows.flatMap(([term, text, isBad]) =>
        [element("dt", {}, term), element("dd", isBad ? { class: "bad" } : {}, text)]));
}

// Returns a table, or a paragraph with `empty` if there are no rows. A cell is a number, a text, a td, or any other
// element.
function table(headings, rows, empty) {
    if (rows.length === 0) return element("p", { class: "quiet" }, empty);
    const head = element("tr", {}, ...headings.map((text, column) =>
        element("th", { scope: "col", ...(typeof rows[0][column] === "number" || rows[0][column]?.className === "number" ? { class: "number" } : {}) }, text)));
    return element("table", {},
        element("thead", {}, head), element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cell)))));
}

function cell(value) {
    if (typeof value === "number") return element("td", { class: "number" }, grouped.format(value));
    if (value === undefined || value === null) return element("td");
    if (typeof value === "string") return element("td", {}, ...breakable(value));
    return value.tagName === "TD" ? value : element("td", {}, value);
}

// Splits a name in camel case or with underscores into words, with a <wbr> between them. The line may wrap at a <wbr>.
function breakable(name) {
    return name.split(/(?<=[a-z])(?=[A-Z])|(?<=_)/).flatMap((word, index) => (index === 0 ? [word] : [element("wbr"), word]));
}

function bytes(count) {
    const units = ["B", "KB", "MB", "GB", "TB"];
    let unit = 0;
    while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
    return `${count.toFixed(unit === 0 || count >= 100 ? 0 : 1)} ${units[unit]}`;
}

function milliseconds(microseconds) {
    return microseconds === undefined ? "none" : `${(microseconds / 1000).toFixed(microseconds < 10_000 ? 1 : 0)} ms`;
}

// Returns how long ago a time was, for example 40 s, 12 min, 3 h or 2 d.
function age(text) {
    const seconds = Math.max(0, (Date.now() - new Date(text)) / 1000);
    if (seconds < 120) return `${Math.round(seconds)} s`;
    if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
    return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

function clockTime(text) {
    return new Date(text).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
}

// Returns a time as 2026-11-23 09:05:01, in the time zone of the browser. The format is the same in every language.
function dayAndTime(time) {
    if (time === undefined) return "";
    const local = new Date(time);
    return new Date(local.getTime() - 60_000 * local.getTimezoneOffset()).toISOString().slice(0, 19).replace("T", " ");
}
