// The errors that stop a simulation.

/// The server and the simulation's own fold disagree about one event.
package struct Divergence: Error, Hashable, Sendable, CustomStringConvertible {
    /// The driver's seed, with which this driver can be replayed alone.
    package var seed: UInt64
    /// All scenarios that the driver played; `scenario` is the failing one.
    package var scenarios: [Scenario]
    package var scenario: Scenario
    package var driver: String
    package var eventID: String
    package var event: String
    /// How the event was sent.
    package var delivery: String
    package var differences: [String]

    package var description: String {
        """
        divergence in \(scenario.rawValue): \(event), \(delivery)
          driver \(driver), event_id \(eventID)
        \(differences.map { "  \($0)" }.joined(separator: "\n"))
        """
    }

    /// The options that replay this driver's drives.
    package var replay: String {
        (["--seed \(seed)", "--drivers 1"] + scenarios.map { "--scenario \($0.rawValue)" }).joined(separator: " ")
    }
}

/// The run cannot continue, because the server returned no verdict to compare.
package struct SimulationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
