// Writes the values of parameters in the binary form that the receive functions of PostgreSQL's types expect
// (array_recv, int8recv and so on). All numbers are in network byte order.

/// The parameters of one statement, encoded into one buffer.
struct EncodedParameters: Sendable {
    /// The values of a statement must together be smaller than this number of bytes, 1 GiB. PostgreSQL accepts no
    /// larger single value, and a message of the protocol has less than 2^31 bytes.
    static let bytesMax = 1 << 30
    /// The maximum number of parameters of a statement. The protocol counts them in 16 bits.
    static let countMax = 65_535

    /// The position of each parameter's value in `bytes`; nil for NULL.
    private(set) var ranges: [Range<Int>?] = []
    private(set) var types: [PostgresType] = []
    /// The values, and one more byte. The extra byte gives even an empty value at the end an address, because libpq
    /// would treat a null pointer as NULL.
    private(set) var bytes: [UInt8] = []

    init(_ parameters: [PostgresValue]) throws(PostgresError) {
        guard parameters.count <= Self.countMax else {
            throw PostgresError(.unsendable, "A statement has more than \(Self.countMax) parameters.")
        }
        ranges.reserveCapacity(parameters.count)
        types.reserveCapacity(parameters.count)
        for parameter in parameters {
            types.append(parameter.type)
            let start = bytes.count
            let isNull = !append(parameter)
            ranges.append(isNull ? nil : start..<bytes.count)
            guard bytes.count < Self.bytesMax else {
                throw PostgresError(.unsendable, "The parameters of a statement have more than 1 GiB.")
            }
        }
        bytes.append(0)
    }

    /// Appends the value. Returns false for NULL.
    private mutating func append(_ value: PostgresValue) -> Bool {
        switch value {
        case .null: return false
        case .bool(let value): bytes.append(value ? 1 : 0)
        case .int2(let value): append(value)
        case .int4(let value): append(value)
        case .int8(let value): append(value)
        case .text(let value): bytes.append(contentsOf: value.utf8)
        case .bytea(let value): bytes.append(contentsOf: value)
        case .bools(let values):
            append(values, of: .bool) { parameters, value in parameters.appendElement([value ? 1 : 0]) }
        case .int2s(let values): append(values, of: .int2) { parameters, value in parameters.appendElement(value) }
        case .int8s(let values): append(values, of: .int8) { parameters, value in parameters.appendElement(value) }
        case .texts(let values):
            append(values, of: .text) { parameters, value in parameters.appendElement(value.utf8) }
        case .byteas(let values):
            append(values, of: .bytea) { parameters, value in parameters.appendElement(value) }
        }
        return true
    }

    /// Appends an array in the form that array_recv reads. It has one dimension; an empty array has none. The fields
    /// after the type of the elements are the length and the lower bound.
    private mutating func append<Element>(
        _ elements: [Element?], of type: PostgresType, _ appendElement: (inout EncodedParameters, Element) -> Void
    ) {
        append(Int32(elements.isEmpty ? 0 : 1))
        append(Int32(elements.contains { $0 == nil } ? 1 : 0))
        append(type.rawValue)
        if elements.isEmpty { return }
        append(Int32(truncatingIfNeeded: elements.count))
        append(Int32(1))
        for element in elements {
            if let element { appendElement(&self, element) } else { append(Int32(-1)) }
        }
    }

    private mutating func appendElement(_ number: some FixedWidthInteger) {
        append(Int32(number.bitWidth / 8))
        append(number)
    }

    /// Appends an element with its length. A length that does not fit into 32 bits is truncated. The truncated length
    /// is never sent: such an element exceeds `bytesMax`, so `init` throws.
    private mutating func appendElement(_ content: some Collection<UInt8>) {
        append(Int32(truncatingIfNeeded: content.count))
        bytes.append(contentsOf: content)
    }

    private mutating func append(_ number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }
}
