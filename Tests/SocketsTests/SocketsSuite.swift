import Testing

/// These tests run one at a time. Some keep several processors busy, and others have deadlines.
@Suite(.serialized) enum SocketsSuite {}
