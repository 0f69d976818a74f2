// The views of the operator page that list the entries behind a count ("cases") or the results of a search. All views
// open in one dialog, on top of each other.
"use strict";

// The stack of open views. Only the top view, the last one in the array, is shown.
let opened = [];

function openCases(title, load) {
    // If the dialog is closed, no view is open. The array may still contain views, because the dialog's close event may
    // not have been handled yet.
    if (!byID("cases").open) opened = [];
    if (opened.length > 0) opened[opened.length - 1].scroll = byID("cases").scrollTop;
    opened.push({ title, load, scroll: 0 });
    showCases();
}

async function showCases() {
    const shown = opened[opened.length - 1];
    byID("cases-title").textContent = shown.title;
    byID("cases-back").hidden = opened.length < 2;
    put("cases-body", element("p", { class: "quiet" }, "Loading …"));
    if (!byID("cases").open) byID("cases").showModal();
    byID("cases-title").focus();
    try {
        const made = await shown.load();
        if (opened[opened.length - 1] !== shown) return;
        put("cases-body", ...made);
        byID("cases").scrollTop = shown.scroll;
    } catch (error) {
        if (opened[opened.length - 1] !== shown) return;
        put("cases-body", element("p", { class: "bad" }, `Loading failed: ${error.message}`));
    }
}

byID("cases-back").addEventListener("click", () => { opened.pop(); showCases(); });
byID("cases-close").addEventListener("click", () => byID("cases").close());
byID("cases").addEventListener("close", () => { if (!byID("cases").open) opened = []; });

// Returns the decoded body. If the response is an error, throws an Error with the body's `detail`.
async function read(path, options) {
    const answer = await ask(path, options);
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.detail);
    return body;
}

function query(values) {
    return new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== "")).toString().replaceAll("+", "%20");
}

// Returns the elements of a list. If there may be another page, the list ends with a button that loads that page.
async function pages(path, values, name, rowsOf, headings, empty) {
    const place = element("div", { class: "scroll" });
    const more = element("p");
    const rows = [];
    const readPage = async (cursor) => {
        const page = await read(`${path}?${query({ ...values, cursor })}`);
        rows.push(...page[name].map(rowsOf));
        place.replaceChildren(table(headings, rows, empty));
        more.replaceChildren();
        if (page.next_cursor === undefined) return;
        const button = element("button", { type: "button", class: "more" }, "Load older entries");
        button.addEventListener("click", () => readPage(page.next_cursor).catch((error) => { more.textContent = `Loading failed: ${error.message}`; }));
        more.append(button);
    };
    await readPage();
    return [place, more];
}

// --- lists ---

const driverName = (id) => (id === undefined ? "unknown" : opener(id, `Driver ${id}`, () => openDriver(id)));
const sessionName = (id) => (id === undefined ? "" : opener(id, `Session ${id}`, () => openSession(id)));
const chargerName = (id) => (id === undefined ? "" : opener(id, `Sessions at charger ${id}`, () => openCharger(id)));

const stateOf = (one) => (one.ended_by ? `${one.state}, ${one.ended_by}` : one.state);

const driverHeadings = ["Driver", "State", "Session", "Charger", "Last event"];
const driverRow = (one) => [driverName(one.driver_id), stateOf(one), sessionName(one.session_id), chargerName(one.target_charger_id), dayAndTime(one.last_event_at)];

const sessionHeadings = ["Session", "Driver", "State", "Ended by", "Charger", "Opened"];
const sessionRow = (one) => [sessionName(one.session_id), driverName(one.driver_id), one.state || "not active yet", one.ended_by || "", chargerName(one.charger_id), dayAndTime(one.opened_at)];

const eventHeadings = ["Occurred", "Driver", "Event", "Verdict", "State after", "Session"];
const verdict = (one) => element("td", { class: one.transition }, ...breakable(one.reason ? `${one.transition}: ${one.reason}` : one.transition));
const eventRow = (one) => [dayAndTime(one.occurred_at), driverName(one.driver_id), one.event, verdict(one), stateOf(one), sessionName(one.session_id)];

const refusalHeadings = ["Count", "Driver", "Route", "Status", "Last at", "Last request id"];
const refusalRow = (one) => [one.count, driverName(one.driver_id), one.route, `${one.status} ${statusNames[one.status] || ""}`, dayAndTime(one.last_at), one.request_id];

// The driver is in the second column of the tables of sessions, events and rejected requests.
const withoutDriver = (columns) => columns.filter((_, index) => index !== 1);

function openDriversIn(state) {
    openCases(`Drivers in ${state}`, () => pages("/ops/drivers", { state }, "drivers", driverRow, driverHeadings, "None found so far."));
}

