// Runs a ServerConnection in a minimal server until the input ends. After every step, the promises of ServerConnection
// are checked. The recorded events and responses do not depend on how the input was split.

import HTTP1

struct Conversation: ~Copyable {
    enum Said: Equatable {
        case head(RequestHead)
        case content([UInt8])
        case end(Fields)
        case refused(Refusal)
        case truncated
        case endOfStream
    }

    private(set) var said: [Said] = []
    private(set) var output: [UInt8] = []
    /// The responses that `output` must contain, in order.
    private(set) var answers: [ExpectedResponse] = []
    /// The offset in the input and the number of elements in `said` when the first request ended.
    private(set) var firstEnd: (offset: Int, saidCount: Int)?

    private var connection: ServerConnection
    private let plan: Plan
    private let checksHeads: Bool
    private var head: RequestHead?
    private var content: [UInt8] = []
    private var mustClose = false
    /// The phase in which the last wait for bytes began.
    private var waitedIn = ServerConnection.Phase.idle
    private var eventsLeft: Int
    private var deliveredBytes = 0

    init(_ pieces: [ArraySlice<UInt8>], _ plan: Plan, checksHeads: Bool = true) throws(Finding) {
        connection = ServerConnection(limits: plan.limits)
        self.plan = plan
        self.checksHeads = checksHeads
        eventsLeft = 16
        for piece in pieces {
            // Limit the number of events, to find a connection that reports events without end. Each byte may cause at
            // most three events: it may end a head, be content, and end the content.
            eventsLeft += 3 * piece.count + 3
            deliveredBytes += piece.count
            piece.withUnsafeBytes { connection.receive($0) }
            try play()
        }
        connection.receiveEndOfStream()
        try play()
        try checkClosed()
    }

    private mutating func play() throws(Finding) {
        while try !step() {}
    }

    /// Handles one event. Returns true if there are no more events before more bytes arrive.
    private mutating func step() throws(Finding) -> Bool {
        eventsLeft -= 1
        try require(eventsLeft > 0, "Events without end.")
        let event = connection.nextEvent()
        try require(connection.mustClose || !mustClose, "mustClose turned back.")
        mustClose = connection.mustClose
        switch event {
        case .needMoreData:
            try checkWaiting()
            return true
        case .head(let head):
            try begin(head)
        case .body(let bytes):
            try take(bytes)
        case .end(let trailers):
            try end(trailers)
        case .refused(let refusal):
            try refuse(refusal)
        case .responseDue:
            throw Finding("An answer is due that was given.")
        case .endOfStream, .truncated:
            try require((event == .endOfStream) == (waitedIn == .idle), "\(event) after waiting in \(waitedIn).")
            said.append(event == .truncated ? .truncated : .endOfStream)
            return true
        case .closed:
            return true
        }
        return false
    }

    // MARK: The request

    private mutating func begin(_ head: RequestHead) throws(Finding) {
        try require(self.head == nil, "A head before the request in front of it was complete.")
        try require(connection.mustClose || head.keepAlive, "The client asked for close in vain.")
        if checksHeads { try HeadPromises(head, plan.limits).check() }
        self.head = head
        content = []
        said.append(.head(head))
        if let bodyBytesMax = plan.bodyBytesMax { connection.limitBody(toBytes: bodyBytesMax) }
        if plan.answer == .early { try answer(head) }
    }

    private mutating func take(_ bytes: [UInt8]) throws(Finding) {
        guard let head else { throw Finding("Content without a head.") }
        try require(!bytes.isEmpty, "Empty content.")
        content += bytes
        if case .content(let before) = said.last {
            said[said.count - 1] = .content(before + bytes)
        } else {
            said.append(.content(bytes))
        }
        try require(content.count <= plan.contentBytesMax, "More content than the limit.")
        switch head.framing {
        case .none: throw Finding("Content of a request that has none.")
        case .length(let length):
            try require(length <= plan.contentBytesMax, "Content handed out although its length is over the limit.")
            try require(content.count <= length, "More content than Content-Length.")
        case .chunked: break
        }
    }

