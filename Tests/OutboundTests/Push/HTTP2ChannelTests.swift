// Tests how a channel ends unanswered requests: at the time limit, on cancellation, on shutdown, and when there are too
// many of them. The server accepts connections but never answers the TLS handshake. push_transport.py tests the channel
// against a real HTTP/2 server.

import Foundation
import Testing

@testable import Outbound

@Suite(.timeLimit(.minutes(1))) struct HTTP2ChannelTests {
    private let request = HTTP2Request(path: "/", fields: [("a", "b")], body: Array("{}".utf8))

    private func outcome(_ channel: HTTP2Channel) async -> OutgoingFailure? {
        do throws(OutgoingFailure) {
            _ = try await channel.send(request)
            return nil
        } catch {
            return error
        }
    }

    private func withSilence(
        _ limits: HTTP2Channel.Limits, _ body: (HTTP2Channel) async throws -> Void
    ) async throws {
        try await LoopbackServer.with(.always(.stall())) { _, url, _ in
            let origin = try #require(URL(string: "https://127.0.0.1:\(url.port ?? 0)"))
            let channel = HTTP2Channel(origin: origin, authorityFile: nil, limits: limits)
            try await body(channel)
            channel.close()
        }
    }

    @Test func everyRequestEndsByItsTimeLimit() async throws {
        try await withSilence(HTTP2Channel.Limits(timeoutMilliseconds: 300)) { channel in
            // After the timeouts of the first round, the channel replaces its libcurl handle. The second round tests
            // the new handle.
            for _ in 0..<2 {
                let outcomes = await withTaskGroup(of: OutgoingFailure?.self) { group in
                    for _ in 0..<50 { group.addTask { await outcome(channel) } }
                    return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
                }
                #expect(outcomes == [.timedOut: 50])
            }
            #expect(channel.status.openStreams == 0 && channel.status.waiting == 0)
        }
    }

    @Test func aCallerWhoIsCancelledDoesNotWait() async throws {
        try await withSilence(HTTP2Channel.Limits()) { channel in
            let task = Task { await outcome(channel) }
            while channel.status.openStreams == 0 { try await Task.sleep(for: .milliseconds(5)) }
            task.cancel()
            #expect(await task.value == .cancelled)
            // The channel ends the stream when it next checks for cancelled callers.
            while channel.status.openStreams > 0 { try await Task.sleep(for: .milliseconds(5)) }
        }
    }

    @Test func closingEndsWhatIsInProgressAndWhatWaits() async throws {
        try await withSilence(HTTP2Channel.Limits()) { channel in
            await withTaskGroup(of: OutgoingFailure?.self) { group in
                for _ in 0..<20 { group.addTask { await outcome(channel) } }
                while channel.status.openStreams + channel.status.waiting < 20 { await Task.yield() }
                channel.close()
                for await failure in group { #expect(failure == .cancelled) }
            }
            #expect(await outcome(channel) == .cancelled)
        }
    }

    @Test func tooManyRequestsAreRefusedAtOnce() async throws {
        try await withSilence(HTTP2Channel.Limits(streamsMax: 2, waitingMax: 3)) { channel in
            let task = Task {
                await withTaskGroup(of: OutgoingFailure?.self) { group in
                    for _ in 0..<8 { group.addTask { await outcome(channel) } }
                    return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
                }
            }
            while channel.status.openStreams + channel.status.waiting < 5 { await Task.yield() }
            #expect(await outcome(channel) == .busy)
            channel.close()
            #expect(await task.value == [.cancelled: 5, .busy: 3])
        }
    }

    @Test func nobodyThere() async throws {
        let url = try await deadURL()
        let origin = try #require(URL(string: "https://127.0.0.1:\(url.port ?? 0)/"))
        let channel = HTTP2Channel(origin: origin, authorityFile: nil)
        for _ in 0..<3 { #expect(await outcome(channel) == .unreachable) }
        channel.close()
    }

    @Test(.enabled(if: UntrustedServer.isPossible)) func aCertificateThatIsNotTrusted() async throws {
        let server = try UntrustedServer()
        defer { server.stop() }
        let channel = HTTP2Channel(origin: server.url, authorityFile: nil)
        #expect(await outcome(channel) == .notTrusted)
        channel.close()
    }
}
