// The variables for links that open an app, and for the pages that the app stores require (contract, sections 8 and
// 10).

import API
import Foundation

extension Variables {
    static let linkApps = Variable<[String]>(
        name: "LINK_APPS", section: .links, defaultText: "", defaultValue: [],
        allowed: .text(
            "1 to 32 app ids, comma-separated: team id of ten capital letters and digits, dot, bundle id, such as "
                + "ABCDE12345.com.example.app"),
        isSecret: false,
        sentence: "iOS apps that open universal links to this host; if not set, "
            + "/.well-known/apple-app-site-association returns 404.",
        parse: { text in
            list(text, countMax: 32) { item -> String? in
                let parts = item.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
                return parts.count == 2 && parts[0].utf8.count == 10 && parts[0].utf8.allSatisfy(isUpperOrDigit)
                    && isBundleID(parts[1]) ? item : nil
            }
        },
        show: { $0.isEmpty ? "not set" : $0.joined(separator: ",") })

    static let linkPaths = Variable<[AppLinks.Path]>(
        name: "LINK_PATHS", section: .links, defaultText: "", defaultValue: [],
        allowed: .text(
            "1 to 64 different paths such as /open/*, comma-separated, of at most 512 bytes, without ? and #; not all "
                + "excluded"),
        isSecret: false,
        sentence: "Required with LINK_APPS: paths that these apps open, such as !/open/web/*,/open/*. The first match "
            + "decides; * is any text, and ! excludes a path.",
        parse: { text in
            let paths = list(text, countMax: 64) { item -> AppLinks.Path? in
                let isExcluded = item.hasPrefix("!")
                let pattern = isExcluded ? String(item.dropFirst()) : item
                guard pattern.hasPrefix("/"), pattern.utf8.count <= 512, pattern.utf8.allSatisfy(isPathCharacter)
                else { return nil }
                return AppLinks.Path(pattern: pattern, isExcluded: isExcluded)
            }
            guard let paths, Set(paths.map(\.pattern)).count == paths.count else { return nil }
            return paths.contains { !$0.isExcluded } ? paths : nil
        },
        show: { paths in
            paths.isEmpty
                ? "not set" : paths.map { ($0.isExcluded ? "!" : "") + $0.pattern }.joined(separator: ",")
        })

    static let androidApps = Variable<[AppLinks.AndroidApp]>(
        name: "ANDROID_APPS", section: .links, defaultText: "", defaultValue: [],
        allowed: .text(
            "1 to 32 items such as com.example.app:14:6D:..., comma-separated: package, colon, the certificate's "
                + "SHA-256 fingerprint (32 hexadecimal pairs)"),
        isSecret: false,
        sentence: "Android apps that open app links to this host; if not set, /.well-known/assetlinks.json returns "
            + "404. A package may repeat: with Play App Signing, set Play's key and the upload key.",
        parse: { text in
            let items = list(text, countMax: 32) { item -> AppLinks.AndroidApp? in
                let parts = item.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, isPackageName(parts[0]), isFingerprint(parts[1]) else { return nil }
                return AppLinks.AndroidApp(packageName: String(parts[0]), fingerprints: [parts[1].uppercased()])
            }
            return items?.reduce(into: []) { apps, item in
                if let index = apps.firstIndex(where: { $0.packageName == item.packageName }) {
                    apps[index].fingerprints += item.fingerprints
                } else {
                    apps.append(item)
                }
            }
        },
        show: { apps in
            apps.isEmpty
                ? "not set"
                : apps.flatMap { app in app.fingerprints.map { "\(app.packageName):\($0)" } }.joined(separator: ",")
        })

    static let privacyFile = pageFile("PRIVACY_FILE", "The page /privacy; if not set, this path returns 404.")
    static let termsFile = pageFile("TERMS_FILE", "The page /terms; if not set, this path returns 404.")
    static let supportFile = pageFile("SUPPORT_FILE", "The page /support; if not set, this path returns 404.")

