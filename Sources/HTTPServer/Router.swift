// Finds the route of a method and a path. Paths arrive decoded and in canonical form (HTTP1/RequestTarget.swift), so
// they are compared byte by byte. For example, "/a" and "/a/" are different paths.
//
// A template without parameters is found with one dictionary lookup. It takes precedence over templates with `{name}`
// segments.

package import HTTP1

package struct Router: Sendable {
    package enum Match: Sendable {
        case route(RegisteredRoute, parameters: [String: String])
        case notFound
        /// The path has routes, but no route for this method. `allow` is the value of the Allow field: the methods of
        /// the path.
        case methodNotAllowed(allow: String)
        /// An OPTIONS request that no handler answers, because the path is `*` or has only routes for other methods.
        /// `allow` is the value of the Allow field.
        case options(allow: String)
    }

    private struct Resource: Sendable {
        var routes: [RegisteredRoute] = []
        var allow = ""
    }

    private enum Segment: Sendable {
        case literal(Substring)
        case parameter(String)
    }

    private var literal: [String: Resource] = [:]
    private var templates: [(segments: [Segment], resource: Resource)] = []
    private var segmentsMax = 0
    /// The value of the Allow field for the path `*`: the methods that the server accepts on at least one path.
    private var allowOfServer = ""

    /// Creates a router. If several routes have the same method and template, the first of them is used. Templates with
    /// `{name}` are tried in the order in which they first appear.
    package init(_ routes: [Route]) {
        var order: [String] = []
        var resources: [String: Resource] = [:]
        for (index, route) in routes.enumerated() {
            if resources[route.template] == nil { order.append(route.template) }
            resources[route.template, default: Resource()].routes.append(RegisteredRoute(route, index: index))
        }
        for template in order {
            guard var resource = resources[template] else { continue }
            resource.allow = Router.allow(resource.routes.map(\.route))
            if template.contains("{") {
                let segments = Router.segments(template)
                segmentsMax = max(segmentsMax, segments.count)
                templates.append((segments, resource))
            } else {
                literal[template] = resource
            }
        }
        allowOfServer = Router.allow(routes)
    }

    /// Finds the route. If the path has no route for HEAD, its route for GET also answers HEAD.
    package func match(_ method: Method, _ path: String) -> Match {
        if path == "*" { return .options(allow: allowOfServer) }
        if let resource = literal[path] { return choose(resource, method, [:]) }
        if templates.isEmpty { return .notFound }
        // A path with more than `segmentsMax` segments matches no template. The split therefore stops after
        // `segmentsMax` + 1 parts.
        let parts = path.utf8.dropFirst().split(
            separator: UInt8(ascii: "/"), maxSplits: segmentsMax, omittingEmptySubsequences: false
        ).map { Substring($0) }
        for (segments, resource) in templates {
            if let parameters = Router.parameters(segments, parts) { return choose(resource, method, parameters) }
        }
        return .notFound
    }

    private func choose(_ resource: Resource, _ method: Method, _ parameters: [String: String]) -> Match {
        for placed in resource.routes where placed.route.method == method {
            return .route(placed, parameters: parameters)
        }
        if method == .head {
            for placed in resource.routes where placed.route.method == .get {
                return .route(placed, parameters: parameters)
            }
        }
        if method == .options { return .options(allow: resource.allow) }
        return .methodNotAllowed(allow: resource.allow)
    }

    private static func segments(_ template: String) -> [Segment] {
        template.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map { part in
            if part.hasPrefix("{") && part.hasSuffix("}") { return .parameter(String(part.dropFirst().dropLast())) }
            return .literal(part)
        }
    }

    /// Returns the path parameters; nil if the path does not match the template. `{name}` does not match an empty
    /// segment.
    private static func parameters(_ segments: [Segment], _ parts: [Substring]) -> [String: String]? {
        guard segments.count == parts.count else { return nil }
        var parameters: [String: String] = [:]
        for (segment, part) in zip(segments, parts) {
            switch segment {
            case .literal(let text): if text != part { return nil }
            case .parameter(let name):
                if part.isEmpty { return nil }
                parameters[name] = String(part)
            }
        }
        return parameters
    }

    /// Returns the value of the Allow field for the routes.
    static func allow(_ routes: [Route]) -> String {
        var methods: [String] = []
        for route in routes {
            if !methods.contains(route.method.rawValue) { methods.append(route.method.rawValue) }
            if route.method == .get && !methods.contains("HEAD") { methods.append("HEAD") }
        }
        if !methods.contains("OPTIONS") { methods.append("OPTIONS") }
        return methods.joined(separator: ", ")
    }
}
