// The two documents that tell Apple and Google which apps open links to this host.

import JourneyModel

/// The apps that open links to this host.
package struct AppLinks: Hashable, Sendable {
    /// A pattern of paths. `*` stands for any characters.
    package struct Path: Hashable, Sendable {
        package var pattern: String
        /// Whether links with such a path stay in the browser.
        package var isExcluded: Bool

        package init(pattern: String, isExcluded: Bool) {
            (self.pattern, self.isExcluded) = (pattern, isExcluded)
        }
    }

    package struct AndroidApp: Hashable, Sendable {
        package var packageName: String
        /// SHA-256 of each certificate that signs the app: 32 pairs of upper-case hexadecimal digits, joined by colons.
        package var fingerprints: [String]

        package init(packageName: String, fingerprints: [String]) {
            (self.packageName, self.fingerprints) = (packageName, fingerprints)
        }
    }

    /// The ids of the Apple apps: team id, a dot, bundle id. If empty, there is no document for Apple.
    package var appIDs: [String]
    /// The patterns, in the order in which Apple tries them. The first pattern that matches decides.
    package var paths: [Path]
    /// If empty, there is no document for Google.
    package var androidApps: [AndroidApp]

    package init(appIDs: [String] = [], paths: [Path] = [], androidApps: [AndroidApp] = []) {
        (self.appIDs, self.paths, self.androidApps) = (appIDs, paths, androidApps)
    }

    package static let applePath = "/.well-known/apple-app-site-association"
    package static let androidPath = "/.well-known/assetlinks.json"

    /// The largest document that Apple reads, in bytes (128 KiB).
    package static let documentBytesMax = 131_072

    /// The relation in Google's document that allows an Android app to open links.
    package static let androidRelation = "delegate_permission/common.handle_all_urls"

    /// The body of GET /.well-known/apple-app-site-association; nil without an app.
    var appleDocument: [UInt8]? {
        guard !appIDs.isEmpty else { return nil }
        var json = JSONWriter()
        json.beginObject()
        json.name("applinks")
        json.beginObject()
        json.name("details")
        json.beginArray()
        json.beginObject()
        json.name("appIDs")
        json.beginArray()
        for appID in appIDs { json.string(appID) }
        json.endArray()
        json.name("components")
        json.beginArray()
        for path in paths {
            json.beginObject()
            json.name("/")
            json.string(path.pattern)
            if path.isExcluded {
                json.name("exclude")
                json.bool(true)
            }
            json.endObject()
        }
        json.endArray()
        json.endObject()
        json.endArray()
        json.endObject()
        json.endObject()
        return json.bytes
    }

    /// The body of GET /.well-known/assetlinks.json; nil without an app.
    var androidDocument: [UInt8]? {
        guard !androidApps.isEmpty else { return nil }
        var json = JSONWriter()
        json.beginArray()
        for app in androidApps {
            json.beginObject()
            json.name("relation")
            json.beginArray()
            json.string(Self.androidRelation)
            json.endArray()
            json.name("target")
            json.beginObject()
            json.name("namespace")
            json.string("android_app")
            json.name("package_name")
            json.string(app.packageName)
            json.name("sha256_cert_fingerprints")
            json.beginArray()
            for fingerprint in app.fingerprints { json.string(fingerprint) }
            json.endArray()
            json.endObject()
            json.endObject()
        }
        json.endArray()
        return json.bytes
    }
}
