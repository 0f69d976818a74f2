import Testing

/// One test at a time: several count this process's descriptors.
@Suite(.serialized) enum SocketsSuite {}
