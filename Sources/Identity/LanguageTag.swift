// Checks the form of a language tag (BCP 47). A tag names the locale of a device or the language of a text.

import JourneyModel

package enum LanguageTag {
    package static let rule = "must be a language tag such as de or de-AT (BCP 47), at most \(bytesMax) characters"
    private static let bytesMax = 35

    /// Returns whether the text consists of a language and any number of subtags, joined by hyphens. A language has 2
    /// to 8 letters, and a subtag has 1 to 8 letters or digits. Whether the subtags are registered is not checked.
    package static func isValid(_ text: String) -> Bool {
        let subtags = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard text.utf8.count <= bytesMax, let language = subtags.first else { return false }
        return (2...8).contains(language.count) && language.allSatisfy(\.isASCIILetter)
            && subtags.dropFirst().allSatisfy { subtag in
                (1...8).contains(subtag.count) && subtag.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit }
            }
    }
}
