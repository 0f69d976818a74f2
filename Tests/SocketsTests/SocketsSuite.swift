import Testing

/// These tests run one at a time, because some keep several processors busy and others have deadlines.
@Suite(.serialized) enum SocketsSuite {}
