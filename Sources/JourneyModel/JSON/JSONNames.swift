/// The names seen in one object, to notice one that comes twice. Names are the same when their bytes are
/// (RFC 8259, section 8.3), so Swift's String equality, which knows canonical equivalence, will not do.
///
/// A few names are compared one by one; beyond that a hash set keeps an object of many members linear.
struct JSONNames {
    private static let comparedOneByOneMax = 16

    private var few: [String] = []
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

    /// False when the name was there already.
    mutating func insert(_ name: String) -> Bool {
        if many.isEmpty {
            if few.contains(where: { haveSameBytes($0, name) }) { return false }
            if few.isEmpty { few.reserveCapacity(Self.comparedOneByOneMax) }
            few.append(name)
            if few.count > Self.comparedOneByOneMax { many = Set(few.map(Name.init)) }
            return true
        }
        return many.insert(Name(text: name)).inserted
    }
}
