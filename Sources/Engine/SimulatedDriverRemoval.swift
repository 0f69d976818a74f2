// The port of `dwell simulate --clean`.

package protocol SimulatedDriverRemoval: Sendable {
    /// Removes at most `driversMax` of the drivers that `dwell simulate` created, with all data of these drivers, in
    /// one transaction. The caller must repeat the call until no such driver is left.
    func removeSimulatedDrivers(driversMax: Int) async throws(StoreFailure) -> SimulatedDriversRemoved
}

/// How many simulated drivers and how many of their events were removed.
package struct SimulatedDriversRemoved: Hashable, Sendable {
    package var drivers: Int
    package var events: Int

    package init(drivers: Int, events: Int) {
        (self.drivers, self.events) = (drivers, events)
    }
}
