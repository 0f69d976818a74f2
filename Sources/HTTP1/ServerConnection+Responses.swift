// The sending side of a ServerConnection. If a part of a response may not be sent now, its encoding function appends
// nothing and returns false.

extension ServerConnection {
    /// Encodes 100 (Continue) if it is due (`isContinueDue`).
    @discardableResult
    package mutating func encodeContinue(into output: inout [UInt8]) -> Bool {
        guard takeContinue() else { return false }
        ResponseEncoder.appendContinue(into: &output)
        return true
    }

    /// Encodes a whole response. With the status 204, 205 or 304, `body` is ignored. With any other status, a response
    /// to HEAD omits `body` but states its length in Content-Length.
    ///
    /// A status outside 200 to 599 is sent as 500. `dateText` is an IMF-fixdate (RFC 9110 section 5.6.7), or empty for
    /// a server without a clock. `requestID` must consist of valid field value bytes, or be empty.
    @discardableResult
    package mutating func encode(
        status: Status, fields: Fields = Fields(), body: [UInt8] = [], dateText: String, requestID: String = "",
        close: Bool = false, into output: inout [UInt8]
    ) -> Bool {
        let framing: ResponseFraming = status.forbidsContent ? .noContent : .length(status.body(body).count)
        guard encodeHead(status, fields, dateText, requestID, close, framing, into: &output) else { return false }
        if framing != .noContent, !answersHead { output.append(contentsOf: status.body(body)) }
        finishAnswer()
        return true
    }

    /// Encodes the head of a response of unknown length. Afterwards, call `encodeChunk` for the content and finally
    /// `encodeEnd`. To abort the response, close the connection without `encodeEnd`.
    ///
    /// An HTTP/1.0 client gets the content without framing, and the end of the connection ends the content (RFC 9112
    /// section 6.1).
    @discardableResult
    package mutating func encodeHead(
        status: Status, fields: Fields = Fields(), dateText: String, requestID: String = "", close: Bool = false,
        into output: inout [UInt8]
    ) -> Bool {
        let framing: ResponseFraming =
            status.forbidsContent || answersHead
            ? .noContent : status.isEmptyByLength ? .length(0) : minorVersion >= 1 ? .chunked : .untilClose
        return encodeHead(status, fields, dateText, requestID, close, framing, into: &output)
    }

    /// Encodes the next bytes of a streamed response. Appends nothing if the response has no content. Also appends
    /// nothing if `content` is empty, because an empty chunk would end the response.
    @discardableResult
    package mutating func encodeChunk(_ content: [UInt8], into output: inout [UInt8]) -> Bool {
        guard case .streaming(let framing) = answering else { return false }
        switch framing {
        case .chunked where !content.isEmpty: ResponseEncoder.appendChunk(content, into: &output)
        case .untilClose: output.append(contentsOf: content)
        default: break
        }
        return true
    }

    /// Ends a streamed response.
    @discardableResult
    package mutating func encodeEnd(into output: inout [UInt8]) -> Bool {
        guard case .streaming(let framing) = answering else { return false }
        if framing == .chunked { ResponseEncoder.appendLastChunk(into: &output) }
        finishAnswer()
        return true
    }

    private mutating func encodeHead(
        _ status: Status, _ fields: Fields, _ dateText: String, _ requestID: String, _ close: Bool,
        _ framing: ResponseFraming, into output: inout [UInt8]
    ) -> Bool {
        guard beginAnswer(close: close, framing: framing) else { return false }
        // RFC 9112 section 9.3: HTTP/1.1 connections persist by default, HTTP/1.0 connections only with keep-alive.
        let connection: StaticString? = mustClose ? "close" : minorVersion == 0 ? "keep-alive" : nil
        ResponseEncoder.appendHead(
            status: status.final, fields: fields, dateText: dateText, requestID: requestID, framing: framing,
            connection: connection, into: &output)
        return true
    }
}

extension Status {
    /// This status if it is final (200 to 599), otherwise 500.
    var final: Status { (200...599).contains(code) ? self : .internalServerError }

    /// Whether the response must have no content. It then ends with the empty line after the fields (RFC 9110 sections
    /// 15.3.5 and 15.4.5).
    var forbidsContent: Bool { code == 204 || code == 304 }

    /// Whether the response has no content, but must state the length 0. True only for 205 (RFC 9110 section 15.3.6).
    var isEmptyByLength: Bool { code == 205 }

    func body(_ body: [UInt8]) -> [UInt8] { isEmptyByLength ? [] : body }
}
