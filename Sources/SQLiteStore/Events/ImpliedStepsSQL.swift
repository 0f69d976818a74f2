// The names of the implied steps (transitions that a later event proves) in SQL. The bits of the column `implied` are
// the codes in Engine/Storing/Codes.swift.

import JourneyModel

extension ImpliedSteps {
    /// SQL expression that turns the column `implied` into a JSON array of step names, in the order of the steps.
    static let jsonSQL: String = {
        let names = (0..<8).compactMap { bit in
            ImpliedSteps(rawValue: 1 << bit).names.first.map { "iif(implied & \(1 << bit), ',\"\($0)\"', '')" }
        }
        return "'[' || substr(\(names.joined(separator: " || ")), 2) || ']'"
    }()
}
