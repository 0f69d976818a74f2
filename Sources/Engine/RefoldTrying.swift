// The port of `dwell refold --dry-run` and `dwell config try`: how stored events would fold with other rules or
// settings.

package import JourneyModel

package protocol RefoldTrying: Sendable {
    /// Folds stored events again in memory, one driver after the other, without changing the database. The events of
    /// one driver are read in one snapshot.
    ///
    /// - Parameters:
    ///   - now: see `RefoldRequest.now`.
    ///   - progress: called with the number of examined drivers and the number of all drivers.
    func tryRefold(
        _ change: TriedChange, now: Moment, _ progress: @Sendable (_ done: Int, _ total: Int) -> Void
    ) async throws(StoreFailure) -> TrialOutcome
}

/// The change to try.
package enum TriedChange: Sendable {
    /// Refolds the drivers that another release folded, by the rules of this release. If `since` is not nil, refolds
    /// only those with an event received at or after that time.
    case rules(since: Moment?)
    case correction(CorrectionOrder)
    /// Folds the events that happened at or after `since` with the durations that the function returns.
    case settings(since: Moment, @Sendable (TrialEvent) -> TrialDurations)
}

package struct TrialOutcome: Sendable {
    package var counts = RefoldCounts()
    /// The number of drivers that are left out because their refold is in progress.
    package var refolding = 0

    package init() {}
}

/// The properties of an event that decide which settings it gets.
package struct TrialEvent: Hashable, Sendable {
    package var driver: DriverID
    /// The charger that determines the event's settings: `Journey.settingsCharger` of the stored journey before the
    /// event.
    package var chargerID: String?
    /// The app version of the driver's last registered device; nil if it is unknown.
    package var appVersion: String?
    package var receivedAt: Moment

    package init(driver: DriverID, chargerID: String?, appVersion: String?, receivedAt: Moment) {
        (self.driver, self.chargerID, self.appVersion) = (driver, chargerID, appVersion)
        self.receivedAt = receivedAt
    }
}

/// The durations for folding an event. If one is nil, the fold uses the duration stored with the event.
package struct TrialDurations: Hashable, Sendable {
    package var gracePeriodSeconds: Int?
    package var hardTimeoutSeconds: Int?

    package init(gracePeriodSeconds: Int?, hardTimeoutSeconds: Int?) {
        (self.gracePeriodSeconds, self.hardTimeoutSeconds) = (gracePeriodSeconds, hardTimeoutSeconds)
    }
}