    private mutating func end(_ trailers: Fields) throws(Finding) {
        guard let head else { throw Finding("An end without a head.") }
        if case .length(let length) = head.framing {
            try require(content.count == length, "Less content than Content-Length.")
        }
        try require(head.framing == .chunked || trailers.isEmpty, "Trailers without chunks.")
        try require(trailers.count <= plan.limits.trailerCountMax, "More trailers than the limit.")
        said.append(.end(trailers))
        if firstEnd == nil { firstEnd = (deliveredBytes - connection.bufferedBytes, said.count) }
        try require(connection.nextEvent() == .responseDue, "No answer is due after the end.")
        try require(connection.phase == .response, "The phase after the end is not response.")
        try answer(head)
    }

    private mutating func refuse(_ refusal: Refusal) throws(Finding) {
        try require((400...599).contains(refusal.status.code), "A refusal with \(refusal.status.code).")
        try require(connection.mustClose && connection.bufferedBytes == 0, "A refusal leaves something to read.")
        if case .length(let length) = head?.framing, length > plan.contentBytesMax {
            try require(refusal.status == .contentTooLarge && content.isEmpty, "Content over the limit is not 413.")
        }
        said.append(.refused(refusal))
        let isEncoded = connection.encode(status: refusal.status, dateText: "", into: &output)
        try require(isEncoded, "A refusal that cannot be answered.")
        answers.append(ExpectedResponse(status: refusal.status.code))
        head = nil
        try require(connection.nextEvent() == .closed, "Something follows a refusal.")
    }

    // MARK: The answer

    private mutating func answer(_ head: RequestHead) throws(Finding) {
        let answer = plan.echoes ? ServerAnswer(echoing: head, content) : ServerAnswer()
        answers.append(answer.expected(byHead: head.method == .head))
        try require(encode(answer), "An answer that was due is not encoded.")
        if plan.answer == .last || plan.answer == .early {
            try require(connection.mustClose, "An answer that ends the connection does not.")
        }
        mustClose = connection.mustClose
        self.head = nil
        // Check that a second response to the request is not encoded. Skip this check if the connection stays open,
        // because a second response could belong to the next request.
        guard mustClose else { return }
        let length = output.count
        let isRepeated = connection.encode(status: .ok, dateText: "", into: &output)
        try require(!isRepeated && output.count == length, "A second answer is encoded.")
    }

    private mutating func encode(_ answer: ServerAnswer) -> Bool {
        guard plan.answer == .streamed else {
            return connection.encode(
                status: answer.status, fields: answer.fields, body: answer.content, dateText: "",
                close: plan.answer == .last, into: &output)
        }
        return connection.encodeHead(status: answer.status, fields: answer.fields, dateText: "", into: &output)
            && connection.encodeChunk(Array(answer.content.prefix(1)), into: &output)
            && connection.encodeChunk([], into: &output)
            && connection.encodeChunk(Array(answer.content.dropFirst()), into: &output)
            && connection.encodeEnd(into: &output)
    }

    // MARK: Between the steps

    private mutating func checkWaiting() throws(Finding) {
        try require(connection.bufferedBytes <= plan.bufferedBytesMax, "More bytes wait than the longest line has.")
        waitedIn = connection.phase
        switch waitedIn {
        case .idle: try require(head == nil && connection.bufferedBytes == 0, "Idle in the middle of a request.")
        case .head: try require(head == nil, "Reading a head while a request is in hand.")
        case .content: try require(head != nil, "Reading content without a head.")
        case .response, .closed: throw Finding("More data is wanted in \(waitedIn).")
        }
        let isDue = connection.isContinueDue
        if isDue {
            try require(head?.expectsContinue == true && content.isEmpty, "100 is due that nobody waits for.")
        }
        guard plan.continues else { return }
        let length = output.count
        try require(connection.encodeContinue(into: &output) == isDue, "100 is due and is not encoded.")
        try require(isDue || output.count == length, "100 is encoded and not due.")
        try require(!connection.isContinueDue, "100 is due twice.")
    }

    private mutating func checkClosed() throws(Finding) {
        let length = output.count
        connection.receive([0x47, 0x45, 0x54])
        try require(connection.nextEvent() == .closed, "A closed connection goes on.")
        try require(connection.bufferedBytes == 0 && connection.phase == .closed, "A closed connection keeps bytes.")
        let isEncoded = connection.encode(status: .ok, dateText: "", into: &output)
        try require(!isEncoded && output.count == length, "A closed connection is written to.")
    }
}
