/// The reason why a request is rejected: the status of the response, and a sentence for the client. The sentence never
/// contains the client's input. After a refusal, no further byte of the connection is interpreted (RFC 9112 sections
/// 2.2, 6.3 and 11.2).
package struct Refusal: Error, Hashable, Sendable {
    package var status: Status
    package var detail: String

    package init(_ status: Status, _ detail: String) {
        self.status = status
        self.detail = detail
    }
}
