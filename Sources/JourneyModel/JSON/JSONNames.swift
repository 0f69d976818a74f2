/// The names seen in one object, to notice one that comes twice. Names are the same when their bytes are
/// (RFC 8259, section 8.3), so Swift's String equality, which knows canonical equivalence, will not do.
///
/// A few names are compared one by one; beyond that a hash set keeps an object of many members linear.
struct JSONNames {
    private static let comparedOneByOneMax = 16

    /// Empty as long as they are few.
    private var many: Set<Name> = []

    private struct Name: Hashable {
        var text: String

        static func == (one: Name, other: Name) -> Bool {
            haveSameBytes(one.text, other.text)
        }

        func hash(into hasher: inout Hasher) {
            var text = text
            text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        }
    }

    /// False when the name is one of `earlier`. Asked for each name of an object once, with all before it.
    mutating func isNew(_ name: String, after earlier: some Collection<String>) -> Bool {
        if many.isEmpty {
            if earlier.count < Self.comparedOneByOneMax {
                return !earlier.contains { haveSameBytes($0, name) }
            }
            many = Set(earlier.map(Name.init))
        }
        return many.insert(Name(text: name)).inserted
    }
}
