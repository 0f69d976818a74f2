// The operator's page: reads /ops/stream with a token and draws what comes. Texts are only ever set as text.
"use strict";

const storageKey = "dwell-operator-token";
const states = ["IDLE", "NEAR_CHARGER", "ANCHORED", "SESSION_ACTIVE", "IN_TRANSIT", "AT_MERCHANT", "SESSION_ENDED"];
const transitions = ["applied", "none", "rejected"];
const svgNamespace = "http://www.w3.org/2000/svg";
const byID = (id) => document.getElementById(id);
const grouped = new Intl.NumberFormat("en");

let token = sessionStorage.getItem(storageKey);
let lastPicture = null;
let shownVersion = null;
let reading = null;

// --- drawing ---

function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children.filter((child) => child !== null));
    return made;
}

function shape(name, attributes, text) {
    const made = document.createElementNS(svgNamespace, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
}

function list(id, rows) {
    byID(id).replaceChildren(...rows.flatMap(([term, text, isBad]) =>
        [element("dt", {}, term), element("dd", isBad ? { class: "bad" } : {}, text)]));
}

function table(headings, rows, empty) {
    if (rows.length === 0) return element("p", { class: "quiet" }, empty);
    const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
    const cells = (cell) => (typeof cell === "number" ? element("td", { class: "number" }, grouped.format(cell))
        : typeof cell === "string" ? element("td", {}, cell) : cell);
    return element("div", { class: "scroll", tabindex: "0" }, element("table", {},
        element("thead", {}, head), element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cells))))));
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

function drawFunnel(picture) {
    const items = states.map((state) => {
        const moves = picture.flow.filter((move) => move.to === state);
        const isChanged = lastPicture !== null && lastPicture.drivers[state] !== picture.drivers[state];
        return element("li", isChanged ? { class: "changed" } : {},
            element("div", { class: "name" }, state),
            element("div", { class: "count" }, grouped.format(picture.drivers[state])),
            element("ul", { "aria-label": `Moves to ${state} in the last hour` }, ...moves.map((move) =>
                element("li", {}, element("span", {}, move.event), element("span", {}, grouped.format(move.count))))));
    });
    byID("funnel").replaceChildren(element("ol", { class: "states" }, ...items));
    byID("whole").hidden = picture.is_whole;
}

function drawRate(picture) {
    const width = 900, height = 180, left = 44, bottom = 18;
    const total = (minute) => transitions.reduce((sum, name) => sum + minute[name], 0);
    const highest = Math.max(1, ...picture.minutes.map(total));
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Events per minute in the last hour, stacked by verdict" });
    for (const part of [0, 0.5, 1]) {
        const y = (height - bottom) - part * (height - bottom - 10);
        svg.append(shape("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }));
        svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, grouped.format(Math.round(part * highest))));
    }
    const step = (width - left) / picture.minutes.length;
    picture.minutes.forEach((minute, index) => {
        let y = height - bottom;
        for (const name of transitions) {
            const tall = (minute[name] / highest) * (height - bottom - 10);
            y -= tall;
            if (tall > 0) svg.append(shape("rect", { x: left + index * step + 1, y, width: Math.max(step - 2, 1), height: tall, class: `bar ${name}` }));
        }
        if (index % 15 === 14) {
            svg.append(shape("text", { x: left + (index + 0.5) * step, y: height - 4, "text-anchor": "middle" }, clockTime(minute.minute)));
        }
    });
    byID("rate").replaceChildren(svg);
    const sums = transitions.map((name) => [name, picture.minutes.reduce((sum, minute) => sum + minute[name], 0)]);
    byID("rate-text").replaceChildren(...sums.flatMap(([name, sum]) => [element("span", { class: `key ${name}`, "aria-hidden": "true" }), `${name} ${grouped.format(sum)} `]));
}

