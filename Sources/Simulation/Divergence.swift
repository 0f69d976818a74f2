// The errors that stop a simulation.

/// A difference between two responses about an event: the server's response, and the one that the simulation computes
/// with its own fold.
package struct Divergence: Error, Hashable, Sendable, CustomStringConvertible {
    /// The driver's seed. With this seed, this driver's drives can be repeated alone.
    package var seed: UInt64
    /// All scenarios that the driver plays. The difference was found in `scenario`.
    package var scenarios: [Scenario]
    package var scenario: Scenario
    package var driver: String
    package var eventID: String
    package var event: String
    /// A description of how the event was sent.
    package var delivery: String
    package var differences: [String]

    package var description: String {
        """
        divergence in \(scenario.rawValue): \(event), \(delivery)
          driver \(driver), event_id \(eventID)
        \(differences.map { "  \($0)" }.joined(separator: "\n"))
        """
    }

    /// The command-line options that repeat this driver's drives.
    package var replay: String {
        (["--seed \(seed)", "--drivers 1"] + scenarios.map { "--scenario \($0.rawValue)" }).joined(separator: " ")
    }
}

/// The reason why the run cannot continue, for example that the server returned no response to compare.
package struct SimulationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
