/// Which limit a connection was over.
package enum RejectedConnection: Hashable, Sendable {
    case connectionsMax
    case connectionsPerAddressMax
}
