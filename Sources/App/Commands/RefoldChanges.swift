// How `dwell refold` changes the database. If a server answers on the control socket of the database, the server
// refolds between the requests of clients. If no server answers, or with PostgreSQL, the command itself refolds and
// writes to the database.

import API
import Engine
import Foundation
import JourneyModel

/// The correction of settings that `begin` returns. `continues` is true for an earlier correction that was not
/// finished, and false for a new correction.
struct BegunCorrection: Sendable {
    var id: Int64
    var at: Moment
    var since: Moment
    var until: Moment
    /// The version of the settings with which the events are refolded. If nil, each event is refolded with the settings
    /// that are stored with it.
    var version: String?
    var continues: Bool
}

protocol RefoldChanges: Sendable {
    /// Records a correction. The settings version in `order` must be in the settings history or stored with an event.
    /// For an unknown version, throws an error with a text for the operator.
    func begin(_ order: CorrectionOrder, note: SettingsChangeNote) async throws -> BegunCorrection
    /// Refolds one group of drivers. The group begins after the driver with the row number `driver`.
    func refold(after driver: Int64, since: Moment?, correction: Int64?) async throws -> RefoldPart
    func finish(correction: Int64) async throws
}

extension ServerChanges: RefoldChanges {
    func begin(_ order: CorrectionOrder, note: SettingsChangeNote) async throws -> BegunCorrection {
        struct Reply: Decodable {
            var correction, atMs, sinceMs, untilMs: Int64
            var settings: String?
            var continues: Bool
        }
        var members: [String: JSONValue] = [
            "since_ms": .number(String(order.since.millisecondsSinceEpoch)), "settings": .string(order.settings.text),
            "changed_by": .string(note.changedBy ?? ""), "reason": .string(note.reason ?? ""),
        ]
        members["until_ms"] = order.until.map { .number(String($0.millisecondsSinceEpoch)) }
        members["instead_of"] = order.insteadOf.map { .string($0) }
        let reply: Reply? = try await post(ControlRoutes.correctPath, members)
        guard let reply else { throw notUnderstood }
        return BegunCorrection(
            id: reply.correction, at: Moment(millisecondsSinceEpoch: reply.atMs),
            since: Moment(millisecondsSinceEpoch: reply.sinceMs), until: Moment(millisecondsSinceEpoch: reply.untilMs),
            version: reply.settings, continues: reply.continues)
    }

    func refold(after driver: Int64, since: Moment?, correction: Int64?) async throws -> RefoldPart {
        struct Change: Decodable {
            var old, new: String
            var count: Int
            var examples: [String]
        }
        struct Reply: Decodable {
            var next: Int64?
            var failure: String?
            var drivers, events, expiries, movedDrivers, sessionsFolded: Int
            var verdicts, sessions: [Change]
        }
        var members: [String: JSONValue] = ["after": .number(String(driver))]
        members["since_ms"] = since.map { .number(String($0.millisecondsSinceEpoch)) }
        members["correction"] = correction.map { .number(String($0)) }
        let reply: Reply? = try await post(ControlRoutes.refoldPath, members)
        guard let reply else { throw notUnderstood }
        var counts = RefoldCounts()
        (counts.drivers, counts.events, counts.expiries) = (reply.drivers, reply.events, reply.expiries)
        (counts.movedDrivers, counts.sessionsFolded) = (reply.movedDrivers, reply.sessionsFolded)
        for change in reply.verdicts { counts.verdicts[RefoldChange(from: change.old, to: change.new)] = change.count }
        for change in reply.sessions {
            counts.sessions[RefoldChange(from: change.old, to: change.new)] = change.count
            counts.sessionExamples[RefoldChange(from: change.old, to: change.new)] = change.examples
        }
        return RefoldPart(next: reply.next, counts: counts, failure: reply.failure.map { .unavailable($0) })
    }

    func finish(correction: Int64) async throws {
        struct Reply: Decodable {}
        let reply: Reply? = try await post(
            ControlRoutes.finishCorrectionPath, ["correction": .number(String(correction))])
        if reply == nil { throw notUnderstood }
    }
}

/// Refolds directly in the database, without a server. Other processes may write to the database between two calls of
/// `refold`.
struct DatabaseRefolds: RefoldChanges {
    struct UnknownSettings: Error, CustomStringConvertible {
        var version: String
        var description: String { "no settings \(escaped(version)) in the settings history" }
    }

    let store: any SettingsCorrecting

    func begin(_ order: CorrectionOrder, note: SettingsChangeNote) async throws -> BegunCorrection {
        switch try await store.begin(order, note: note, at: .now) {
        case .unknownSettings(let version): throw UnknownSettings(version: version)
        case .begun(let correction, let continues):
            return BegunCorrection(
                id: correction.id, at: correction.at, since: correction.since, until: correction.until,
                version: correction.version, continues: continues)
        }
    }

    /// Refolds one group of drivers, and then pauses, so that other processes can write to the database. The pause is
    /// as long as the refolding took, but at most 100 ms. After the last group there is no pause.
    func refold(after driver: Int64, since: Moment?, correction: Int64?) async throws -> RefoldPart {
        let start = ContinuousClock.now
        let part = try await store.refold(
            RefoldRequest(after: driver, since: since, correction: correction, now: .now))
        if part.next != nil { try await Task.sleep(for: min(ContinuousClock.now - start, .milliseconds(100))) }
        return part
    }

    func finish(correction: Int64) async throws {
        try await store.finish(correction: correction, at: .now)
    }
}
