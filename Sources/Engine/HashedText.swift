// What tables know texts by. To hash a text is most of what a look-up costs, so it is done once for all of them.

/// A text and its hash, for a table that must never take one text for another.
struct HashedText: Equatable, Sendable {
    let text: String
    let hash: TextHash

    init(_ text: String) {
        self.text = text
        hash = TextHash(text)
    }

    /// Texts that are canonically equivalent, which `==` finds equal, have different bytes and so different hashes.
    static func == (one: HashedText, other: HashedText) -> Bool {
        one.hash == other.hash && one.text == other.text
    }
}

/// The hash alone, for a table that may take one text for another once in 2^64: 8 bytes instead of a text of 36 and its
/// object. Its key is this process's own (`Hasher`), so that nobody who sends texts can look for two with the same.
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
