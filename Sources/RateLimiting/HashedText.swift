// Texts with precomputed hashes, as keys of tables. A lookup in a table spends most of its time on hashing, so one hash
// of a text serves all tables.

/// A text and its hash, used as the key of a table that must never confuse two texts.
struct HashedText: Equatable, Sendable {
    let text: String
    let hash: TextHash

    init(_ text: String) {
        self.text = text
        hash = TextHash(text)
    }

    /// Compares the hashes too, because `==` treats canonically equivalent texts as equal. Such texts have different
    /// bytes and therefore different hashes.
    static func == (one: HashedText, other: HashedText) -> Bool {
        one.hash == other.hash && one.text == other.text
    }
}

/// The hash of a text without the text, for tables that may confuse two texts. It takes 8 bytes; the text of a UUID
/// takes 36 bytes and a heap object. Two texts practically never have the same 64-bit hash.
///
/// `Hasher` has a random seed in each process, so clients cannot search for texts with the same hash.
package struct TextHash: Hashable, Sendable {
    let bits: Int

    package init(_ text: String) {
        var text = text
        bits = text.withUTF8 { bytes in
            var hasher = Hasher()
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
            return hasher.finalize()
        }
    }
}
