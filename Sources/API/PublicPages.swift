// GET /privacy, /terms and /support: pages that the app stores require. The operator keeps their content in files.

import Synchronization

/// A page that the app stores require. The raw value is its path without the slash.
package enum PublicPageName: String, CaseIterable, Sendable {
    case privacy, terms, support

    package var path: String { "/" + rawValue }
}

/// The content of a page.
package struct PublicPage: Hashable, Sendable {
    /// The largest file, in bytes.
    package static let bytesMax = 262_144

    package var bytes: [UInt8]
    package var mediaType: String

    package init(bytes: [UInt8], mediaType: String) {
        (self.bytes, self.mediaType) = (bytes, mediaType)
    }

    /// Returns the media type for a file's extension; nil for an unsupported extension. Markdown is sent as plain text,
    /// because people can read it without conversion.
    package static func mediaType(ofFile path: String) -> String? {
        let name = path.split(separator: "/").last ?? ""
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return nil }
        return switch name[name.index(after: dot)...].lowercased() {
        case "html", "htm": PageHandlers.html
        case "md", "txt": "text/plain; charset=utf-8"
        default: nil
        }
    }
}

/// The pages in force. A reload of the settings replaces them.
package final class PublicPages: Sendable {
    private struct State {
        var contents: [PublicPageName: PublicPage]
        var pages: [PublicPageName: Page]

        init(_ contents: [PublicPageName: PublicPage]) {
            self.contents = contents
            pages = contents.mapValues { Page($0.bytes, $0.mediaType) }
        }
    }

    private let state: Mutex<State>

    package init(_ contents: [PublicPageName: PublicPage] = [:]) {
        state = Mutex(State(contents))
    }

    /// Replaces all pages. Returns the names of those that changed.
    package func replace(with contents: [PublicPageName: PublicPage]) -> [PublicPageName] {
        let replacement = State(contents)
        return state.withLock { state in
            defer { state = replacement }
            return PublicPageName.allCases.filter { state.contents[$0] != contents[$0] }
        }
    }

    func page(_ name: PublicPageName) -> Page? {
        state.withLock { $0.pages[name] }
    }
}