function clockTime(text) {
    return new Date(text).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

function drawRequests({ requests }) {
    list("requests", [
        ["per second", (requests.count / requests.seconds).toFixed(1)],
        ["half within", milliseconds(requests.p50_us)],
        ["90 % within", milliseconds(requests.p90_us)],
        ["99 % within", milliseconds(requests.p99_us)],
    ]);
    const names = { 400: "not valid", 401: "credential", 403: "not allowed", 404: "not found", 405: "method", 408: "too slow", 413: "too large", 415: "media type", 422: "key reused", 429: "rate limited", 431: "fields too large", 500: "internal error", 503: "unavailable" };
    const refused = Object.entries(requests.statuses).filter(([status]) => Number(status) >= 400);
    byID("refused").replaceChildren(table(["Count", "Status", "Reason"], refused.map(([status, count]) => [count, status, names[status] || ""]), "None."));
}

function drawParts(picture) {
    const admission = { process: ["in the process", false], redis: ["Redis", false], "redis-unreachable": ["Redis does not answer; the process decides", true] }[picture.admission] || [picture.admission, true];
    const free = picture.storage.free_bytes;
    const rows = [
        ["Rate limits", ...admission],
        ["Database", bytes(picture.storage.database_bytes)],
        ["Free on its disk", free === undefined ? "unknown" : bytes(free), free !== undefined && free < 1e9],
    ];
    if (picture.forwarding) {
        rows.push(["Analytics waiting", grouped.format(picture.forwarding.waiting), picture.forwarding.waiting > 100_000]);
        rows.push(["Analytics lost", grouped.format(picture.forwarding.lost), picture.forwarding.lost > 0]);
    }
    rows.push(["Version", picture.version]);
    list("parts", rows);
}

function drawSettings(picture) {
    const settings = picture.settings;
    const size = 300, centre = size / 2;
    const scale = (centre - 24) / Math.max(settings.chargerIntentRadius_m, settings.merchantUnlockRadius_m);
    const svg = shape("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `Radii around a charger: intent ${settings.chargerIntentRadius_m} m, merchant ${settings.merchantUnlockRadius_m} m, anchor ${settings.chargerAnchorRadius_m} m` });
    const rings = [["intent", settings.chargerIntentRadius_m], ["merchant", settings.merchantUnlockRadius_m], ["anchor", settings.chargerAnchorRadius_m]];
    for (const [name, radius] of rings) svg.append(shape("circle", { cx: centre, cy: centre, r: Math.max(radius * scale, 1), class: `ring ${name}` }));
    svg.append(shape("circle", { cx: centre, cy: centre, r: 2, class: "place" }));
    svg.append(shape("text", { x: centre, y: 14, "text-anchor": "middle" }, `intent ${settings.chargerIntentRadius_m} m`));
    const below = centre + Math.max(settings.merchantUnlockRadius_m, settings.chargerAnchorRadius_m) * scale;
    svg.append(shape("text", { x: centre, y: Math.min(below + 16, size - 18), "text-anchor": "middle" }, `merchant ${settings.merchantUnlockRadius_m} m`));
    svg.append(shape("text", { x: centre, y: Math.min(below + 30, size - 4), "text-anchor": "middle" }, `anchor ${settings.chargerAnchorRadius_m} m`));
    byID("rings").replaceChildren(svg);
    list("settings", Object.entries(settings).map(([name, value]) => [name, String(value)]));
    if (shownVersion !== picture.settings_version) {
        shownVersion = picture.settings_version;
        ask("/ops/settings").then((answer) => answer.json()).then(drawVersions).catch(() => {});
    }
}

function drawVersions({ versions }) {
    const rows = versions.map((version, index) => {
        const before = versions[index + 1];
        const changes = Object.entries(version.settings).filter(([name, value]) => before && before.settings[name] !== value)
            .map(([name, value]) => `${name} ${before.settings[name]} → ${value}`);
        return [new Date(version.first_used_at).toLocaleString(), version.settings_version, changes.join(", ") || (before ? "the same" : "the first")];
    });
    byID("versions").replaceChildren(table(["First event", "Version", "Changed"], rows, "No event is stored yet."));
}

function draw(picture) {
    drawFunnel(picture);
    drawRate(picture);
    drawRequests(picture);
    byID("rejections").replaceChildren(table(["Count", "Event", "Reason"], picture.rejections.map((one) => [one.count, one.event, one.reason]), "None."));
    drawParts(picture);
    drawSettings(picture);
    lastPicture = picture;
    say(`As of ${new Date(picture.as_of).toLocaleTimeString()}`, false);
}

function say(text, isStale) {
    byID("standing").textContent = text;
    byID("standing").classList.toggle("stale", isStale);
}

// --- asking ---

class Refused extends Error {}

async function ask(path, options = {}) {
    const answer = await fetch(path, { ...options, headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.json()).detail);
    return answer;
}

// Messages of a stream of server-sent events, as far as ours go: one data line each.
async function* messages(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        text += value;
        let end;
        while ((end = text.indexOf("\n\n")) >= 0) {
            const message = text.slice(0, end);
            text = text.slice(end + 2);
            if (message.startsWith("data: ")) yield JSON.parse(message.slice(6));
        }
    }
}

async function look() {
    const mine = reading = new AbortController();
    for (let pause = 1000; token !== null && reading === mine; pause = Math.min(pause * 2, 30_000)) {
        try {
            const answer = await ask("/ops/stream", { signal: mine.signal });
            if (!answer.ok) throw new Error((await answer.json()).detail);
            show(true);
            for await (const picture of messages(answer)) { draw(picture); pause = 1000; }
            say("The connection ended; connecting again.", true);
        } catch (error) {
            if (reading !== mine) return;
            if (error instanceof Refused) return leave(error.message);
            say(`Not connected: ${error.message} Trying again.`, true);
        }
        await new Promise((resume) => setTimeout(resume, pause));
    }
}

function show(isIn) {
    byID("content").hidden = !isIn;
    byID("enter").hidden = isIn;
    byID("leave").hidden = !isIn;
}

function leave(reason = "") {
    token = null;
    sessionStorage.removeItem(storageKey);
    if (reading) reading.abort();
    reading = null;
    show(false);
    say("Not connected.", false);
    byID("refusal").textContent = reason;
    byID("token").value = "";
    byID("token").focus();
}

byID("enter").addEventListener("submit", (event) => {
    event.preventDefault();
    token = byID("token").value.trim();
    sessionStorage.setItem(storageKey, token);
    byID("refusal").textContent = "";
    look();
});

byID("leave").addEventListener("click", () => leave());

byID("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = byID("session").value.trim();
    try {
        const answer = await ask(`/ops/sessions/${encodeURIComponent(name)}`);
        const found = await answer.json();
        byID("found").replaceChildren(...(answer.ok ? timeline(found) : [element("p", {}, found.detail)]));
    } catch (error) {
        byID("found").replaceChildren(element("p", {}, `Not read: ${error.message}`));
    }
});

function timeline(found) {
    const about = [`Driver ${found.driver_id}`, found.state && `now ${found.state}`, `opened ${new Date(found.opened_at).toLocaleString()}`].filter(Boolean).join(", ");
    const rows = found.events.map((one) => [
        new Date(one.occurred_at).toLocaleString(), one.event, one.source,
        element("td", { class: one.transition }, one.reason ? `${one.transition}: ${one.reason}` : one.transition), one.state, one.settings_version,
    ]);
    return [element("p", {}, about), table(["Occurred", "Event", "Source", "Verdict", "State after", "Settings"], rows, "No event names it.")];
}

if (token !== null) look();
