// A text that several tables are asked for. To hash it is most of what a look-up costs, so it is hashed once.

/// Equal, in a table, to what has the same bytes.
package struct HashedText: Hashable, Sendable {
    package let text: String
    package let hash: Int

    package init(_ text: String) {
        self.text = text
        var text = text
        hash = text.withUTF8 { bytes in
            var hasher = Hasher()
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
            return hasher.finalize()
        }
    }

    /// Texts that are canonically equivalent, which `==` finds equal, have different bytes and so different hashes.
    package static func == (one: HashedText, other: HashedText) -> Bool {
        one.hash == other.hash && one.text == other.text
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}
