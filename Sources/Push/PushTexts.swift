// The texts of alerts, by language. The operator can replace them with a file (PUSH_TEXTS_FILE, docs/push.md).

package import Identity
import JourneyModel
import Synchronization

package struct PushTexts: Hashable, Sendable {
    package struct Text: Hashable, Sendable {
        package var title: String
        package var body: String

        package init(title: String, body: String) {
            (self.title, self.body) = (title, body)
        }
    }

    /// The maximum size of the file, in bytes.
    package static let bytesMax = 262_144
    private static let titleCharactersMax = 100
    private static let bodyCharactersMax = 300
    /// The placeholder in a `grace_ending` text for the number of minutes left, rounded up.
    static let minutesPlaceholder = "{minutes}"

    /// The texts of each language; the keys are BCP 47 tags in lower case.
    private var languages: [String: [AlertKind: Text]]
    private var defaultLanguage: String

    /// The texts in the binary.
    package static let standard = PushTexts(
        languages: [
            "en": [
                .sessionActive: Text(title: "Session active", body: "You can leave the charger now."),
                .atMerchant: Text(title: "You have arrived", body: "Show your visit to have it verified."),
                .graceEnding: Text(
                    title: "Your session ends soon", body: "Reach the merchant within {minutes} min to keep it."),
                .sessionExpired: Text(title: "Session ended", body: "Its time is over."),
            ]
        ], defaultLanguage: "en")

    private init(languages: [String: [AlertKind: Text]], defaultLanguage: String) {
        (self.languages, self.defaultLanguage) = (languages, defaultLanguage)
    }

    /// Parses the bytes of the file.
    ///
    /// - Throws: an error that names the member, or the line at which the text is not JSON.
    package init(parsing bytes: [UInt8]) throws(PushTextsError) {
        let file: JSONValue
        do { file = try JSONValue.parse(bytes) } catch {
            let line = LocatedJSON.line(ofOffset: error.offset, in: bytes)
            throw PushTextsError(place: "line \(line)", detail: "is not JSON: \(error.detail)")
        }
        try Self.check(file, members: ["default", "languages"], at: "")
        guard case .string(let name)? = file["default"] else {
            throw PushTextsError(place: "default", detail: "must be the name of a language in languages")
        }
        guard case .object(let members)? = file["languages"] else {
            throw PushTextsError(place: "languages", detail: "must be an object")
        }
        var languages: [String: [AlertKind: Text]] = [:]
        for member in members {
            let place = "languages.\(member.name)"
            guard LanguageTag.isValid(member.name) else {
                throw PushTextsError(place: place, detail: "is not a language tag such as de or de-AT")
            }
            guard languages.updateValue(try Self.texts(member.value, place), forKey: member.name.lowercased()) == nil
            else { throw PushTextsError(place: place, detail: "is there twice") }
        }
        guard languages[name.lowercased()] != nil else {
            throw PushTextsError(place: "default", detail: "must be the name of a language in languages")
        }
        self.init(languages: languages, defaultLanguage: name.lowercased())
    }

    private static func texts(_ value: JSONValue, _ place: String) throws(PushTextsError) -> [AlertKind: Text] {
        try check(value, members: AlertKind.allCases.map(\.rawValue), at: place)
        var texts: [AlertKind: Text] = [:]
        for kind in AlertKind.allCases {
            let place = "\(place).\(kind.rawValue)"
            guard let value = value[kind.rawValue] else { throw PushTextsError(place: place, detail: "is required") }
            try check(value, members: ["title", "body"], at: place)
            texts[kind] = Text(
                title: try text(value["title"], "\(place).title", charactersMax: titleCharactersMax),
                body: try text(value["body"], "\(place).body", charactersMax: bodyCharactersMax))
        }
        return texts
    }

    private static func text(
        _ value: JSONValue?, _ place: String, charactersMax: Int
    ) throws(PushTextsError) -> String {
        if case .string(let text)? = value, (1...charactersMax).contains(text.unicodeScalars.count) { return text }
        throw PushTextsError(place: place, detail: "must be a string of 1 to \(charactersMax) characters")
    }

    private static func check(_ value: JSONValue, members: [String], at place: String) throws(PushTextsError) {
        guard case .object(let found) = value else {
            throw PushTextsError(place: place.isEmpty ? "the file" : place, detail: "must be an object")
        }
        if let other = found.first(where: { !members.contains($0.name) }) {
            throw PushTextsError(
                place: place.isEmpty ? other.name : "\(place).\(other.name)",
                detail: "is not a member; allowed are \(members.joined(separator: ", "))")
        }
    }

    /// Returns the text in the first language that has texts. The candidates are the locale, the locale without its
    /// last subtag and so on (RFC 4647, section 3.4), and finally the default language.
    package func text(_ kind: AlertKind, locale: String?, secondsLeft: Int64) -> Text {
        var subtags = (locale ?? "").lowercased().split(separator: "-")
        var found: [AlertKind: Text]?
        while found == nil, !subtags.isEmpty {
            found = languages[subtags.joined(separator: "-")]
            subtags.removeLast()
        }
        guard var text = (found ?? languages[defaultLanguage])?[kind] else {
            // Every language has every kind.
            return Text(title: "", body: "")
        }
        if kind == .graceEnding {
            let minutes = String(max(1, (secondsLeft + 59) / 60))
            text.title.replace(Self.minutesPlaceholder, with: minutes)
            text.body.replace(Self.minutesPlaceholder, with: minutes)
        }
        return text
    }
}

/// The reason why a file of texts is not usable: the place in the file, and what is wrong there.
package struct PushTextsError: Error, Hashable, Sendable, CustomStringConvertible {
    package var place: String
    package var detail: String

    package var description: String { "\(place) \(detail)" }
}

/// The texts in force. A reload of the settings replaces them.
package final class CurrentPushTexts: Sendable {
    private let texts: Mutex<PushTexts>

    package init(_ texts: PushTexts = .standard) {
        self.texts = Mutex(texts)
    }

    package func read() -> PushTexts { texts.withLock { $0 } }

    /// Returns whether the texts changed.
    package func replace(with replacement: PushTexts) -> Bool {
        texts.withLock { texts in
            defer { texts = replacement }
            return texts != replacement
        }
    }
}
