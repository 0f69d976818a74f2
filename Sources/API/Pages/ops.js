// The operator page. It signs in with a token, reads /ops/stream and draws each message of the stream (a "picture").
"use strict";

const storageKey = "dwell-operator-token";
const states = ["IDLE", "NEAR_CHARGER", "ANCHORED", "SESSION_ACTIVE", "IN_TRANSIT", "AT_MERCHANT", "SESSION_ENDED"];
const statusNames = { 400: "invalid request", 401: "invalid credential", 403: "not allowed", 404: "not found", 405: "method not allowed", 408: "request timeout", 413: "content too large", 415: "unsupported media type", 422: "key reused", 429: "rate limited", 431: "header too large", 500: "internal error", 503: "unavailable" };

let token = sessionStorage.getItem(storageKey);
let lastPicture = null;
let reading = null;
// If no picture arrives for this long, the connection counts as lost. The server sends a picture every two seconds.
const silenceMilliseconds = 15_000;

// --- drawing ---

function drawFunnel(picture) {
    const items = states.map((state) => {
        const moves = picture.flow.filter((move) => move.to === state);
        const isChanged = lastPicture !== null && lastPicture.drivers[state] !== picture.drivers[state];
        return element("li", isChanged ? { class: "changed" } : {},
            element("div", { class: "name" }, state),
            element("div", { class: "count" }, opener(grouped.format(picture.drivers[state]), `${picture.drivers[state]} drivers in ${state}: show them`, () => openDriversIn(state))),
            element("ul", { "aria-label": `Transitions to ${state} in the last hour` }, ...moves.map((move) =>
                element("li", {}, element("span", {}, ...breakable(move.event)), element("span", {}, opener(grouped.format(move.count), `${move.count} transitions to ${state} by ${move.event}: show them`,
                    () => openEvents(`${move.event} to ${state}, last hour`, { event: move.event, state, transition: "applied" })))))));
    });
    put("funnel", element("ol", { class: "states" }, ...items));
    byID("whole").hidden = picture.is_whole;
}

function drawRequests({ requests }) {
    list("requests", [
        ["Per second", (requests.count / requests.seconds).toFixed(1)],
        ["p50", milliseconds(requests.p50_us)],
        ["p90", milliseconds(requests.p90_us)],
        ["p99", milliseconds(requests.p99_us)],
    ]);
    const refused = Object.entries(requests.statuses).filter(([status]) => Number(status) >= 400);
    put("refused", table(["Count", "Status", "Reason"], refused.map(([status, count]) => [
        opener(grouped.format(count), `${count} rejected with ${status}: show the drivers`, () => openRefusals(status)), status, statusNames[status] || ""]), "None."));
}

// The database check in the last response of /readyz; null if that request failed. The page requests /readyz with every
// picture.
let ready = null;
const disk = { ok: ["accepts writes", false], refuses_writes: ["rejects writes: events get 503", true], no_answer: ["does not respond", true] };

async function askReady() {
    const answer = await fetch("/readyz", { cache: "no-store" });
    ready = (await answer.json()).checks.database;
}

function drawParts(picture) {
    const admission = { process: ["in this process", false], redis: ["Redis", false], "redis-partly": ["Redis, except for the drivers of unreachable nodes", true], "redis-unreachable": ["in this process, because Redis is unreachable", true] }[picture.admission] || [picture.admission, true];
    const free = picture.storage.free_bytes;
    const rows = [
        ["Rate limits", ...admission],
        ["Database", bytes(picture.storage.database_bytes)],
        ["Disk", ...(disk[ready] || ["unknown", false])],
        ["Free space", free === undefined ? "unknown" : bytes(free), free !== undefined && free < 1e9],
    ];
    if (picture.purchases) {
        const { active, grace, billing_retry: retry, refunds_today: refunds } = picture.purchases;
        rows.push(["Purchases", `${grouped.format(active)} active, ${grouped.format(grace)} in grace, ${grouped.format(retry)} in billing retry, ${grouped.format(refunds)} refunded today`]);
    }
    rows.push(["Version", picture.version]);
    list("parts", rows);
}

