/// Header or trailer fields, in the order in which they were received or appended. Repeated fields are kept, so that a
/// handler can detect a repeated Authorization or Idempotency-Key (RFC 9110 section 5.3). Names are compared
/// case-insensitively.
///
/// The fields are stored as the bytes of their lines, plus the position of each name and value. Storing or sending a
/// field only copies bytes. A String is created only on demand.
///
/// A field is found by a linear scan. For a dozen fields, a scan that compares lengths first is faster than a
/// dictionary.
///
/// `append(_:_:)` ignores a field whose name is not a token. In the value, it replaces every control character except
/// HTAB with a space (RFC 9110 section 5.5). A value therefore cannot end its line early, which prevents response
/// splitting.
package struct Fields: Sendable {
    package struct Field: Hashable, Sendable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The position of a line in `bytes`. The line has the form `name ": " value CRLF`.
    struct Line: Sendable {
        var nameStart: UInt32
        var nameEnd: UInt32
        var valueEnd: UInt32

        var name: Range<Int> { Int(nameStart)..<Int(nameEnd) }
        var value: Range<Int> { Int(nameEnd) + 2..<Int(valueEnd) }
        /// The whole line, including its CRLF.
        var whole: Range<Int> { Int(nameStart)..<Int(valueEnd) + 2 }
    }

    /// The lines, concatenated.
    private(set) var bytes: [UInt8] = []
    private(set) var lines: [Line] = []

    package init(_ fields: [(String, String)] = []) {
        for (name, value) in fields { append(name, value) }
    }

    package var count: Int { lines.count }
    package var isEmpty: Bool { lines.isEmpty }
    /// The allocated memory in bytes.
    var capacityBytes: Int { bytes.capacity + lines.capacity * MemoryLayout<Line>.stride }

    /// The fields as Strings. The Strings are created on each call.
    package var all: [Field] { lines.map { Field(name: text($0.name), value: text($0.value)) } }

    /// Returns the first value of the field `name`; nil if there is none.
    package func first(_ name: String) -> String? {
        firstIndex(name).map { text(lines[$0].value) }
    }

    /// Returns the bytes of the first value of the field `name` without copying them; nil if there is no such field.
    package func value(_ name: String) -> ArraySlice<UInt8>? {
        firstIndex(name).map { bytes[lines[$0].value] }
    }

    /// Returns the bytes of the field's value without copying them; nil if the field is missing or repeated.
    package func only(_ name: String) -> ArraySlice<UInt8>? {
        var only: Int?
        var count = 0
        forEachIndex(name) { index in
            only = index
            count += 1
            return count == 1
        }
        guard count == 1, let only else { return nil }
        return bytes[lines[only].value]
    }

    /// Returns the number of fields with this name. For many fields, no rule says which of several values applies, so
    /// callers must detect a repeated field.
    package func count(of name: String) -> Int {
        var count = 0
        forEachIndex(name) { _ in
            count += 1
            return true
        }
        return count
    }

    /// Returns all values of the field `name`, in order.
    package func values(_ name: String) -> [String] {
        var values: [String] = []
        forEachIndex(name) { index in
            values.append(text(lines[index].value))
            return true
        }
        return values
    }

    package mutating func append(_ name: String, _ value: String) {
        var name = name
        var value = value
        name.withUTF8 { name in value.withUTF8 { value in append(name, value) } }
    }

    /// Appends all fields of `other`.
    package mutating func append(contentsOf other: Fields) {
        if other.isEmpty { return }
        reserveUsual()
        let start = UInt32(clamping: bytes.count)
        bytes.append(contentsOf: other.bytes)
        for line in other.lines {
            lines.append(
                Line(
                    nameStart: start + line.nameStart, nameEnd: start + line.nameEnd, valueEnd: start + line.valueEnd))
        }
    }

    /// Removes all fields with this name, then appends one field with `value`.
    package mutating func set(_ name: String, _ value: String) {
        remove(name)
        append(name, value)
    }

    package mutating func remove(_ name: String) {
        guard firstIndex(name) != nil else { return }
        var kept = Fields()
        for line in lines where !isNamed(line, name) {
            bytes.withUnsafeBufferPointer { bytes in
                kept.append(
                    UnsafeBufferPointer(rebasing: bytes[line.name]), UnsafeBufferPointer(rebasing: bytes[line.value]))
            }
        }
        self = kept
    }

    // MARK: - Bytes

    /// Appends a received field line. Its name and value must already be checked.
    mutating func append(_ line: FieldLine, of received: [UInt8]) {
        received.withUnsafeBufferPointer { received in
            if let whole = Fields.copyableLine(line, of: received) {
                appendWhole(whole, nameLength: line.name.count)
            } else {
                appendChecked(
                    UnsafeBufferPointer(rebasing: received[line.name]),
                    UnsafeBufferPointer(rebasing: received[line.value]))
            }
        }
    }

    /// Returns the whole line if it has exactly the form `name ": " value CRLF`, otherwise nil. Most received lines
    /// have this form and can be copied in one piece.
    private static func copyableLine(
        _ line: FieldLine, of received: UnsafeBufferPointer<UInt8>
    ) -> UnsafeBufferPointer<UInt8>? {
        let end = line.value.upperBound
        guard line.value.lowerBound == line.name.upperBound + 2, received[line.name.upperBound + 1] == Grammar.space,
            end + 2 <= received.count, received[end] == Grammar.carriageReturn, received[end + 1] == Grammar.lineFeed
        else { return nil }
        return UnsafeBufferPointer(rebasing: received[line.name.lowerBound..<end + 2])
    }

    private mutating func appendWhole(_ whole: UnsafeBufferPointer<UInt8>, nameLength: Int) {
        reserveUsual()
        let start = bytes.count
        bytes.append(contentsOf: whole)
        lines.append(
            Line(
                nameStart: UInt32(clamping: start), nameEnd: UInt32(clamping: start + nameLength),
                valueEnd: UInt32(clamping: bytes.count - 2)))
    }

    private mutating func reserveUsual() {
        if !lines.isEmpty { return }
        lines.reserveCapacity(Self.usualCount)
        bytes.reserveCapacity(Self.usualBytes)
    }

    private mutating func append(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) {
        guard !name.isEmpty, name.allSatisfy(Grammar.tokenBytes.contains) else { return }
        let start = appendChecked(name, value)
        for index in start..<bytes.count - 2 where !Grammar.isFieldValueByte(bytes[index]) {
            bytes[index] = Grammar.space
        }
    }

    /// Appends a line and returns the offset of its value.
    @discardableResult
    private mutating func appendChecked(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>
    ) -> Int {
        reserveUsual()
        let start = bytes.count
        bytes.append(contentsOf: name)
        bytes.append(UInt8(ascii: ":"))
        bytes.append(Grammar.space)
        bytes.append(contentsOf: value)
        // The positions fit into UInt32, because the lines never reach 4 GiB. Received fields have a limit, and the
        // server's own fields are short.
        lines.append(
            Line(
                nameStart: UInt32(clamping: start), nameEnd: UInt32(clamping: start + name.count),
                valueEnd: UInt32(clamping: bytes.count)))
        bytes.append(Grammar.carriageReturn)
        bytes.append(Grammar.lineFeed)
        return start + name.count + 2
    }

    /// The space that is reserved in advance, so that each array usually needs only one allocation. A phone's request
    /// has six to ten fields, and most of their bytes are the access token.
    private static let usualCount = 10
    private static let usualBytes = 480

    private func text(_ range: Range<Int>) -> String {
        String(decoding: bytes[range], as: UTF8.self)
    }

    private func firstIndex(_ name: String) -> Int? {
        var first: Int?
        forEachIndex(name) { index in
            first = index
            return false
        }
        return first
    }

    /// Calls `body` with the index of each field that has this name, until `body` returns false.
    @inline(__always)
    private func forEachIndex(_ name: String, _ body: (Int) -> Bool) {
        let length = name.utf8.count
        for index in lines.indices where lines[index].name.count == length && isNamed(lines[index], name) {
            if !body(index) { return }
        }
    }

    /// Returns whether the line has this name. Compares the lengths first, because most names differ in length.
    private func isNamed(_ line: Line, _ name: String) -> Bool {
        var name = name
        return name.withUTF8 { name in
            line.name.count == name.count
                && bytes.withUnsafeBufferPointer { bytes in
                    for index in name.indices
                    where Grammar.lowercased(bytes[line.name.lowerBound + index]) != Grammar.lowercased(name[index]) {
                        return false
                    }
                    return true
                }
        }
    }
}

extension Fields: Hashable {
    package static func == (one: Fields, other: Fields) -> Bool {
        one.bytes == other.bytes
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(bytes)
    }
}
