// Why a simulation ends before its end.

/// The server and the simulation's own fold disagree about one event.
package struct Divergence: Error, Hashable, Sendable, CustomStringConvertible {
    /// Of the driver, to be played alone.
    package var seed: UInt64
    /// All that the driver played; the one in question is `scenario`.
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

    /// The options that play this driver's drives again.
    package var replay: String {
        (["--seed \(seed)", "--drivers 1"] + scenarios.map { "--scenario \($0.rawValue)" }).joined(separator: " ")
    }
}

/// Nothing can be said of the server's verdicts, because it gave none.
package struct SimulationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
