// Charts of events, responses and latency over the chosen range, with data from /ops/history.
"use strict";

const rangeKey = "dwell-operator-range";
// The time between two reads of the history, for each range. The server's counts change every ten seconds. A long range
// is read less often, because its steps are long.
const refreshMilliseconds = { "15m": 10_000, "1h": 10_000, "6h": 20_000, "24h": 60_000, "7d": 60_000, "30d": 60_000 };
const eventOutcomes = [
    ["applied", "applied"], ["none", "no change"], ["rejected", "rejected"], ["already_processed", "repeated"],
    ["rate_limited", "rate limited"], ["failed", "not stored"],
];
const answerKinds = [["ok", "successful"], ["refused", "rejected"], ["rate_limited", "rate limited"], ["failed", "failed"]];
const latencies = [["p50_us", "p50"], ["p90_us", "p90"], ["p99_us", "p99"]];

let shownHistory = null;
let historyReadAt = 0;

function chosenRange() {
    return document.querySelector("#ranges [aria-pressed=true]").value;
}

// Reads and draws the history, at most once per refresh interval. If `isNow` is true, reads immediately, because the
// user has changed the range.
async function readHistory(isNow = false) {
    const range = chosenRange();
    if (!isNow && Date.now() - historyReadAt < refreshMilliseconds[range]) return;
    historyReadAt = Date.now();
    const answer = await ask(`/ops/history?range=${range}`);
    if (!answer.ok || range !== chosenRange()) return;
    shownHistory = await answer.json();
    drawHistory();
}

// Returns all steps of the range. Adds empty steps, because the server omits steps in which nothing was counted.
function allSteps(history) {
    const length = history.step_seconds * 1000;
    const begin = Date.parse(history.from);
    const count = Math.floor((Date.parse(history.as_of) - begin) / length) + 1;
    const steps = Array.from({ length: count }, (_, index) => ({ at: begin + index * length, events: {}, answers: {} }));
    for (const step of history.steps) {
        const place = steps[Math.round((Date.parse(step.begins_at) - begin) / length)];
        if (place) Object.assign(place, step, { events: foldEvents(step.events), answers: foldStatuses(step.statuses) });
    }
    return steps;
}

function foldEvents(events) {
    const folded = {};
    for (const [outcome, count] of Object.entries(events)) {
        const name = eventOutcomes.some(([known]) => known === outcome) ? outcome : "failed";
        folded[name] = (folded[name] || 0) + count;
    }
    return folded;
}

function foldStatuses(statuses) {
    const folded = {};
    for (const [status, count] of Object.entries(statuses)) {
        const name = status === "429" ? "rate_limited" : status >= "500" ? "failed" : status >= "400" ? "refused" : "ok";
        folded[name] = (folded[name] || 0) + count;
    }
    return folded;
}

function drawHistory() {
    if (!shownHistory) return;
    const steps = allSteps(shownHistory);
    const per = { 60: "minute", 300: "five minutes", 900: "quarter of an hour", 7200: "two hours", 21600: "six hours" }[shownHistory.step_seconds];
    byID("rate-title").textContent = `Events per ${per}`;
    byID("answers-title").textContent = `Responses per ${per}`;
    bars("rate", `Events per ${per}, stacked by outcome`, steps, eventOutcomes, (step) => step.events);
    drawSources(steps);
    bars("answers", `Responses per ${per}, stacked by status`, steps, answerKinds, (step) => step.answers);
    lines("latency", "Latency: p50, p90 and p99", steps);
    drawHistoryTable(steps);
}

// Events of the whole range by source, most frequent first.
function drawSources(steps) {
    const sums = {};
    for (const step of steps) {
        for (const [source, count] of Object.entries(step.sources || {})) sums[source] = (sums[source] || 0) + count;
    }
    const sorted = Object.entries(sums).sort(([, one], [, other]) => other - one);
    put("rate-sources", ...(sorted.length ? sorted.flatMap(([source, count]) => [
        element("span", { class: "sum" }, `${source} ${grouped.format(count)}`), " "]) : ["none"]));
}

// --- charts ---

