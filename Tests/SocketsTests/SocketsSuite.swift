import Testing

/// One test at a time: several keep both processors busy, and others have deadlines.
@Suite(.serialized) enum SocketsSuite {}
