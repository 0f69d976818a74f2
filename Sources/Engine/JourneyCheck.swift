// The port of `dwell check`, which compares the stored journeys with the fold of the events.

package protocol JourneyCheck: Sendable {
    /// Checks the references between the tables, then each driver's journey. The rows of a driver are read in one
    /// snapshot. Changes nothing.
    ///
    /// - Parameter progress: called repeatedly with the number of folded events and the number of all events.
    func check(
        _ progress: @Sendable (_ done: Int, _ total: Int) -> Void
    ) async throws(StoreFailure) -> JourneyCheckReport
}

package struct JourneyCheckReport: Hashable, Sendable {
    package var drivers = 0
    package var events = 0
    /// The number of drivers that are not checked, because their refold is not complete.
    package var refolding = 0
    /// The number of drivers whose deletion is not complete. SQLite's check folds their events; PostgreSQL's check does
    /// not.
    package var erasing = 0
    /// The first inconsistencies that the check found, one sentence each. Empty if there are none.
    package var problems: [String] = []

    package init() {}
}
