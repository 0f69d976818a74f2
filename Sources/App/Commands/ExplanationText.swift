// Formats recorded events for a terminal, in at most 100 columns. Each event has a headline and aligned lines.

import Engine
import JourneyModel

struct ExplanationText {
    var isColored: Bool
    /// Whether the output contains the metadata of events, which may contain coordinates.
    var showsMetadata: Bool

    static let columnsMax = 100
    private static let nameWidth = 26
    private static let labelWidth = 11
    private static let indent = 4

    private enum Color: String {
        case good = "32"
        case bad = "31"
        case faint = "2"
    }

    func lines(of events: RecordedEvents, session: String?) -> [String] {
        var lines = title(of: events, session: session)
        if events.isCut { lines += wrapped("Earlier events are left out.", indent: 0) }
        for (index, event) in events.events.enumerated() {
            lines.append("")
            lines += self.lines(of: event, number: index + 1, session: session)
        }
        if let last = events.events.last {
            lines += [""] + wrapped("Afterwards: \(summary(after: last, session: session))", indent: 0)
        }
        return lines
    }

    /// Returns the summary below the last event, `event`. If only one session is explained and `event` closed it, the
    /// summary says how the session ended. In all other cases, the summary says the driver's state after `event`.
    private func summary(after event: RecordedEvent, session: String?) -> String {
        guard let closed = event.closedSession, let session, closed.id.utf8.elementsEqual(session.utf8) else {
            return summary(event.after)
        }
        return summary(Journey(state: .sessionEnded, sessionID: session, endedBy: closed.ending))
    }

    private func title(of events: RecordedEvents, session: String?) -> [String] {
        let subject = session.map { "Session \($0) of driver \(events.driver)" } ?? "Driver \(events.driver)"
        let count = events.events.count == 1 ? "1 event" : "\(events.events.count) events"
        return wrapped("\(subject): \(count), in the order of the fold", indent: 0)
    }

    private func summary(_ journey: Journey) -> String {
        let deadlines = [
            journey.graceDeadline.map { "grace period until \(RFC3339.text(of: $0))" },
            journey.hardDeadline.map { "hard timeout at \(RFC3339.text(of: $0))" },
        ].compactMap(\.self)
        let ending = journey.endedBy.map { [$0.rawValue] } ?? []
        return ([journey.state.rawValue] + ending + deadlines).joined(separator: ", ")
    }

    // MARK: One event

    private func lines(of event: RecordedEvent, number: Int, session: String?) -> [String] {
        var lines = [headline(event, number)]
        func line(_ label: String, _ value: String?) {
            if let value { lines += labelled(label, value) }
        }
        line("state", state(event))
        line("why", event.why)
        line("implied", event.whyImplied)
        line("ended by", event.before.endedBy == event.after.endedBy ? nil : event.after.endedBy?.rawValue)
        line("closed", event.closedSession.map { "session \($0.id), \($0.ending.rawValue)" })
        line("phone was", event.previousState?.rawValue)
        for change in event.deadlineChanges {
            line("deadline", "\(change.deadline) \(RFC3339.text(of: change.at)) \(change.kind.rawValue)")
        }
        line("occurred", "\(event.times.occurredAtText) as sent")
        line("corrected", corrected(event))
        line("sent", event.times.sentAt.map(RFC3339.text(of:)) ?? (event.origin == .server ? nil : "not said"))
        line("timestamp", event.times.timestamp.map(RFC3339.text(of:)))
        line("received", received(event))
        line("clock", event.times.rule?.explanation)
        line("from", from(event))
        line("place", place(event))
        line("details", event.sent.details)
        if event.sessionID != session { line("session", event.sessionID) }
        line("event id", event.eventID)
        if event.idempotencyKey != event.eventID { line("key", event.idempotencyKey) }
        line("settings", settings(event.settings))
        line("metadata", event.metadata.map(metadata))
        return lines
    }

    private func headline(_ event: RecordedEvent, _ number: Int) -> String {
        let number = String(number)
        let name = event.name.canonical
        let padding = String(repeating: " ", count: max(2, Self.nameWidth - name.count))
        let indent = String(repeating: " ", count: max(0, 2 - number.count))
        return "\(indent)\(number)  \(name)\(padding)\(verdict(event.verdict))"
    }