// If `filter` has no `from`, the list shows the last hour.
function openEvents(title, filter) {
    const from = new Date(Date.now() - 3_600_000).toISOString();
    openCases(title, () => pages("/ops/events", { from, ...filter }, "events", eventRow, eventHeadings, "None found so far."));
}

function openRefusals(status) {
    openCases(`Rejected with ${status}, since the server started`, async () => {
        const { refusals } = await read(`/ops/refusals?${query({ status })}`);
        return [element("div", { class: "scroll" }, table(refusalHeadings, refusals.map(refusalRow), "None."))];
    });
}

function openRefusalsWhere(words, matches) {
    openCases(`Requests ${words}, since the server started`, async () => {
        const { refusals } = await read(`/ops/refusals?${query({ limit: 200 })}`);
        const rows = refusals.filter((one) => matches(one.status)).map(refusalRow);
        return [element("div", { class: "scroll" }, table(refusalHeadings, rows, "None."))];
    });
}

function openCharger(charger) {
    openCases(`Sessions at charger ${charger}`, () => pages("/ops/sessions", { charger }, "sessions", sessionRow, sessionHeadings, "None found so far."));
}

function openDriver(id) {
    openCases(`Driver ${id}`, async () => {
        const one = await read(`/ops/drivers/${encodeURIComponent(id)}`);
        const facts = [["State", stateOf(one)], ["Session", sessionName(one.session_id)], ["Charger", chargerName(one.target_charger_id)],
            ["Last event", dayAndTime(one.last_event_at)], ["First seen", dayAndTime(one.first_seen_at)]];
        return [
            element("dl", {}, ...facts.flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)])),
            element("h3", {}, "Sessions"),
            element("div", { class: "scroll" }, table(withoutDriver(sessionHeadings), one.sessions.map((each) => withoutDriver(sessionRow(each))), "None.")),
            element("h3", {}, "Last events"),
            element("div", { class: "scroll" }, table(withoutDriver(eventHeadings), one.events.map((each) => withoutDriver(eventRow(each))), "None.")),
            element("h3", {}, "Rejected requests, since the server started"),
            element("div", { class: "scroll" }, table(withoutDriver(refusalHeadings), one.refusals.map((each) => withoutDriver(refusalRow(each))), "None.")),
        ];
    });
}

function openSession(id) {
    openCases(`Session ${id}`, async () => {
        const found = await read(`/ops/sessions/${encodeURIComponent(id)}`);
        const count = found.events.length === 1 ? "1 event" : `${grouped.format(found.events.length)} events`;
        const about = [found.state && `now ${found.state}`, found.ended_by && `ended by ${found.ended_by}`, `opened ${dayAndTime(found.opened_at)}`, count].filter(Boolean).join(", ");
        const rows = found.events.map((one) => [dayAndTime(one.occurred_at), one.event, verdict(one), stateOf(one), one.source, one.settings_version]);
        return [
            element("p", { id: "found" }, "Driver ", driverName(found.driver_id), `, ${about}`),
            element("div", { class: "scroll", id: "timeline" }, table(["Occurred", "Event", "Verdict", "State after", "Source", "Settings"], rows, "No events.")),
        ];
    });
}

// --- search and filters ---

byID("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = byID("query").value.trim();
    openCases(`Search results for ${text}`, async () => {
        const found = await read("/ops/search", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ query: text }) });
        const parts = [
            ["Drivers", found.drivers, () => table(driverHeadings, found.drivers.map(driverRow))],
            ["Sessions", found.sessions, () => table(sessionHeadings, found.sessions.map(sessionRow))],
            ["Chargers", found.charger_ids, () => element("p", {}, ...found.charger_ids.flatMap((id) => [chargerName(id), " "]))],
        ].filter(([, list]) => list.length > 0);
        if (parts.length === 0) return [element("p", {}, "No driver, session or charger has an id that begins with this text, and no driver has this phone number.")];
        return parts.flatMap(([title, , draw]) => [element("h3", {}, title), element("div", { class: "scroll" }, draw())]);
    });
});

byID("filter").addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(byID("filter"));
    const seconds = Number(form.get("opened"));
    const from = seconds > 0 ? new Date(Date.now() - 1000 * seconds).toISOString() : undefined;
    const values = { state: form.get("state"), ended: form.get("ended"), charger: form.get("charger").trim(), from };
    try {
        put("sessions", ...(await pages("/ops/sessions", values, "sessions", sessionRow, sessionHeadings, "None found so far.")));
    } catch (error) {
        put("sessions", element("p", { class: "bad" }, `Loading failed: ${error.message}`));
    }
});
