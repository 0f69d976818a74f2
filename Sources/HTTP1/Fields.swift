/// Header or trailer fields in the order they came, repeats kept: a repeated Host or Content-Length must not
/// vanish (RFC 9110 section 5.3). Names compare without regard to case.
///
/// An array, not a dictionary: for a dozen fields a walk that compares lengths first is faster than hashing names,
/// and it costs one allocation.
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
        for (name, value) in fields { append(name, value) }
    }

    package var count: Int { all.count }
    package var isEmpty: Bool { all.isEmpty }

    /// The first value under that name; nil when there is none.
    package func first(_ name: String) -> String? {
        for index in all.indices where Fields.sameName(all[index].name, name) { return all[index].value }
        return nil
    }

    /// How often that name is there. Of two there is often no telling which one counts.
    package func count(of name: String) -> Int {
        var count = 0
        for index in all.indices where Fields.sameName(all[index].name, name) { count += 1 }
        return count
    }

    /// Every value under that name, in order.
    package func values(_ name: String) -> [String] {
        var values: [String] = []
        for index in all.indices where Fields.sameName(all[index].name, name) { values.append(all[index].value) }
        return values
    }

    package mutating func append(_ name: String, _ value: String) {
        if all.isEmpty { all.reserveCapacity(Self.usualCount) }
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

    /// A phone's request has six to ten fields; one allocation then holds them.
    private static let usualCount = 10

    /// Lengths tell most names apart, and most senders write a name as we do.
    static func sameName(_ one: String, _ other: String) -> Bool {
        one.utf8.count == other.utf8.count
            && (one == other
                || one.utf8.elementsEqual(other.utf8) { Grammar.lowercased($0) == Grammar.lowercased($1) })
    }
}
