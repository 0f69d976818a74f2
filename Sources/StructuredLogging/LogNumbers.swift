// Numbers in log lines. They are JSON numbers, so that a log collector can compare and add them.

package import Logging

extension Logger.MetadataValue {
    package static func number(_ number: some BinaryInteger & Sendable & CustomStringConvertible) -> Self {
        .stringConvertible(number)
    }

    package static func number(_ number: Double) -> Self { .stringConvertible(number) }

    package static func bool(_ value: Bool) -> Self { .stringConvertible(value) }
}
