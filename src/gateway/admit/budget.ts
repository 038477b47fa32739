import type { MonotonicClock } from '../../kernel/clock.ts'
import { every } from '../../kernel/every.ts'
import type { PlanId } from '../../kernel/ids.ts'
import type { Denied } from '../gateway-ports.ts'
import { databaseUnavailable, trafficExhausted } from '../refusals.ts'

/** The capacity of a bucket is its speed times this time, milliseconds. No burst is longer. */
const bucketMs = 100

/** A token bucket in bytes. `bytesPerSecond` may change while it runs. */
export const createBucket = (monotonicMs: MonotonicClock, bytesPerSecond: number) => {
  let speed = bytesPerSecond
  let tokens = (speed * bucketMs) / 1000
  let filledAtMs = monotonicMs()
  const fill = (): number => {
    const nowMs = monotonicMs()
    tokens = Math.min((speed * bucketMs) / 1000, tokens + ((nowMs - filledAtMs) * speed) / 1000)
    filledAtMs = nowMs
    return Math.floor(tokens)
  }
  return {
    /** Bytes that can be taken at once. */
    available: fill,
    /**
     * The part of `wanted` that is worth a wait, bytes. More does not fit into the bucket; less makes many small
     * pieces.
     */
    worthwhile: (wanted: number): number =>
      Math.max(1, Math.min(wanted, Math.floor((speed * bucketMs) / 2_000))),
    take: (wanted: number): number => {
      const bytes = Math.max(0, Math.min(wanted, fill()))
      tokens -= bytes
      return bytes
    },
    giveBack: (bytes: number): void => {
      tokens += bytes
    },
    setSpeed: (next: number): void => {
      fill()
      speed = next
    },
  }
}

export type Bucket = ReturnType<typeof createBucket>

/** Consumed bytes of one budget since the last report. */
type UnreportedBytes = {
  /** Negative for bytes that are given back. */
  add(bytes: number): void
  /** The new bytes, never negative. Bytes that are given back after their report reduce later reports. */
  report(): number
  /** Bytes that were reported and then given back. They are already charged, so they need no lease. */
  prepaid(): number
  /** Drops all bytes that are not reported. */
  clear(): void
}

const createUnreportedBytes = (): UnreportedBytes => {
  let unreportedBytes = 0
  return {
    add: (bytes) => {
      unreportedBytes += bytes
    },
    report: () => {
      const bytes = Math.max(0, unreportedBytes)
      unreportedBytes -= bytes
      return bytes
    },
    prepaid: () => Math.max(0, -unreportedBytes),
    clear: () => {
      unreportedBytes = 0
    },
  }
}

/** The lease that a process requests for one budget; bytes. */
export type LeaseRequest = {
  /** `keyOf` its terms. */
  readonly key: string
  /**
   * Leased earlier, and neither consumed nor given back. The lease still covers these bytes. For a time-based plan: 1
   * while this process passes its traffic, else 0.
   */
  readonly reserved: number
  /** Additional bytes; -1 ends the lease, with `reserved` 0. */
  readonly requested: number
}

export type LeaseAnswer = {
  /** At most `requested`. */
  readonly granted: number
  /** Bytes of the budget that no process had leased before this grant; null for a time-based plan. */
  readonly free: number | null
  /** Bytes leased to other processes. For a time-based plan: the number of other processes that pass its traffic. */
  readonly elsewhere: number
  /** Leases must be given back, because a refund is about to be decided. */
  readonly paused: boolean
}

/** A process consumes a lease up to this long after it was requested, milliseconds. It renews twice a second. */
const leaseValidMs = 30_000

/** The terms of a plan that its budget depends on. */
export type PlanTerms = {
  readonly planId: PlanId
  /** The speed of a time-based plan; null: the plan is charged by traffic. */
  readonly bytesPerSecond: number | null
}

/** The terms of one period of a traffic budget. */
export type PeriodTerms = {
  readonly budgetId: string
  /** The start of the period or a later reset, milliseconds since the epoch. */
  readonly countedFromMs: number
  readonly limitBytes: number
  /** The refusal when the limit is reached, at this moment. */
  readonly reached: () => Denied
}

export type BudgetTerms = PlanTerms | PeriodTerms

export const isPlan = (terms: BudgetTerms): terms is PlanTerms => 'planId' in terms

export const keyOf = (terms: BudgetTerms): string =>
  isPlan(terms) ? terms.planId : `${terms.budgetId} ${terms.countedFromMs}`