function drawOutbox({ outbox }) {
    const titles = { analytics: "Analytics events", codes: "One-time codes", revocations: "Apple token revocations" };
    const rows = outbox.map((one) => [
        titles[one.queue] || one.queue, one.waiting, one.oldest_at ? age(one.oldest_at) : "",
        one.lost === undefined ? "" : grouped.format(one.lost),
        one.last_error === undefined ? "none since the start" : `${one.last_error} (${age(one.last_error_at)} ago)`]);
    put("outbox", table(["Queue", "Waiting", "Oldest", "Lost", "Last error"], rows, "No deliveries are configured."));
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
    drawReload(picture.settings_reload);
    readSettingsHistory(picture);
}

// The page reads the settings history again after this interval, because other servers may change the settings. If a
// picture (a message of /ops/stream) reports a change or a reload that the history lacks, the page reads the history
// again with the next picture.
const settingsHistoryMilliseconds = 60_000;
let shownSettings = null;

function readSettingsHistory({ settings_version: version, settings_reload: reload }) {
    const attempt = reload?.last_attempt_at;
    if (shownSettings?.version === version && shownSettings.attempt === attempt && Date.now() - shownSettings.readAt < settingsHistoryMilliseconds) return;
    ask("/ops/settings").then((answer) => answer.json()).then((history) => {
        drawSettingsHistory(history);
        const leftOut = reload && (!reload.is_good || reload.needs_restart.length > 0 || reload.unknown.length > 0);
        const hasChange = history.changes.some((change) => change.settings_version === version);
        const hasReload = !attempt || !leftOut || history.reloads.some((one) => one.at >= attempt);
        if (hasChange && hasReload) shownSettings = { version, attempt, readAt: Date.now() };
    }).catch(() => {});
}

// Draws the rules of SETTINGS_RULES_FILE.
function drawRules(version, rules) {
    byID("rules-section").hidden = !rules;
    if (!rules) return put("rules");
    const now = Date.now();
    const rows = rules.map((rule) => {
        const time = rule.from && Date.parse(rule.from) > now ? `from ${dayAndTime(rule.from)}` : rule.until && Date.parse(rule.until) <= now ? "over"
            : rule.until ? `until ${dayAndTime(rule.until)}` : "in force";
        const whom = [rule.percent !== undefined && `${rule.percent} %`, rule.drivers && `${rule.drivers} listed drivers`, rule.chargers && `${rule.chargers} listed chargers`,
            rule.app_versions && `app ${rule.app_versions.join(", ")}`, rule.app_version_min && `app from ${rule.app_version_min}`, rule.app_version_below && `app below ${rule.app_version_below}`];
        const values = Object.entries({ ...rule.settings, ...rule.flags }).map(([name, value]) => `${name} ${value}`);
        return [rule.name, time, whom.filter(Boolean).join("; ") || "everybody", values.join(", "), rule.reason];
    });
    put("rules", element("p", { class: "quiet" }, `Version ${version}. The first rule that matches decides.`),
        table(["Rule", "Time", "For", "Values", "Reason"], rows, "The file has no rules."));
}

function drawSettingsHistory({ settings_version: inForce, in_force_since: since, changed_by: changedBy, reason, rules_version: rulesVersion, rules, changes, reloads }) {
    drawRules(rulesVersion, rules);
    list("in-force", [["Version in force", inForce], ["Since", since ? dayAndTime(since) : "unknown"],
        ["Changed by", changedBy || "not given"], ["Reason", reason || "not given"]]);
    const rows = changes.map((change, index) => {
        const before = changes[index + 1];
        const differences = Object.entries(change.settings).filter(([name, value]) => before && before.settings[name] !== value)
            .map(([name, value]) => `${name} ${before.settings[name]} → ${value}`);
        if (before && before.rules_version !== change.rules_version) differences.push(change.rules ? `rules ${change.rules_version}` : "no rules");
        return [dayAndTime(change.at), change.settings_version, differences.join(", ") || (before ? "no change" : "first version shown"), change.changed_by, change.reason];
    });
    put("versions", table(["In force from", "Version", "Changed", "By", "Reason"], rows, "No versions are recorded."));
    put("reloads-table", table(["At", "Server", "Result", "Details"], reloads.map((one) => [
        dayAndTime(one.at), one.instance, one.is_good ? "partly applied" : element("td", { class: "rejected" }, "failed"), one.details.join("; ")]), "None."));
}

