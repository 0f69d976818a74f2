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
// The server sends a picture every two seconds; after this long without one the connection is as good as gone.
const silenceMilliseconds = 15_000;

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

// Touches the page only where something is different, so that a selection outlives a picture.
function put(id, ...made) {
    const place = byID(id);
    const next = place.cloneNode(false);
    next.append(...made);
    if (!next.isEqualNode(place)) place.replaceChildren(...next.childNodes);
    // What can be scrolled sideways can be reached with the keyboard; what cannot is no stop on the way.
    if (place.classList.contains("scroll")) place.tabIndex = place.scrollWidth > place.clientWidth ? 0 : -1;
}

function list(id, rows) {
    put(id, ...rows.flatMap(([term, text, isBad]) =>
        [element("dt", {}, term), element("dd", isBad ? { class: "bad" } : {}, text)]));
}

function table(headings, rows, empty) {
    if (rows.length === 0) return element("p", { class: "quiet" }, empty);
    const head = element("tr", {}, ...headings.map((text, column) =>
        element("th", { scope: "col", ...(typeof rows[0][column] === "number" ? { class: "number" } : {}) }, text)));
    const cells = (cell) => (typeof cell === "number" ? element("td", { class: "number" }, grouped.format(cell))
        : typeof cell === "string" ? element("td", {}, ...breakable(cell)) : cell);
    return element("table", {},
        element("thead", {}, head), element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map(cells)))));
}

// A name of several words, which may go on in the next line between two of them.
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

function drawFunnel(picture) {
    const items = states.map((state) => {
        const moves = picture.flow.filter((move) => move.to === state);
        const isChanged = lastPicture !== null && lastPicture.drivers[state] !== picture.drivers[state];
        return element("li", isChanged ? { class: "changed" } : {},
            element("div", { class: "name" }, state),
            element("div", { class: "count" }, grouped.format(picture.drivers[state])),
            element("ul", { "aria-label": `Moves to ${state} in the last hour` }, ...moves.map((move) =>
                element("li", {}, element("span", {}, ...breakable(move.event)), element("span", {}, grouped.format(move.count))))));
    });
    put("funnel", element("ol", { class: "states" }, ...items));
    byID("whole").hidden = picture.is_whole;
}

function drawRate(picture) {
    // As wide as its place, so that its words are as large on a phone as elsewhere.
    const width = Math.max(byID("rate").clientWidth, 200), height = 180, left = 44, bottom = 18;
    const total = (minute) => transitions.reduce((sum, name) => sum + minute[name], 0);
    // Even, so that the line in the middle has a whole number too.
    const highest = 2 * Math.ceil(Math.max(2, ...picture.minutes.map(total)) / 2);
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Events per minute in the last hour, stacked by verdict" });
    for (const part of [0, 0.5, 1]) {
        const y = (height - bottom) - part * (height - bottom - 10);
        svg.append(shape("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }));
        svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, grouped.format(part * highest)));
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
            svg.append(shape("text", { x: left + (index + 1) * step, y: height - 4, "text-anchor": "end" }, clockTime(minute.minute)));
        }
    });
    put("rate", svg);
    const sums = transitions.map((name) => [name, picture.minutes.reduce((sum, minute) => sum + minute[name], 0)]);
    put("rate-text", ...sums.flatMap(([name, sum]) => [
        element("span", { class: "sum" }, element("span", { class: `key ${name}`, "aria-hidden": "true" }), `${name} ${grouped.format(sum)}`), " "]));
    drawMinutes(picture);
}

// For whoever cannot see the bars; sixty rows, so only while they are asked for.
function drawMinutes({ minutes }) {
    if (!byID("minutes").open) return;
    const rows = minutes.filter((minute) => transitions.some((name) => minute[name] > 0)).reverse()
        .map((minute) => [clockTime(minute.minute), ...transitions.map((name) => minute[name])]);
    put("minutes-table", table(["Minute", ...transitions], rows, "No event in the last hour."));
}

function clockTime(text) {
    return new Date(text).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
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
    put("refused", table(["Count", "Status", "Reason"], refused.map(([status, count]) => [count, status, names[status] || ""]), "None."));
}

// What /readyz says of the database; asked with every picture.
let ready = null;
const disk = { ok: ["takes writes", false], refuses_writes: ["refuses writes: events are answered 503", true], no_answer: ["does not answer", true] };

async function askReady() {
    const answer = await fetch("/readyz", { cache: "no-store" });
    ready = (await answer.json()).checks.database;
}

