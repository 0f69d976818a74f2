// The port of `dwell check`: compares the stored journeys with the fold of their events.

package protocol JourneyCheck: Sendable {
    /// Checks the references between the tables, then the journey of each driver. Each driver's rows are read in one
    /// snapshot. Changes nothing.
    ///
    /// - Parameter progress: called repeatedly with the number of events folded so far and the number of all events.
    func check(
        _ progress: @Sendable (_ done: Int, _ total: Int) -> Void
    ) async throws(StoreFailure) -> JourneyCheckReport
}

package struct JourneyCheckReport: Hashable, Sendable {
    package var drivers = 0
    package var events = 0
    /// The number of drivers that are not checked, because their refold is not complete.
    package var refolding = 0
    /// The number of drivers whose deletion is not complete. SQLite's check folds the events of these drivers too;
    /// PostgreSQL's check does not.
    package var erasing = 0
    /// The first inconsistencies that the check found, one sentence each. Empty if there are none.
    package var problems: [String] = []

    package init() {}
}
