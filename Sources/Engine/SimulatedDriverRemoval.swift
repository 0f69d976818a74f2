// The port of `dwell simulate --clean`.

package protocol SimulatedDriverRemoval: Sendable {
    /// Removes drivers that `dwell simulate` created, with all their data: at most `driversMax` drivers, in one
    /// transaction. Must be called again until no such driver is left.
    func removeSimulatedDrivers(driversMax: Int) async throws(StoreFailure) -> SimulatedDriversRemoved
}

/// The numbers of removed simulated drivers and of their removed events.
package struct SimulatedDriversRemoved: Hashable, Sendable {
    package var drivers: Int
    package var events: Int

    package init(drivers: Int, events: Int) {
        (self.drivers, self.events) = (drivers, events)
    }
}
