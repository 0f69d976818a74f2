// Reads the values of results, in the binary form that the send functions of PostgreSQL's types write. All numbers are
// in network byte order. Every length is checked, because a value may be of an unexpected type.

/// Reads the bytes of one value from the front. Each function returns nil if the bytes do not have the form of the
/// requested type.
struct ValueReader {
    private var rest: UnsafeRawBufferPointer.SubSequence

    init(_ bytes: UnsafeRawBufferPointer) {
        rest = bytes[...]
    }

    /// The maximum number of dimensions of a readable array.
    private static let dimensionsMax: Int32 = 1

    mutating func number<Number: FixedWidthInteger & BitwiseCopyable>(_: Number.Type) -> Number? {
        let size = Number.bitWidth / 8
        guard rest.count >= size else { return nil }
        defer { rest = rest.dropFirst(size) }
        return Number(bigEndian: UnsafeRawBufferPointer(rebasing: rest).loadUnaligned(as: Number.self))
    }

    /// Returns the number if the value contains nothing else.
    mutating func wholeNumber<Number: FixedWidthInteger & BitwiseCopyable>(_ type: Number.Type) -> Number? {
        guard rest.count == Number.bitWidth / 8 else { return nil }
        return number(type)
    }

    mutating func bool() -> Bool? {
        guard rest.count == 1, let byte = rest.popFirst() else { return nil }
        return byte != 0
    }

    mutating func text() -> String? {
        defer { rest = rest.suffix(0) }
        return String(validating: rest, as: UTF8.self)
    }

    mutating func bytea() -> [UInt8] {
        defer { rest = rest.suffix(0) }
        return Array(rest)
    }

    /// Returns the elements of an array of at most one dimension.
    mutating func array<Element>(
        of type: PostgresType, _ element: (inout ValueReader) -> Element?
    ) -> [Element?]? {
        guard let dimensions = number(Int32.self), (0...Self.dimensionsMax).contains(dimensions),
            number(Int32.self) != nil, let elementType = number(UInt32.self),
            PostgresType(rawValue: elementType).isReadable(as: type)
        else { return nil }
        if dimensions == 0 { return rest.isEmpty ? [] : nil }
        // Each element takes at least the four bytes of its length.
        guard let count = number(Int32.self), number(Int32.self) != nil, count >= 0, Int(count) <= rest.count / 4
        else { return nil }
        var elements: [Element?] = []
        elements.reserveCapacity(Int(count))
        for _ in 0..<count {
            guard let size = number(Int32.self) else { return nil }
            if size == -1 {
                elements.append(nil)
                continue
            }
            guard size >= 0, Int(size) <= rest.count else { return nil }
            var reader = ValueReader(UnsafeRawBufferPointer(rebasing: rest.prefix(Int(size))))
            guard let value = element(&reader) else { return nil }
            rest = rest.dropFirst(Int(size))
            elements.append(value)
        }
        return rest.isEmpty ? elements : nil
    }
}