// Draws the result of the last reload of the settings.
function drawReload(reload) {
    if (!reload) return put("reload");
    const { loaded_at: loadedAt, last_attempt_at: attempt, is_good: isGood, problems, needs_restart: needsRestart, unknown } = reload;
    const lines = [];
    if (!attempt) lines.push([`Read at the start, ${dayAndTime(loadedAt)}; not reloaded since.`, false]);
    else if (isGood) lines.push([`Reloaded at ${dayAndTime(attempt)}.`, false]);
    else lines.push([`The reload at ${dayAndTime(attempt)} failed and changed nothing: ${problems.join(" ")}`, true]);
    if (needsRestart.length > 0) lines.push([`Needs a restart: ${needsRestart.join(", ")}.`, true]);
    for (const { name, nearest } of unknown) lines.push([`Unknown setting ${name}${nearest ? `; did you mean ${nearest}?` : "."}`, true]);
    put("reload", ...lines.map(([line, isBad]) => element("p", { class: isBad ? "bad" : "quiet" }, line)));
}

function drawServers(instances) {
    const rows = instances.map((one) => [
        one.is_this_one ? `${one.name} (this one)` : one.name, one.is_alive ? "running" : element("td", { class: "rejected" }, `last heartbeat ${age(one.heartbeat_at)} ago`),
        one.version, one.settings_version, dayAndTime(one.started_at),
        one.is_this_one ? "" : one.differences.length > 0 ? element("td", { class: "rejected" }, one.differences.join(", ")) : "none"]);
    byID("servers-section").hidden = rows.length === 0;
    put("servers", table(["Server", "State", "Version", "Settings", "Started", "Different settings"], rows, ""));
}

function draw(picture) {
    askReady().catch(() => { ready = null; });
    drawFunnel(picture);
    readHistory().catch(() => {});
    drawRequests(picture);
    put("rejections", table(["Count", "Event", "Reason"], picture.rejections.map((one) => [
        opener(grouped.format(one.count), `${one.count} times ${one.event} rejected, ${one.reason}: show them`,
            () => openEvents(`${one.event} rejected: ${one.reason}, last hour`, { event: one.event, reason: one.reason, transition: "rejected" })), one.event, one.reason]), "None."));
    drawParts(picture);
    drawOutbox(picture);
    drawSettings(picture);
    drawServers(picture.instances || []);
    lastPicture = picture;
    byID("as-of").textContent = `as of ${new Date(picture.as_of).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" })}`;
    say("Live", false);
}

// Shows the state of the connection. A screen reader announces each change of this state. The time of the last update
// is in a separate element, because it changes with every picture.
function say(text, isStale) {
    if (byID("standing").textContent !== text) byID("standing").textContent = text;
    byID("standing").classList.toggle("stale", isStale);
}

// --- requests ---

class Refused extends Error {}

async function ask(path, options = {}) {
    const answer = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` }, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.json()).detail);
    return answer;
}

// Yields the messages of a stream of server-sent events. Supports only messages with one data line, because the server
// sends no other messages.
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
    // Submitting the form twice runs this function twice. The second run must close the connection of the first run,
    // because leave() closes only the newest connection.
    reading?.connection?.abort();
    const mine = reading = { connection: null };
    for (let pause = 1000; token !== null && reading === mine; pause = Math.min(pause * 2, 30_000)) {
        const connection = mine.connection = new AbortController();
        let silence = null;
        const heard = () => {
            clearTimeout(silence);
            silence = setTimeout(() => connection.abort(new Error("no update for 15 seconds.")), silenceMilliseconds);
        };
        try {
            heard();
            const answer = await ask("/ops/stream", { signal: connection.signal });
            if (!answer.ok) throw new Error((await answer.json()).detail);
            show(true);
            for await (const picture of messages(answer)) {
                if (reading !== mine) return;
                heard();
                draw(picture);
                pause = 1000;
            }
            if (reading === mine) say("Disconnected: the server ended the connection. Reconnecting.", true);
        } catch (error) {
            if (reading !== mine) return;
            if (error instanceof Refused) return leave(error.message);
            // If the server does not respond, fetch throws a TypeError. Its text differs between browsers, so it is not
            // shown.
            say(`Disconnected: ${error instanceof TypeError ? "the server does not respond." : error.message} Reconnecting.`, true);
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
    // The focused field is now hidden, so the focus moves to the top of the page.
    if (comesIn) {
        byID("content").focus({ preventScroll: true });
        window.scrollTo(0, 0);
    }
}

function leave(reason = "") {
    token = null;
    sessionStorage.removeItem(storageKey);
    const left = reading;
    reading = null;
    left?.connection?.abort();
    byID("cases").close();
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