function drawParts(picture) {
    const admission = { process: ["in the process", false], redis: ["Redis", false], "redis-unreachable": ["Redis does not answer; the process decides", true] }[picture.admission] || [picture.admission, true];
    const free = picture.storage.free_bytes;
    const rows = [
        ["Rate limits", ...admission],
        ["Database", bytes(picture.storage.database_bytes)],
        ["Its disk", ...(disk[ready] || ["not told", false])],
        ["Free on it", free === undefined ? "unknown" : bytes(free), free !== undefined && free < 1e9],
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
    put("rings", svg);
    list("settings", Object.entries(settings).map(([name, value]) => [name, String(value)]));
    // Asked again until the version in force is among them, which it is with its first event.
    if (shownVersion !== picture.settings_version) {
        ask("/ops/settings").then((answer) => answer.json()).then(drawVersions).catch(() => {});
    }
}

function drawVersions({ settings_version: inForce, versions }) {
    if (versions.some((version) => version.settings_version === inForce)) shownVersion = inForce;
    const rows = versions.map((version, index) => {
        const before = versions[index + 1];
        const changes = Object.entries(version.settings).filter(([name, value]) => before && before.settings[name] !== value)
            .map(([name, value]) => `${name} ${before.settings[name]} → ${value}`);
        return [new Date(version.first_used_at).toLocaleString(), version.settings_version, changes.join(", ") || (before ? "the same" : "the first")];
    });
    put("versions", table(["First event", "Version", "Changed"], rows, "No event is stored yet."));
}

function draw(picture) {
    askReady().catch(() => { ready = null; });
    drawFunnel(picture);
    drawRate(picture);
    drawRequests(picture);
    put("rejections", table(["Count", "Event", "Reason"], picture.rejections.map((one) => [one.count, one.event, one.reason]), "None."));
    drawParts(picture);
    drawSettings(picture);
    lastPicture = picture;
    byID("as-of").textContent = `as of ${new Date(picture.as_of).toLocaleTimeString()}`;
    say("Live", false);
}

// Read aloud when it changes, and only then: the time of each picture is beside it.
function say(text, isStale) {
    if (byID("standing").textContent !== text) byID("standing").textContent = text;
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
    const mine = reading = { connection: null };
    for (let pause = 1000; token !== null && reading === mine; pause = Math.min(pause * 2, 30_000)) {
        const connection = mine.connection = new AbortController();
        let silence = null;
        const heard = () => {
            clearTimeout(silence);
            silence = setTimeout(() => connection.abort(new Error("no picture came for 15 seconds.")), silenceMilliseconds);
        };
        try {
            heard();
            const answer = await ask("/ops/stream", { signal: connection.signal });
            if (!answer.ok) throw new Error((await answer.json()).detail);
            show(true);
            for await (const picture of messages(answer)) { heard(); draw(picture); pause = 1000; }
            if (reading === mine) say("Disconnected: the server ended the connection. Trying again.", true);
        } catch (error) {
            if (reading !== mine) return;
            if (error instanceof Refused) return leave(error.message);
            // A fetch that meets no server is a TypeError, in words that differ from browser to browser.
            say(`Disconnected: ${error instanceof TypeError ? "the server does not answer." : error.message} Trying again.`, true);
        } finally {
            clearTimeout(silence);
        }
        await new Promise((resume) => setTimeout(resume, pause));
    }
}

function show(isIn) {
    const comesIn = isIn && byID("content").hidden;
    byID("content").hidden = !isIn;
    byID("skip").hidden = !isIn;
    byID("enter").hidden = isIn;
    byID("leave").hidden = !isIn;
    // The field that had the focus is gone.
    if (comesIn) byID("content").focus();
}

function leave(reason = "") {
    token = null;
    sessionStorage.removeItem(storageKey);
    const left = reading;
    reading = null;
    left?.connection?.abort();
    show(false);
    byID("as-of").textContent = "";
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

window.addEventListener("resize", () => { if (lastPicture) drawRate(lastPicture); });

byID("minutes").addEventListener("toggle", () => { if (lastPicture) drawMinutes(lastPicture); });

byID("find").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = byID("session").value.trim();
    try {
        const answer = await ask(`/ops/sessions/${encodeURIComponent(name)}`);
        const found = await answer.json();
        byID("found").textContent = answer.ok ? about(found) : found.detail;
        put("timeline", ...(answer.ok ? [timeline(found)] : []));
    } catch (error) {
        byID("found").textContent = `Not read: ${error.message}`;
        put("timeline");
    }
});

function about(found) {
    const count = found.events.length === 1 ? "1 event" : `${grouped.format(found.events.length)} events`;
    return [`Driver ${found.driver_id}`, found.state && `now ${found.state}`, `opened ${new Date(found.opened_at).toLocaleString()}`, count].filter(Boolean).join(", ");
}

function timeline(found) {
    const rows = found.events.map((one) => [
        new Date(one.occurred_at).toLocaleString(), one.event,
        element("td", { class: one.transition }, ...breakable(one.reason ? `${one.transition}: ${one.reason}` : one.transition)), one.state, one.source, one.settings_version,
    ]);
    return table(["Occurred", "Event", "Verdict", "State after", "Source", "Settings"], rows, "No event names it.");
}

if (token !== null) look();