function frame(id, label, steps, highest, format) {
    // The chart is as wide as its container, so that text in the chart has the same size on phones and on large
    // screens.
    const width = Math.max(byID(id).clientWidth, 200), height = 180, left = 52, bottom = 18, top = 10;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    const area = { svg, left, width, base: height - bottom, tall: height - bottom - top, step: (width - left) / steps.length };
    for (const part of [0, 0.5, 1]) {
        const y = area.base - part * area.tall;
        svg.append(shape("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }));
        svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, format(part * highest)));
    }
    const isDays = shownHistory.step_seconds >= 7200;
    const labels = width < 500 ? 3 : 6;
    for (let number = 0; number < labels; number += 1) {
        const index = Math.round(((number + 0.5) / labels) * steps.length);
        if (index >= steps.length) break;
        const at = new Date(steps[index].at);
        const text = isDays ? at.toLocaleDateString([], { day: "numeric", month: "short" }) : clockTime(at);
        svg.append(shape("text", { x: left + index * area.step, y: height - 4, "text-anchor": "middle" }, text));
    }
    return area;
}

function bars(id, label, steps, kinds, counts) {
    const total = (step) => kinds.reduce((sum, [name]) => sum + (counts(step)[name] || 0), 0);
    // The highest value of the axis is even, so that the value at the middle line is a whole number.
    const highest = 2 * Math.ceil(Math.max(2, ...steps.map(total)) / 2);
    const area = frame(id, label, steps, highest, (value) => grouped.format(value));
    steps.forEach((step, index) => {
        let y = area.base;
        for (const [name] of kinds) {
            const tall = ((counts(step)[name] || 0) / highest) * area.tall;
            y -= tall;
            if (tall > 0) area.svg.append(shape("rect", { x: area.left + index * area.step + 0.5, y, width: Math.max(area.step - 1, 1), height: tall, class: `bar ${name}` }));
        }
    });
    put(id, area.svg);
    const sums = kinds.map(([name, words]) => [name, words, steps.reduce((sum, step) => sum + (counts(step)[name] || 0), 0)]);
    put(`${id}-text`, ...sums.filter(([, , sum], index) => sum > 0 || index === 0).flatMap(([name, words, sum]) => [
        element("span", { class: "sum" }, element("span", { class: `key ${name}`, "aria-hidden": "true" }), `${words} `,
            countOfCases(id, name, words, sum, Date.parse(shownHistory.from), Date.parse(shownHistory.as_of))), " "]));
    hover(id, area, steps, (step) => kinds.filter(([name]) => counts(step)[name]).map(([name, words]) => [name, words, grouped.format(counts(step)[name])]));
}

// Returns a count, as a button if the server stores the counted entries. The server stores events with a verdict, and
// the requests that it has rejected since its start.
function countOfCases(id, name, words, count, from, to) {
    const text = grouped.format(count);
    if (count === 0) return text;
    const isRefusals = { rate_limited: (status) => status === 429, refused: (status) => status < 500 && status !== 429, failed: (status) => status >= 500 }[name];
    if (isRefusals) return opener(text, `${count} ${words}: show the drivers`, () => openRefusalsWhere(words, isRefusals));
    if (id === "rate" && ["applied", "none", "rejected"].includes(name)) return opener(text, `${count} ${words}: show them`, () => openEventsBetween(words, { transition: name }, from, to));
    return text;
}

function openEventsBetween(words, filter, from, to) {
    const times = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
    openEvents(`Events ${words}, ${dayAndTime(from)} to ${dayAndTime(to)}`, { ...filter, ...times });
}