const minSlab = 256 * 1024
const maxSlab = 32 * 1024 * 1024

/**
 * A plan without tunnels reserves its slab this long for the next tunnel, milliseconds, unless it is nearly used up.
 */
const idleMs = 5_000
const nearlyUsedUp = 16 * 1024 * 1024

/** A tunnel without traffic waits this long for a lease, milliseconds, before it gets `databaseUnavailable`. */
const maxWaitMs = 10_000

/** Time-based plans: a process counts as active for this long after its last byte, milliseconds. */
const activeMs = 2_000

/** How often waiters for the speed are served, milliseconds. */
const refillMs = 10

/**
 * Up to this many bytes (one Ethernet frame) skip the queue for the speed, so that datagrams and keystrokes do not wait
 * behind downloads.
 */
const promptBytes = 1_500

type Waiter = {
  readonly wanted: number
  readonly least: number
  readonly settle: (denied: Denied | null) => void
  readonly untilMs: number
}

/**
 * The bytes of one plan, or of one period of a traffic budget, that this process may consume, for all of its tunnels.
 * `take` is synchronous because it runs for every chunk. Leases are renewed separately.
 *
 * The stored lease always covers the rest of the slab and the consumed bytes that are not reported. So no other process
 * consumes the same bytes, even if this process crashes.
 */
export class Budget {
  /** The limit of a traffic budget can change. */
  #terms: BudgetTerms
  readonly #monotonicMs: MonotonicClock
  readonly #requestLease: () => void
  readonly #unreported = createUnreportedBytes()
  readonly #bucket: Bucket | null
  readonly #bytesPerSecond: number | null
  readonly #ended = new AbortController()
  #slab = 0
  /** Bytes consumed since the last renewal. The size of the next slab depends on it. */
  #recentBytes = 0
  /** The time of the last byte of a time-based plan. */
  #usedAtMs = Number.NEGATIVE_INFINITY
  #validUntilMs = Number.NEGATIVE_INFINITY
  #unleasedBytes = Number.POSITIVE_INFINITY
  #lease = 0
  #isPaused = false
  /** The limit was lowered after the last snapshot, so the lease that it requests is under the former limit. */
  #isLowered = false
  #denied: Denied | null = null
  #deniedAtMs = 0
  #tunnels = 0
  /** Tunnels that have bytes here and wait for another budget. */
  #retaining = 0
  #idleSinceMs: number
  /** In order of arrival, which is the order of service. */
  #waiters: Waiter[] = []
  /** Bytes reserved for waiters of the speed that were resumed and have not taken them. */
  #reservedForWaiters = 0
  /** Stops the refill timer. */
  #stopRefilling: (() => void) | null = null
  #isClosing = false

  /** @param dependencies `requestLease` requests a lease before the next regular round */
  constructor(
    terms: BudgetTerms,
    dependencies: { readonly monotonicMs: MonotonicClock; readonly requestLease: () => void },
  ) {
    this.#terms = terms
    const bytesPerSecond = isPlan(terms) ? terms.bytesPerSecond : null
    this.#monotonicMs = dependencies.monotonicMs
    this.#requestLease = dependencies.requestLease
    this.#bytesPerSecond = bytesPerSecond
    this.#bucket = bytesPerSecond === null ? null : createBucket(dependencies.monotonicMs, bytesPerSecond)
    this.#idleSinceMs = dependencies.monotonicMs()
  }

  get terms(): BudgetTerms {
    return this.#terms
  }

  /** Changes the limit. Below the former one, bytes that were leased under it are returned. */
  setLimit(terms: PeriodTerms): void {
    const isLower = !isPlan(this.#terms) && terms.limitBytes < this.#terms.limitBytes
    this.#terms = terms
    if (!isLower) return
    this.#isLowered = true
    this.#slab = Math.min(this.#slab, this.#unreported.prepaid())
    this.#requestLease()
  }

  /** Aborted with a `Denied` as its reason when no more traffic may pass. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** Why no more traffic may pass, and since how many milliseconds; null: traffic may pass. */
  denial(): { readonly denied: Denied; readonly forMs: number } | null {
    return this.#denied && { denied: this.#denied, forMs: this.#monotonicMs() - this.#deniedAtMs }
  }

  /** The number of the lease. It increases each time a lease is lost. */
  get lease(): number {
    return this.#lease
  }

  openTunnel(): void {
    this.#tunnels += 1
  }

  /** No tunnel is open on this budget. */
  hasNoTunnels(): boolean {
    return this.#tunnels === 0
  }

  closeTunnel(): void {
    this.#tunnels -= 1
    this.#idleSinceMs = this.#monotonicMs()
  }

  #isLeaseValid(): boolean {
    return this.#monotonicMs() < this.#validUntilMs
  }

