/// The names seen in one object, to detect duplicates. Two names are equal if their bytes are equal (RFC 8259, section
/// 8.3). Swift's String equality cannot be used, because it compares by canonical equivalence.
///
/// Up to 16 names are compared one by one. If there are more, a hash set keeps the time linear in the number of
/// members.
struct JSONNames {
    private static let linearSearchMax = 16

    /// The names seen. Empty while there are at most `linearSearchMax` names.
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

    /// Returns whether the name is new in its object. `earlier` must hold all names before `name`. The caller must call
    /// this method once for each name of the object, in order.
    mutating func isNew(_ name: String, after earlier: some Collection<String>) -> Bool {
        if many.isEmpty {
            if earlier.count < Self.linearSearchMax {
                return !earlier.contains { haveSameBytes($0, name) }
            }
            many = Set(earlier.map(Name.init))
        }
        return many.insert(Name(text: name)).inserted
    }
}
