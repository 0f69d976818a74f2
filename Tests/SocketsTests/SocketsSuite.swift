import Testing

/// The tests that run one at a time: some keep both processors busy, and others have deadlines.
@Suite(.serialized) enum SocketsSuite {}
