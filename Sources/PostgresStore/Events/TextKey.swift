// Texts as keys, compared by their bytes. Swift's `==` treats canonically equivalent Unicode texts as equal. The API
// and the database treat them as different.

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
