// The JSON of the control socket for refolds and corrections of settings. The command `dwell refold` reads this JSON.

import Engine
import JourneyModel

extension MemberReader {
    mutating func integer(_ name: String, isRequired: Bool = false) -> Int64? {
        if isRequired { require(name) }
        guard let value = value(name) else { return nil }
        if case .number(let text) = value, let number = Int64(text) { return number }
        refuse(name, "must be an integer")
        return nil
    }

    /// Reads a time in milliseconds since 1970.
    mutating func moment(_ name: String, isRequired: Bool = false) -> Moment? {
        integer(name, isRequired: isRequired).map(Moment.init(millisecondsSinceEpoch:))
    }
}

extension JSONWriter {
    mutating func members(of correction: SettingsCorrection, continues: Bool) {
        name("correction")
        integer(correction.id)
        name("since_ms")
        integer(correction.since.millisecondsSinceEpoch)
        name("until_ms")
        integer(correction.until.millisecondsSinceEpoch)
        name("at_ms")
        integer(correction.at.millisecondsSinceEpoch)
        member("settings", correction.version)
        name("continues")
        bool(continues)
    }

    mutating func members(of part: RefoldPart) {
        name("next")
        if let next = part.next { integer(next) } else { null() }
        member("failure", part.failure.map { "\($0)" })
        let counts = part.counts
        for (member, count) in [
            ("drivers", counts.drivers), ("events", counts.events), ("expiries", counts.expiries),
            ("moved_drivers", counts.movedDrivers), ("sessions_folded", counts.sessionsFolded),
        ] {
            name(member)
            integer(count)
        }
        name("verdicts")
        changes(counts.verdicts, examples: [:])
        name("sessions")
        changes(counts.sessions, examples: counts.sessionExamples)
    }

    private mutating func changes(_ counts: [RefoldChange: Int], examples: [RefoldChange: [String]]) {
        beginArray()
        for (change, count) in counts {
            beginObject()
            name("old")
            string(change.old)
            name("new")
            string(change.new)
            name("count")
            integer(count)
            name("examples")
            beginArray()
            for example in examples[change] ?? [] { string(example) }
            endArray()
            endObject()
        }
        endArray()
    }
}
