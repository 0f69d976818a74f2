// Texts as keys, compared by their bytes. Swift's `==` treats canonically equivalent texts as equal; the contract and
// the database do not.

import JourneyModel

struct TextKey: Hashable, Sendable {
    let text: String

    init(_ text: String) { self.text = text }

    static func == (one: TextKey, other: TextKey) -> Bool { haveSameBytes(one.text, other.text) }

    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension TextKey: Comparable {
    static func < (one: TextKey, other: TextKey) -> Bool {
        one.text.utf8.lexicographicallyPrecedes(other.text.utf8)
    }
}