    private func verdict(_ verdict: Verdict) -> String {
        let word = verdict.transition.rawValue
        switch verdict.transition {
        case .applied: return colored(word, .good)
        case .none: return colored(word, .faint)
        case .rejected: return colored("\(word): \(verdict.reason?.rawValue ?? "")", .bad)
        }
    }

    private func state(_ event: RecordedEvent) -> String {
        let (before, after) = (event.before.state.rawValue, event.after.state.rawValue)
        return before == after ? "\(after), as before" : "\(before) -> \(after)"
    }

    private func corrected(_ event: RecordedEvent) -> String {
        let correction = event.correctionMilliseconds
        let text = RFC3339.text(of: event.times.corrected)
        return correction == 0 ? text : "\(text), by \(Self.seconds(correction))"
    }

    private func received(_ event: RecordedEvent) -> String {
        let text = RFC3339.text(of: event.times.receivedAt)
        return event.times.sentAt == nil ? text : "\(text), skew \(Self.seconds(event.times.skewMilliseconds))"
    }

    private func from(_ event: RecordedEvent) -> String {
        [
            event.sent.source, event.sent.sender.map { "posted by a \($0)" }, event.sent.appState,
            event.sent.sequence.map { "sequence \($0)" },
            event.spelling == event.name.canonical ? nil : "spelled \(event.spelling)",
        ].compactMap(\.self).joined(separator: ", ")
    }

    private func place(_ event: RecordedEvent) -> String? {
        let places = [event.sent.chargerID.map { "charger \($0)" }, event.sent.merchantID.map { "merchant \($0)" }]
        let text = places.compactMap(\.self).joined(separator: ", ")
        return text.isEmpty ? nil : text
    }

    private func settings(_ settings: RecordedEvent.SettingsUsed) -> String {
        "\(settings.version): grace period \(settings.gracePeriodSeconds) s, "
            + "hard timeout \(settings.hardTimeoutSeconds) s"
            + (settings.storedVersion.map { ", by a correction; stored with \($0)" } ?? "")
    }

    private func metadata(_ text: String) -> String {
        showsMetadata ? text : "\(text.utf8.count) bytes, shown with --metadata"
    }

    /// Returns text such as `+7200.004 s`.
    private static func seconds(_ milliseconds: Int64) -> String {
        let digits = String(milliseconds.magnitude % 1000)
        let fraction = String(repeating: "0", count: 3 - digits.count) + digits
        return "\(milliseconds < 0 ? "-" : "+")\(milliseconds.magnitude / 1000).\(fraction) s"
    }

    // MARK: Lines

    private func labelled(_ label: String, _ value: String) -> [String] {
        let padded = label + String(repeating: " ", count: max(1, Self.labelWidth - label.count))
        let head = String(repeating: " ", count: Self.indent) + colored(padded, .faint)
        let rest = wrapped(value, indent: Self.indent + Self.labelWidth)
        return rest.enumerated().map { index, line in
            index == 0 ? head + line.dropFirst(Self.indent + Self.labelWidth) : line
        }
    }

    /// Returns lines of at most `columnsMax` columns, without control characters. Lines are broken at spaces where
    /// possible.
    private func wrapped(_ text: String, indent: Int) -> [String] {
        let width = Self.columnsMax - indent
        var lines: [String] = []
        var line = ""
        for word in Self.printable(text).split(separator: " ", omittingEmptySubsequences: false) {
            var word = word
            if !line.isEmpty && line.count + 1 + word.count > width {
                lines.append(line)
                line = ""
            }
            while word.count > width {
                lines.append(String(word.prefix(width)))
                word = word.dropFirst(width)
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        return (lines + [line]).map { String(repeating: " ", count: indent) + $0 }
    }

    /// Makes a client's text safe for a terminal. Escapes such as `\u{1b}` replace control characters and characters
    /// that change the writing direction.
    private static func printable(_ text: String) -> String {
        var shown = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate:
                shown.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
            default: shown.append(scalar)
            }
        }
        return String(shown)
    }

    private func colored(_ text: String, _ color: Color) -> String {
        isColored ? "\u{1B}[\(color.rawValue)m\(text)\u{1B}[0m" : text
    }
}
