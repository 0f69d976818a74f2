// The timers of a loop, as a binary heap. A timer is in the heap at most once, and stores its index in the heap.
//
// A keep-alive connection postpones its timer with every request. To make this cheap, postponing or stopping a timer
// does not change the heap. The timer's position is corrected when it reaches the top.
//
// The queue does not read the clock; callers pass `now`.

/// One timer. Safe to share: all its state is touched only on its loop.
final class LoopTimer: @unchecked Sendable {
    fileprivate var index = -1
    /// The timer's key in the heap, in nanoseconds. It is never later than `deadline`, so that the timer reaches the
    /// top in time.
    fileprivate var key = UInt64.max
    fileprivate(set) var deadline = Deadline.never
    let fire: () -> Void

    init(fire: @escaping () -> Void) {
        self.fire = fire
    }
}

struct TimerQueue {
    private var heap: [LoopTimer] = []

    var count: Int { heap.count }

    /// The time at which `takeDue` must be called; `.never` if there is no timer. It may be too early, because a
    /// postponed or stopped timer keeps its old key.
    var earliest: Deadline {
        heap.isEmpty ? .never : Deadline(nanoseconds: heap[0].key)
    }

    mutating func start(_ timer: LoopTimer, _ deadline: Deadline) {
        timer.deadline = deadline
        if timer.index < 0 {
            if deadline == .never { return }
            timer.key = deadline.nanoseconds
            timer.index = heap.count
            heap.append(timer)
            siftUp(timer.index)
        } else if deadline.nanoseconds < timer.key {
            timer.key = deadline.nanoseconds
            siftUp(timer.index)
        }
    }

    /// Stops the timer. It stays in the heap until it reaches the top, but does not fire.
    func stop(_ timer: LoopTimer) {
        timer.deadline = .never
    }

    /// Removes the timer from the heap at once. For an owner that does not need the timer any more.
    mutating func remove(_ timer: LoopTimer) {
        timer.deadline = .never
        let index = timer.index
        if index < 0 { return }
        timer.index = -1
        let last = heap.removeLast()
        if last === timer { return }
        heap[index] = last
        last.index = index
        siftUp(index)
        siftDown(last.index)
    }

    mutating func takeDue(_ now: Deadline) -> LoopTimer? {
        while let first = heap.first, first.key <= now.nanoseconds {
            if first.deadline == .never {
                remove(first)
            } else if first.deadline > now {
                first.key = first.deadline.nanoseconds
                siftDown(0)
            } else {
                remove(first)
                return first
            }
        }
        return nil
    }

    private mutating func siftUp(_ start: Int) {
        var index = start
        while index > 0 {
            let parent = (index - 1) / 2
            if heap[parent].key <= heap[index].key { return }
            exchange(index, parent)
            index = parent
        }
    }

    private mutating func siftDown(_ start: Int) {
        var index = start
        while true {
            let left = 2 * index + 1
            if left >= heap.count { return }
            let right = left + 1
            let child = right < heap.count && heap[right].key < heap[left].key ? right : left
            if heap[index].key <= heap[child].key { return }
            exchange(index, child)
            index = child
        }
    }

    private mutating func exchange(_ one: Int, _ other: Int) {
        heap.swapAt(one, other)
        heap[one].index = one
        heap[other].index = other
    }
}
