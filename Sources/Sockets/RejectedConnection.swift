/// The limit that a connection exceeds.
package enum RejectedConnection: Hashable, Sendable {
    case connectionsMax
    case connectionsPerAddressMax
}