function lines(id, label, steps) {
    const highest = Math.max(1000, ...steps.map((step) => step.p99_us || 0)) * 1.1;
    const area = frame(id, label, steps, highest, milliseconds);
    for (const [name] of latencies) {
        // The line is broken where there were no responses.
        let path = "", isDown = false;
        steps.forEach((step, index) => {
            if (step[name] === undefined) { isDown = false; return; }
            const x = area.left + (index + 0.5) * area.step, y = area.base - (step[name] / highest) * area.tall;
            path += `${isDown ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
            // A step gets a dot if neither neighbouring step has responses, because no line leads to the step.
            if (!isDown && steps[index + 1]?.[name] === undefined) area.svg.append(shape("circle", { cx: x, cy: y, r: 3, class: `dot ${name}` }));
            isDown = true;
        });
        if (path) area.svg.append(shape("path", { d: path, class: `line ${name}` }));
    }
    put(id, area.svg);
    put(`${id}-text`, ...latencies.flatMap(([name, words]) => [
        element("span", { class: "sum" }, element("span", { class: `key ${name}`, "aria-hidden": "true" }), words), " "]));
    hover(id, area, steps, (step) => latencies.filter(([name]) => step[name] !== undefined).map(([name, words]) => [name, words, milliseconds(step[name])]));
}

// For each chart, by its id: its area, its steps, and the function that returns a step's values.
const hovered = {};

function hover(id, area, steps, values) {
    hovered[id] = { area, steps, values };
    const place = byID(id);
    if (place.dataset.hovers) return;
    place.dataset.hovers = "yes";
    place.addEventListener("pointermove", (event) => showValues(id, event.clientX));
    place.addEventListener("pointerdown", (event) => showValues(id, event.clientX));
    place.addEventListener("pointerleave", () => { byID("values").hidden = true; });
    // The keyboard cannot open a step of the chart. The buttons in the table below the chart open the same entries.
    if (id === "rate") place.addEventListener("click", (event) => openStep(stepAt(id, event.clientX)));
}

function stepAt(id, clientX) {
    const { area, steps } = hovered[id];
    const box = byID(id).getBoundingClientRect();
    return steps[Math.floor((((clientX - box.left) / box.width) * area.width - area.left) / area.step)];
}

function openStep(step) {
    if (step?.begins_at !== undefined) openEventsBetween("stored", {}, step.at, step.at + shownHistory.step_seconds * 1000);
}

function showValues(id, clientX) {
    const { values } = hovered[id];
    const box = byID(id).getBoundingClientRect();
    const step = stepAt(id, clientX);
    const tip = byID("values");
    tip.hidden = !step;
    if (!step) return;
    const found = values(step);
    tip.replaceChildren(element("strong", {}, dayAndTime(step.at)), ...(found.length ? found : [["none", "no counts", ""]]).map(([name, words, value]) =>
        element("div", {}, element("span", { class: `key ${name}`, "aria-hidden": "true" }), `${words} ${value}`)));
    const x = clientX + 14 + tip.offsetWidth < document.documentElement.clientWidth ? clientX + 14 : clientX - 14 - tip.offsetWidth;
    tip.style.left = `${Math.max(4, x) + window.scrollX}px`;
    tip.style.top = `${box.top + window.scrollY + 8}px`;
}

function cells(id, kinds, step, counts) {
    const end = step.at + shownHistory.step_seconds * 1000;
    // A step cannot list its rejected requests, because the server does not store the time of each rejected request.
    return kinds.map(([name, words]) => {
        const count = counts[name] || 0;
        return element("td", { class: "number" }, ["applied", "none", "rejected"].includes(name) ? countOfCases(id, name, words, count, step.at, end) : grouped.format(count));
    });
}

// Draws the values of the charts as a table, if the table is open.
function drawHistoryTable(steps) {
    if (!byID("minutes").open) return;
    const rows = steps.filter((step) => step.begins_at !== undefined).reverse().map((step) => [
        dayAndTime(step.at), ...cells("rate", eventOutcomes, step, step.events), ...cells("answers", answerKinds, step, step.answers),
        ...[step.p50_us, step.p99_us].map((time) => element("td", { class: "number" }, milliseconds(time)))]);
    const headings = ["Begins", ...eventOutcomes.map(([, words]) => words), ...answerKinds.map(([, words]) => words), "p50", "p99"];
    put("minutes-table", table(headings, rows, "Nothing was counted in this period."));
}

for (const button of document.querySelectorAll("#ranges button")) {
    button.addEventListener("click", () => chooseRange(button.value));
}

function chooseRange(range) {
    for (const button of document.querySelectorAll("#ranges button")) button.setAttribute("aria-pressed", String(button.value === range));
    sessionStorage.setItem(rangeKey, range);
    if (token !== null) readHistory(true).catch(() => {});
}

byID("minutes").addEventListener("toggle", drawHistory);
window.addEventListener("resize", drawHistory);
