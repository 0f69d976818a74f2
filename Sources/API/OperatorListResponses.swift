// The responses of the operator's lists, as JSON. A member without a value is omitted.
//
// `next_cursor` is present if there may be more rows. A page with `next_cursor` may have fewer rows than the limit,
// because the number of rows that the store examines is limited too.

import Engine
import JourneyModel

enum OperatorListResponses {
    static func drivers(_ page: ListPage<DriverSummary>) -> [UInt8] {
        list("drivers", page) { writer, driver in writer.members(of: driver) }
    }

    static func sessions(_ page: ListPage<OperatorSession>, at now: Moment) -> [UInt8] {
        list("sessions", page) { writer, session in writer.members(of: session, at: now) }
    }

    static func events(_ page: ListPage<EventCase>) -> [UInt8] {
        list("events", page) { writer, event in writer.members(of: event) }
    }

    static func driver(_ detail: DriverDetail, _ refused: [RefusedRequests.Row], at now: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 8192)
        writer.beginObject()
        writer.members(of: detail.summary)
        writer.list("sessions", detail.sessions) { writer, session in writer.summary(session, at: now) }
        writer.list("events", detail.events) { writer, event in writer.members(of: event) }
        writer.list("refusals", refused) { writer, row in writer.members(of: row) }
        writer.endObject()
        return writer.bytes
    }

    static func refusals(_ rows: [RefusedRequests.Row]) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 64 + 192 * rows.count)
        writer.beginObject()
        writer.list("refusals", rows) { writer, row in writer.members(of: row) }
        writer.endObject()
        return writer.bytes
    }

    static func search(_ found: SearchResult, at now: Moment) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 4096)
        writer.beginObject()
        writer.list("drivers", found.drivers) { writer, driver in writer.members(of: driver) }
        writer.list("sessions", found.sessions) { writer, session in writer.members(of: session, at: now) }
        writer.name("charger_ids")
        writer.beginArray()
        for id in found.chargerIDs { writer.string(id) }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }

    private static func list<Element>(
        _ name: String, _ page: ListPage<Element>, _ members: (inout JSONWriter, Element) -> Void
    ) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 64 + 256 * page.elements.count)
        writer.beginObject()
        writer.list(name, page.elements, members)
        if let next = page.next { writer.member("next_cursor", PageCursor.event(next).text) }
        writer.endObject()
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func list<Element>(
        _ name: String, _ elements: [Element], _ members: (inout JSONWriter, Element) -> Void
    ) {
        self.name(name)
        beginArray()
        for element in elements {
            beginObject()
            members(&self, element)
            endObject()
        }
        endArray()
    }

    fileprivate mutating func members(of driver: DriverSummary) {
        member("driver_id", driver.driver.rawValue)
        member("state", driver.state.rawValue)
        member("ended_by", driver.endedBy?.rawValue)
        member("session_id", driver.sessionID)
        member("target_charger_id", driver.targetChargerID)
        member("last_event_at", driver.lastEventAt)
        member("first_seen_at", driver.firstSeenAt)
    }

    fileprivate mutating func members(of session: OperatorSession, at now: Moment) {
        member("driver_id", session.driver.rawValue)
        summary(session.session, at: now)
    }

    fileprivate mutating func members(of event: EventCase) {
        member("driver_id", event.driver.rawValue)
        member("event", event.name)
        member("session_id", event.sessionID)
        member("charger_id", event.chargerID)
        member("occurred_at", event.occurredAt)
        member("transition", event.transition.rawValue)
        member("reason", event.reason?.rawValue)
        member("state", event.state.rawValue)
        member("ended_by", event.endedBy?.rawValue)
    }

    fileprivate mutating func members(of row: RefusedRequests.Row) {
        member("driver_id", row.key.driver?.rawValue)
        member("route", row.key.route)
        name("status")
        integer(row.key.status)
        name("count")
        integer(row.count)
        member("last_at", row.lastAt)
        member("request_id", row.requestID)
    }
}
