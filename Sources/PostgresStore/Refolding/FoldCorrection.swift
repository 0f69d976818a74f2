// Applies a correction to events before the fold. A correction is an operator's order to fold stored events with other
// settings. The column `settings_version` of the events stays as it is.

import Engine
import JourneyModel
import Postgres

struct FoldCorrection: Sendable {
    struct Durations: Sendable {
        var gracePeriodSeconds: Int
        var hardTimeoutSeconds: Int
    }

    /// The correction applies to events that were received at a time t with `since <= t < until`.
    var since: Moment
    var until: Moment
    /// The version of the settings to fold with. If nil, each event is folded with its stored settings.
    var version: String?
    /// The correction applies only to events with this stored version of the settings. If nil, it applies to all
    /// versions.
    var insteadOf: String?
    /// The durations in the settings of each version.
    var durations: [TextKey: Durations]

    func apply(to event: inout FoldedEvent) {
        guard event.event.origin == .client, let receivedAt = event.receivedAt, let stored = event.storedVersion,
            since <= receivedAt, receivedAt < until,
            insteadOf.map({ haveSameBytes($0, stored) }) ?? true
        else { return }
        let used = version ?? stored
        guard event.settingsVersion.map({ !haveSameBytes($0, used) }) ?? true, let found = durations[TextKey(used)]
        else { return }
        event.settingsVersion = used
        event.isCorrected = true
        event.event.gracePeriodSeconds = found.gracePeriodSeconds
        event.event.hardTimeoutSeconds = found.hardTimeoutSeconds
    }

    /// The parameters of `changes`, from `$3` on.
    var parameters: [PostgresValue] {
        [
            .int8(since.millisecondsSinceEpoch), .int8(until.millisecondsSinceEpoch),
            version.map(PostgresValue.text) ?? .null, insteadOf.map(PostgresValue.text) ?? .null,
        ]
    }

    /// SQL condition that `apply` changes an event of the driver `examined`, and that the event is at or above the
    /// driver's floor, where the fold begins. `examined` is the driver's row.
    static let changes = """
        event.driver = examined.id AND event.received_at_ms >= $3::int8 AND event.received_at_ms < $4::int8
        AND event.origin = 0 AND ($6::text IS NULL OR event.settings_version = $6::text)
        AND coalesce(event.fold_settings, event.settings_version) <> coalesce($5::text, event.settings_version)
        AND (examined.floor_at_ms IS NULL OR event.corrected_at_ms >= examined.floor_at_ms)
        """
}
