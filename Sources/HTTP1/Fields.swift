/// Header or trailer fields in the order they came, repeats kept: a repeated Host or Content-Length must not
/// vanish (RFC 9110 section 5.3). Names compare without regard to case.
package struct Fields: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package private(set) var all: [Field] = []

    package init(_ fields: [(String, String)] = []) {
        all = fields.map { Field(name: $0.0, value: $0.1) }
    }

    /// The first value under that name; nil when there is none.
    package func first(_ name: String) -> String? {
        for field in all where Fields.sameName(field.name, name) { return field.value }
        return nil
    }

    /// Every value under that name, in order.
    package func values(_ name: String) -> [String] {
        all.filter { Fields.sameName($0.name, name) }.map(\.value)
    }

    package mutating func append(_ name: String, _ value: String) {
        all.append(Field(name: name, value: value))
    }

    /// Removes every field of that name, then appends this one.
    package mutating func set(_ name: String, _ value: String) {
        remove(name)
        append(name, value)
    }

    package mutating func remove(_ name: String) {
        all.removeAll { Fields.sameName($0.name, name) }
    }

    private static func sameName(_ one: String, _ other: String) -> Bool {
        one.utf8.count == other.utf8.count
            && one.utf8.elementsEqual(other.utf8) { lowercased($0) == lowercased($1) }
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}
