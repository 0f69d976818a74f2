// The responses of /ops/picture and /ops/settings, as JSON. A member without a value is omitted.

import Engine
import JourneyModel
import Purchases

enum OperatorResponses {
    static func picture(
        _ picture: DashboardSnapshot.Counts, requests: RequestStatistics.Sum, settings: VersionedSettings,
        admission: String, freeBytes: Int64?, outbox: [OutboxStatus], purchases: PurchaseTotals?, version: String,
        server: ServerSettings?,
        instances: [InstanceState]
    ) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 8192)
        writer.beginObject()
        writer.member("as_of", RFC3339.text(of: picture.asOf))
        writer.member("version", version)
        writer.name("drivers")
        writer.beginObject()
        for state in JourneyState.allCases { writer.member(state.rawValue, picture.drivers[state] ?? 0) }
        writer.endObject()
        writer.minutes(picture)
        writer.flow(picture.tallies)
        writer.rejections(picture.tallies)
        writer.name("is_whole")
        writer.bool(picture.isWhole)
        writer.requests(requests)
        writer.member("admission", admission)
        writer.outbox(outbox)
        if let purchases = purchases?[.production] {
            writer.name("purchases")
            writer.beginObject()
            writer.member("active", purchases.count(.active))
            writer.member("grace", purchases.count(.grace))
            writer.member("billing_retry", purchases.count(.billingRetry))
            writer.member("refunds_today", purchases.refundsToday)
            writer.endObject()
        }
        writer.name("storage")
        writer.beginObject()
        writer.member("database_bytes", picture.storageBytes)
        if let freeBytes { writer.member("free_bytes", freeBytes) }
        writer.endObject()
        writer.member("settings_version", settings.version)
        writer.name("settings")
        writer.raw(String(decoding: settings.settings.wireJSON, as: UTF8.self))
        server?.writeReload(&writer)
        InstanceState.write(instances, &writer)
        writer.endObject()
        return writer.bytes
    }

    static func settings(
        _ versions: [SettingsVersionUse], _ history: SettingsHistory, inForce: VersionedSettings, rules: RecordedRules?
    ) -> [UInt8] {
        var writer = JSONWriter(reservingBytes: 512 * (versions.count + history.changes.count + 1))
        writer.beginObject()
        writer.member("settings_version", inForce.version)
        if let change = history.changes.first(where: { $0.version == inForce.version && $0.rules == rules }) {
            writer.member("in_force_since", RFC3339.text(of: change.at))
            writer.note(change.note)
        }
        writer.name("settings")
        writer.raw(String(decoding: inForce.settings.wireJSON, as: UTF8.self))
        writer.rules(rules)
        writer.name("versions")
        writer.beginArray()
        for version in versions {
            writer.beginObject()
            writer.member("settings_version", version.version)
            writer.member("first_used_at", RFC3339.text(of: version.firstUsedAt))
            writer.name("settings")
            writer.raw(version.settings)
            writer.endObject()
        }
        writer.endArray()
        writer.changes(history.changes)
        writer.reloads(history.reloads)
        writer.endObject()
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func note(_ note: SettingsChangeNote) {
        if let changedBy = note.changedBy { member("changed_by", changedBy) }
        if let reason = note.reason { member("reason", reason) }
    }

    /// Writes the rules and their version; nothing if there are none.
    fileprivate mutating func rules(_ rules: RecordedRules?) {
        guard let rules else { return }
        member("rules_version", rules.version)
        name("rules")
        raw(rules.json)
    }

    fileprivate mutating func changes(_ changes: [SettingsChange]) {
        name("changes")
        beginArray()
        for change in changes {
            beginObject()
            member("at", RFC3339.text(of: change.at))
            member("settings_version", change.version)
            note(change.note)
            name("settings")
            raw(change.settings)
            rules(change.rules)
            endObject()
        }
        endArray()
    }

    fileprivate mutating func reloads(_ reloads: [SettingsReloadOf]) {
        name("reloads")
        beginArray()
        for entry in reloads {
            beginObject()
            member("at", RFC3339.text(of: entry.reload.at))
            member("instance", entry.instance)
            name("is_good")
            bool(entry.reload.isGood)
            name("details")
            beginArray()
            for detail in entry.reload.details { string(detail) }
            endArray()
            endObject()
        }
        endArray()
    }

    fileprivate mutating func member(_ name: String, _ number: some BinaryInteger) {
        self.name(name)
        integer(number)
    }

    /// Writes the number of events by transition for each of the last sixty minutes, oldest first. Minutes without
    /// events are included.
    fileprivate mutating func minutes(_ picture: DashboardSnapshot.Counts) {
        let last = picture.asOf.millisecondsSinceEpoch / 60_000
        var counts: [Int64: [Verdict.Transition: Int]] = [:]
        for tally in picture.tallies {
            counts[tally.minute, default: [:]][tally.verdict.transition, default: 0] += tally.count
        }
        name("minutes")
        beginArray()
        for minute in (last - DashboardSnapshot.minutes + 1)...last {
            beginObject()
            member("minute", RFC3339.text(of: Moment(millisecondsSinceEpoch: minute * 60_000)))
            for transition in Verdict.Transition.allCases {
                member(transition.rawValue, counts[minute]?[transition] ?? 0)
            }
            endObject()
        }
        endArray()
    }

    /// Writes how many events of the last hour led to each state. Only events with the transition `applied` are
    /// counted.
    fileprivate mutating func flow(_ tallies: [EventTally]) {
        counted("flow", tallies.filter { $0.verdict.transition == .applied }, by: \.state.rawValue, named: "to")
    }

    fileprivate mutating func rejections(_ tallies: [EventTally]) {
        counted(
            "rejections", tallies.filter { $0.verdict.transition == .rejected },
            by: { $0.verdict.reason?.rawValue ?? "none" }, named: "reason")
    }

    private mutating func counted(
        _ list: String, _ tallies: [EventTally], by key: (EventTally) -> String, named keyName: String
    ) {
        var counts: [[String]: Int] = [:]
        for tally in tallies { counts[[tally.name, key(tally)], default: 0] += tally.count }
        name(list)
        beginArray()
        for (words, count) in counts.sorted(by: { $0.value != $1.value ? $0.value > $1.value : $0.key[0] < $1.key[0] })
        {
            beginObject()
            member("event", words[0])
            member(keyName, words[1])
            member("count", count)
            endObject()
        }
        endArray()
    }

    fileprivate mutating func outbox(_ queues: [OutboxStatus]) {
        name("outbox")
        beginArray()
        for queue in queues {
            beginObject()
            member("queue", queue.queue)
            member("waiting", queue.waitingCount)
            if let oldest = queue.oldest { member("oldest_at", RFC3339.text(of: oldest)) }
            if let lost = queue.lostCount { member("lost", lost) }
            if let failure = queue.lastFailure {
                member("last_error", failure.reason)
                member("last_error_at", RFC3339.text(of: failure.at))
            }
            endObject()
        }
        endArray()
    }

    fileprivate mutating func requests(_ sum: RequestStatistics.Sum) {
        name("requests")
        beginObject()
        member("seconds", sum.seconds)
        member("count", sum.count)
        for (name, microseconds) in [
            ("p50_us", sum.p50Microseconds), ("p90_us", sum.p90Microseconds), ("p99_us", sum.p99Microseconds),
        ] {
            if let microseconds { member(name, microseconds) }
        }
        name("statuses")
        beginObject()
        for (status, count) in sum.statuses.sorted(by: { $0.key < $1.key }) { member(String(status), count) }
        endObject()
        endObject()
    }
}
