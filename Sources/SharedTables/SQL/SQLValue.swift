// The values of columns and parameters, in types that both SQLite and PostgreSQL store.

package import JourneyModel

/// A value of a column or a parameter. `integer` stands for all integer types of PostgreSQL, and for Booleans.
package enum SQLValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case blob([UInt8])
}

/// A Swift type that is stored as one `SQLValue`.
package protocol SQLConvertible: Sendable {
    /// Returns nil if the value has another type, or does not fit into this one.
    init?(_ value: SQLValue)
    var sqlValue: SQLValue { get }
}

extension Int64: SQLConvertible {
    package init?(_ value: SQLValue) {
        guard case .integer(let integer) = value else { return nil }
        self = integer
    }
    package var sqlValue: SQLValue { .integer(self) }
}

extension Int: SQLConvertible {
    package init?(_ value: SQLValue) {
        guard case .integer(let integer) = value else { return nil }
        self.init(exactly: integer)
    }
    package var sqlValue: SQLValue { .integer(Int64(self)) }
}

/// A Boolean is stored as 0 or 1. A condition must therefore compare the column: `is_own = 1`.
extension Bool: SQLConvertible {
    package init?(_ value: SQLValue) {
        guard case .integer(let integer) = value else { return nil }
        self = integer != 0
    }
    package var sqlValue: SQLValue { .integer(self ? 1 : 0) }
}

extension String: SQLConvertible {
    package init?(_ value: SQLValue) {
        guard case .text(let text) = value else { return nil }
        self = text
    }
    package var sqlValue: SQLValue { .text(self) }
}

extension [UInt8]: SQLConvertible {
    package init?(_ value: SQLValue) {
        guard case .blob(let bytes) = value else { return nil }
        self = bytes
    }
    package var sqlValue: SQLValue { .blob(self) }
}

/// A time is stored in milliseconds since 1970, in a column whose name ends with `_ms`.
extension Moment: SQLConvertible {
    package init?(_ value: SQLValue) {
        guard case .integer(let milliseconds) = value else { return nil }
        self.init(millisecondsSinceEpoch: milliseconds)
    }
    package var sqlValue: SQLValue { .integer(millisecondsSinceEpoch) }
}

/// The values of a statement's parameters, in order.
package struct SQLArguments: ExpressibleByArrayLiteral, Hashable, Sendable {
    package private(set) var values: [SQLValue]

    package init(_ values: [SQLValue] = []) {
        self.values = values
    }

    package init(arrayLiteral elements: (any SQLConvertible)?...) {
        values = elements.map { $0?.sqlValue ?? .null }
    }

    package static func + (left: Self, right: Self) -> Self { Self(left.values + right.values) }
}

/// A row of a result. Columns are counted from 0.
package struct SQLRow: Hashable, Sendable {
    package let values: [SQLValue]

    package init(_ values: [SQLValue]) {
        self.values = values
    }

    /// - Throws: `UnreadableColumn` if the value is NULL or has another type.
    package subscript<Value: SQLConvertible>(column: Int) -> Value {
        get throws {
            guard values.indices.contains(column), let value = Value(values[column]) else {
                throw UnreadableColumn(name: "\(column) of a result")
            }
            return value
        }
    }

    /// - Throws: `UnreadableColumn` if the value has another type.
    package subscript<Value: SQLConvertible>(column: Int) -> Value? {
        get throws {
            guard values.indices.contains(column) else { throw UnreadableColumn(name: "\(column) of a result") }
            if values[column] == .null { return nil }
            guard let value = Value(values[column]) else { throw UnreadableColumn(name: "\(column) of a result") }
            return value
        }
    }
}

/// A stored value that no release of this server writes.
package struct UnreadableColumn: Error, Hashable, Sendable, CustomStringConvertible {
    package let name: String

    package init(name: String) {
        self.name = name
    }

    package var description: String { "unreadable value in column \(name)" }
}
