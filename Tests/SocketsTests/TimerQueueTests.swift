// Compares the heap of timers with a list that is searched from the start. The numbers are random with a fixed seed.

import Testing

@testable import Sockets

extension SocketsSuite {
    @Suite struct TimerQueueTests {
        struct Random {
            var state: UInt64
            mutating func below(_ bound: Int) -> Int {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return Int((state >> 33) % UInt64(bound))
            }
        }

        @Test(arguments: 1...50) func `fires what a search of a list would fire`(seed: Int) {
            var random = Random(state: UInt64(seed))
            var queue = TimerQueue()
            let timers = (0..<20).map { _ in LoopTimer {} }
            var wanted = [Int?](repeating: nil, count: timers.count)
            var now = 0
            for _ in 0..<500 {
                let which = random.below(timers.count)
                switch random.below(5) {
                case 0, 1:
                    let moment = now + 1 + random.below(100)
                    wanted[which] = moment
                    queue.start(timers[which], Deadline(nanoseconds: UInt64(moment)))
                case 2:
                    wanted[which] = nil
                    queue.stop(timers[which])
                case 3:
                    wanted[which] = nil
                    queue.remove(timers[which])
                default:
                    now += random.below(30)
                    var fired: Set<Int> = []
                    while let timer = queue.takeDue(Deadline(nanoseconds: UInt64(now))) {
                        for (index, candidate) in timers.enumerated() where candidate === timer { fired.insert(index) }
                    }
                    let due = Set(wanted.indices.filter { (wanted[$0] ?? .max) <= now })
                    #expect(fired == due, "seed \(seed) at \(now)")
                    for index in due { wanted[index] = nil }
                }
                let next = wanted.compactMap(\.self).min().map { UInt64($0) } ?? .max
                #expect(queue.earliest.nanoseconds <= next, "seed \(seed) at \(now): would be looked at too late")
                #expect(queue.count <= timers.count)
            }
        }

        @Test func `moving a timer later a thousand times keeps one place in the heap`() {
            var queue = TimerQueue()
            let timer = LoopTimer {}
            for moment in 1...1000 { queue.start(timer, Deadline(nanoseconds: UInt64(moment))) }
            #expect(queue.count == 1)
            #expect(queue.takeDue(Deadline(nanoseconds: 999)) == nil)
            #expect(queue.takeDue(Deadline(nanoseconds: 1000)) === timer)
            #expect(queue.count == 0)
        }
    }
}
