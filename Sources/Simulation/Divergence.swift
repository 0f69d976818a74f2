// The errors that stop a simulation.

/// A difference between the server's response about an event and the expected response, which the simulation computes
/// with its own fold.
package struct Divergence: Error, Hashable, Sendable, CustomStringConvertible {
    /// The driver's seed. With this seed, the drives of this driver can be repeated without the other drivers.
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

/// The reason why the run cannot continue. For example, the server has returned no verdict that can be compared.
package struct SimulationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
