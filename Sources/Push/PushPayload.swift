// Creates the notification for an outbox entry: the JSON body for APNs or the message for FCM, and the other fields
// (docs/push.md).

import Engine
import Identity
package import JourneyModel

extension DuePush {
    /// The largest `apns-collapse-id`, in bytes.
    private static let collapseIDBytesMax = 64
    /// How long iOS shows an ended Live Activity before it removes the activity, in seconds.
    package static let dismissalSeconds: Int64 = 900

    private var token: String? {
        switch entry.kind {
        case .alert, .wake: device.pushToken
        case .activityUpdate, .activityEnd: device.push?.liveActivityToken
        }
    }

    private var service: PushNotification.Service? {
        switch device.platform {
        case "ios": .apple(device.environment == "production" ? .production : .sandbox)
        case "android": .google
        default: nil
        }
    }

    /// Returns nil if the platform of the device is neither iOS nor Android. For a Live Activity, also returns nil if
    /// the device has none or is an Android device.
    package func notification(_ texts: PushTexts, at now: Moment) -> PushNotification? {
        guard let service, let token, service != .google || entry.kind.notificationKind != .liveActivity else {
            return nil
        }
        return PushNotification(
            service: service, kind: entry.kind.notificationKind, token: token,
            payload: service == .google ? message(texts, now) : body(texts, now), collapseID: collapseID,
            expiresAt: entry.expiresAt, priority: entry.kind == .wake ? 5 : 10)
    }

    /// The session's id, so that an alert replaces the shown alert of the same session. If APNs does not allow this id,
    /// a short name is used.
    private var collapseID: String? {
        guard entry.kind != .wake, let session = entry.session else { return nil }
        guard let sessionID, sessionID.utf8.count <= Self.collapseIDBytesMax,
            sessionID.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return "session-\(Self.shortName(session))" }
        return sessionID
    }

    /// A short name for a session. If two sessions get the same name, their alerts replace each other, which is
    /// harmless.
    private static func shortName(_ session: SessionReference) -> String {
        switch session {
        case .row(let row): String(row)
        // FNV-1a, 64 bits.
        case .id(let id):
            String(id.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0100_0000_01B3 }, radix: 16)
        }
    }

    private func alertText(_ texts: PushTexts, _ now: Moment) -> PushTexts.Text? {
        guard case .alert(let kind) = entry.kind else { return nil }
        return texts.text(kind, locale: device.push?.locale, secondsLeft: secondsLeft(at: now) ?? 0)
    }

    private func secondsLeft(at now: Moment) -> Int64? {
        entry.deadline.map { max(0, ($0.milliseconds(since: now) + 999) / 1000) }
    }

    // MARK: APNs

    private func body(_ texts: PushTexts, _ now: Moment) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.name("aps")
        json.beginObject()
        switch entry.kind {
        case .alert: alert(texts, now, &json)
        case .wake:
            json.name("content-available")
            json.integer(1)
        case .activityUpdate, .activityEnd: activity(now, &json)
        }
        json.endObject()
        if entry.kind.notificationKind != .liveActivity {
            for (name, value) in data {
                json.name(name)
                json.string(value)
            }
        }
        json.endObject()
        return json.bytes
    }

    private func alert(_ texts: PushTexts, _ now: Moment, _ json: inout JSONWriter) {
        guard let text = alertText(texts, now) else { return }
        json.name("alert")
        json.beginObject()
        json.member("title", text.title)
        json.member("body", text.body)
        json.endObject()
        json.member("sound", "default")
        if let sessionID { json.member("thread-id", sessionID) }
    }

    private func activity(_ now: Moment, _ json: inout JSONWriter) {
        let isEnd = entry.kind == .activityEnd
        // The time when the entry became due, not the time of this attempt. iOS ignores an update with an older
        // timestamp, so a late retry cannot replace a newer update.
        let timestamp = entry.dueAt.millisecondsSinceEpoch / 1000
        json.member("timestamp", timestamp)
        json.member("event", isEnd ? "end" : "update")
        json.name("content-state")
        json.beginObject()
        json.member("state", entry.state.rawValue)
        json.member("session_id", sessionID)
        json.member("ended_by", entry.endedBy?.rawValue)
        json.member("deadline", isEnd ? nil : entry.deadline.map { $0.millisecondsSinceEpoch / 1000 })
        json.member("seconds_left", isEnd ? nil : secondsLeft(at: now))
        json.endObject()
        if isEnd {
            json.member("dismissal-date", timestamp + Self.dismissalSeconds)
        } else if let deadline = entry.deadline {
            json.member("stale-date", deadline.millisecondsSinceEpoch / 1000)
        }
    }

    // MARK: FCM

    private func message(_ texts: PushTexts, _ now: Moment) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        if let text = alertText(texts, now) {
            json.name("notification")
            json.beginObject()
            json.member("title", text.title)
            json.member("body", text.body)
            json.endObject()
            // On Android, an alert replaces a shown alert with the same `tag`. (iOS uses the collapse id for this.)
            if let collapseID {
                json.name("android")
                json.beginObject()
                json.name("notification")
                json.beginObject()
                json.member("tag", collapseID)
                json.endObject()
                json.endObject()
            }
        }
        json.name("data")
        json.beginObject()
        for (name, value) in data { json.member(name, value) }
        json.endObject()
        json.endObject()
        return json.bytes
    }

    /// The members with which the app opens the right screen. All values are strings, as FCM requires.
    private var data: [(name: String, value: String)] {
        var data = [("kind", entry.kind.word), ("state", entry.state.rawValue)]
        if let sessionID { data.append(("session_id", sessionID)) }
        if let endedBy = entry.endedBy { data.append(("ended_by", endedBy.rawValue)) }
        if let deadline = entry.deadline { data.append(("deadline", RFC3339.text(of: deadline))) }
        return data
    }
}

extension PushKind {
    var notificationKind: PushNotification.Kind {
        switch self {
        case .alert: .alert
        case .wake: .background
        case .activityUpdate, .activityEnd: .liveActivity
        }
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ text: String?) {
        self.name(name)
        if let text { string(text) } else { null() }
    }

    fileprivate mutating func member(_ name: String, _ number: Int64?) {
        self.name(name)
        if let number { integer(number) } else { null() }
    }
}