    static let pageFiles: [(name: PublicPageName, variable: Variable<String?>)] = [
        (.privacy, privacyFile), (.terms, termsFile), (.support, supportFile),
    ]

    static let links: [any Declaration] = [linkApps, linkPaths, androidApps] + pageFiles.map(\.variable)

    private static func pageFile(_ name: String, _ sentence: String) -> Variable<String?> {
        Variable<String?>.text(
            name, .links,
            allowed:
                "the path of a .html, .htm, .md or .txt file with 1 to \(PublicPage.bytesMax) bytes of UTF-8 text",
            sentence
        ) { isPath($0) && PublicPage.mediaType(ofFile: $0) != nil }
    }

    /// Returns the items of the text. Returns nil if there are more than `countMax` items, or if an item is invalid or
    /// repeated.
    private static func list<Item: Hashable>(
        _ text: String, countMax: Int, _ read: (String) -> Item?
    ) -> [Item]? {
        let texts = items(in: text)
        let list = texts.compactMap(read)
        guard (1...countMax).contains(texts.count), list.count == texts.count, Set(list).count == list.count else {
            return nil
        }
        return list
    }

    /// Returns whether the text is an Android application id: at least two parts, separated by dots. Each part begins
    /// with a letter and contains only letters, digits and underscores.
    private static func isPackageName(_ text: Substring) -> Bool {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 255 && parts.count >= 2
            && parts.allSatisfy { part in
                part.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "_") }
                    && part.utf8.first.map { isLetterOrDigit($0) && !isDigit($0) } == true
            }
    }

    private static func isFingerprint(_ text: Substring) -> Bool {
        let pairs = text.split(separator: ":", omittingEmptySubsequences: false)
        return pairs.count == 32 && pairs.allSatisfy { $0.utf8.count == 2 && $0.utf8.allSatisfy(isHexDigit) }
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        isDigit(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
    }

    /// Returns whether the byte is a slash, or a character that a segment of a path may contain (RFC 3986, section
    /// 3.3). The wildcard `*` is such a character.
    private static func isPathCharacter(_ byte: UInt8) -> Bool {
        isLetterOrDigit(byte) || "-._~%!$&'()*+;=:@/".utf8.contains(byte)
    }
}

/// The apps that open links, and the content of the pages.
struct LinkConfiguration: Sendable {
    var apps: AppLinks
    var pages: [PublicPageName: PublicPage]

    init(_ reading: inout ConfigurationReading) {
        let appIDs = reading.value(of: Variables.linkApps)
        let paths = reading.value(of: Variables.linkPaths)
        apps = AppLinks(appIDs: appIDs, paths: paths, androidApps: reading.value(of: Variables.androidApps))
        let names = [Variables.linkApps.name, Variables.linkPaths.name]
        if appIDs.isEmpty != paths.isEmpty, !reading.problems.contains(where: { names.contains($0.variable) }) {
            reading.note(
                appIDs.isEmpty ? names[0] : names[1],
                " is not set; allowed are both of \(names.joined(separator: " and ")), or neither")
        }
        pages = [:]
        for (name, variable) in Variables.pageFiles {
            if let path = reading.value(of: variable) { pages[name] = Self.page(path, variable, &reading) }
        }
    }

    private static func page(
        _ path: String, _ variable: Variable<String?>, _ reading: inout ConfigurationReading
    ) -> PublicPage? {
        let reason: String
        do {
            let text = try readTextFile(path, bytesMax: PublicPage.bytesMax)
            if let mediaType = PublicPage.mediaType(ofFile: path), !text.isEmpty {
                return PublicPage(bytes: Array(text.utf8), mediaType: mediaType)
            }
            reason = "it is empty"
        } catch {
            reason = error.reason
        }
        reading.note(variable.name, "=\(escaped(path)) is not allowed: \(reason); allowed is \(variable.allowed)")
        return nil
    }
}