  #available(): number {
    if (this.#denied || !this.#isLeaseValid()) return 0
    return this.#bucket ? this.#bucket.available() : this.#slab
  }

  /** Bytes available now. While others wait for the speed, larger amounts queue behind them. */
  #takeable(wanted: number): number {
    const available = this.#available()
    const mustQueue = this.#bucket !== null && this.#waiters.length > 0 && wanted > promptBytes
    return mustQueue ? Math.min(available, this.#reservedForWaiters) : available
  }

  take(wanted: number): number {
    const bytes = Math.min(wanted, this.#takeable(wanted))
    if (bytes <= 0) return 0
    if (this.#bucket) {
      this.#reservedForWaiters = Math.max(0, this.#reservedForWaiters - bytes)
      this.#bucket.take(bytes)
      this.#usedAtMs = this.#monotonicMs()
    } else {
      const slabBefore = this.#slab
      this.#slab -= bytes
      this.#recentBytes += bytes
      if (slabBefore >= this.#targetSlab() / 2 && this.#slab < this.#targetSlab() / 2) this.#requestLease()
    }
    this.#unreported.add(bytes)
    return bytes
  }

  /** @param bytes of those taken under this lease */
  giveBack(bytes: number): void {
    if (this.#bucket) this.#bucket.giveBack(bytes)
    else this.#slab += bytes
    this.#unreported.add(-bytes)
    this.#wakeWaiters()
  }

  /**
   * Settles with null when traffic may pass again, else with the reason of the end.
   *
   * For a time-based plan it waits until `wanted` or a worthwhile part of it is available. A bucket always has a few
   * bytes, and a caller that takes these and calls again would keep the process busy with tiny writes.
   */
  more(wanted = 1, least = 1): Promise<Denied | null> {
    if (this.#denied) return Promise.resolve(this.#denied)
    if (this.#takeable(wanted) >= (this.#bucket?.worthwhile(wanted) ?? least)) return Promise.resolve(null)
    return new Promise((settle) => {
      this.#waiters.push({ wanted, least, settle, untilMs: this.#monotonicMs() + maxWaitMs })
      if (this.#bucket) this.#refill()
      if (!this.#bucket || !this.#isLeaseValid()) this.#requestLease()
    })
  }

  /** Retains the slab for a tunnel that waits for another budget. @returns a function that ends it; call it once */
  retain(): () => void {
    this.#retaining += 1
    return () => {
      this.#retaining -= 1
    }
  }

  /** Whether a tunnel waits for a lease. */
  isStarving(): boolean {
    return this.#waiters.length > 0 && !(this.#bucket && this.#isLeaseValid())
  }

  #refill(): void {
    this.#stopRefilling ??= every(refillMs, () => {
      // Bytes reserved in the last interval and not taken are free again.
      this.#reservedForWaiters = 0
      this.#wakeWaiters()
      if (this.#waiters.length > 0) return
      this.#stopRefilling?.()
      this.#stopRefilling = null
    })
  }

  #wakeWaiters(): void {
    if (this.#waiters.length === 0) return
    if (this.#bucket) this.#serveWaiters(this.#bucket)
    else this.#settleWaiters(({ least }) => least <= this.#available(), null)
  }

  /** Resumes waiters for the speed in order, as many as the available bytes suffice for. */
  #serveWaiters(bucket: Bucket): void {
    const availableBytes = this.#available()
    let served = 0
    for (const { wanted } of this.#waiters) {
      const worthwhileBytes = bucket.worthwhile(wanted)
      if (this.#reservedForWaiters + worthwhileBytes > availableBytes) break
      this.#reservedForWaiters += worthwhileBytes
      served += 1
    }
    for (const { settle } of this.#waiters.splice(0, served)) settle(null)
  }

  #settleWaiters(matches: (waiter: Waiter) => boolean, denied: Denied | null): void {
    const settled = this.#waiters.filter(matches)
    if (settled.length === 0) return
    this.#waiters = this.#waiters.filter((waiter) => !matches(waiter))
    for (const { settle } of settled) settle(denied)
  }

  #targetSlab(): number {
    return Math.min(maxSlab, Math.max(minSlab, this.#recentBytes * 2))
  }

  /**
   * The bytes to report and the lease to request, taken in one step so that they are consistent. Bytes that are no
   * longer needed are removed from the slab here, before other processes may lease them.
   */
  snapshot(): { readonly consumedBytes: number; readonly request: LeaseRequest; readonly isUnused: boolean } {
    this.#isLowered = false
    const isIdle = this.#tunnels === 0
    const idleForMs = this.#monotonicMs() - this.#idleSinceMs
    const isUnused =
      isIdle &&
      (this.#isClosing || idleForMs > idleMs || this.#unleasedBytes < nearlyUsedUp || this.#denied !== null)
    const isDormant = this.#isDormant()
    if (isUnused || isDormant || this.#isPaused) this.#slab = Math.min(this.#slab, this.#unreported.prepaid())
    const consumedBytes = this.#unreported.report()
    const reserved = this.#bucket
      ? this.#activeFlag(isUnused)
      : Math.max(0, this.#slab - this.#unreported.prepaid())
    const requested = isIdle || isDormant || this.#isPaused ? 0 : Math.max(0, this.#targetSlab() - this.#slab)
    this.#recentBytes = 0
    return {
      consumedBytes,
      isUnused,
      request: { key: keyOf(this.terms), reserved, requested: isUnused && reserved === 0 ? -1 : requested },
    }
  }

  /**
   * No tunnel uses bytes of a nearly used-up budget. They are returned, because a tunnel of another process may wait for
   * them while it has the bytes that the tunnels here wait for.
   */
  #isDormant(): boolean {
    const isUsed = this.#recentBytes > 0 || this.#waiters.length > 0 || this.#retaining > 0
    return !this.#bucket && !isUsed && this.#unleasedBytes < nearlyUsedUp
  }

  /** 1 while this process passes traffic of a time-based plan or has tunnels waiting for the speed; else 0. */
  #activeFlag(isUnused: boolean): 0 | 1 {
    const isPassing = this.#waiters.length > 0 || this.#monotonicMs() - this.#usedAtMs < activeMs
    return isPassing && !isUnused ? 1 : 0
  }

  /** Applies a lease. @param requestedMs when it was requested, by the monotonic clock */
  applyLease(answer: LeaseAnswer, requestedMs: number): void {
    this.#validUntilMs = requestedMs + leaseValidMs
    this.#isPaused = answer.paused
    if (this.#bucket && this.#bytesPerSecond !== null)
      // The processes that pass traffic of the plan share its speed equally. Idle processes get no share.
      this.#bucket.setSpeed(this.#bytesPerSecond / (answer.elsewhere + 1))
    else if (!this.#isLowered) {
      this.#slab += answer.granted
      this.#unleasedBytes = (answer.free ?? 0) - answer.granted
      const isExhausted = answer.free === 0 && answer.elsewhere === 0 && !answer.paused
      const exhausted = isPlan(this.terms) ? trafficExhausted : this.terms.reached()
      if (isExhausted && this.#slab === 0) this.deny(exhausted)
      else if (isExhausted) this.#settleWaiters(({ least }) => least > this.#slab, exhausted)
    }
    this.#wakeWaiters()
  }

  /** Ends all traffic of the budget and cuts its open tunnels. */
  deny(denied: Denied): void {
    if (this.#denied) return
    this.#denied = denied
    this.#deniedAtMs = this.#monotonicMs()
    this.#ended.abort(denied)
    this.#settleWaiters(() => true, denied)
  }

  /** Drops a lost lease. Another process may have leased its bytes, including those consumed and not reported. */
  dropLease(): void {
    this.#lease += 1
    this.#slab = 0
    this.#validUntilMs = Number.NEGATIVE_INFINITY
    this.#unreported.clear()
  }

  /** Refuses tunnels that waited too long for a lease. */
  expireWaiters(): void {
    if (!this.isStarving()) return
    const nowMs = this.#monotonicMs()
    this.#settleWaiters(({ untilMs }) => untilMs <= nowMs, databaseUnavailable)
  }

  /** No more tunnels will open, so the next round gives the slab back. */
  close(): void {
    this.#isClosing = true
  }

  stop(): void {
    this.#stopRefilling?.()
    this.#settleWaiters(() => true, databaseUnavailable)
  }
}
