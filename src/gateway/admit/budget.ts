import type { MonotonicClock } from '../../kernel/clock.ts'
import { every } from '../../kernel/every.ts'
import type { PlanId } from '../../kernel/ids.ts'
import { databaseUnavailable, trafficExhausted } from '../authenticate/denials.ts'
import type { Denied } from '../gateway-ports.ts'
import { type LeaseAnswer, type LeaseRequest, leaseValidMs } from './leases.ts'

/** A bucket of this length is filled by its speed, milliseconds: a burst is no longer. */
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
    /** What can be taken at once, bytes. */
    available: fill,
    /** As much of `wanted` as is worth waiting for at this speed, bytes: more would not fit, less makes many small pieces. */
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

/** Bytes of one plan that were sold since they were last reported. */
export type UnreportedBytes = {
  /** Negative for what was given back. */
  add(bytes: number): void
  /** What is new, never negative: what was given back after its report is set off against later sales. */
  report(): number
  /** Bytes that were reported and then given back: they are paid for, so no lease need cover them. */
  prepaid(): number
  /** Reports nothing of what was sold until now. */
  forget(): void
}

export const createUnreportedBytes = (): UnreportedBytes => {
  let fresh = 0
  return {
    add: (bytes) => {
      fresh += bytes
    },
    report: () => {
      const bytes = Math.max(0, fresh)
      fresh -= bytes
      return bytes
    },
    prepaid: () => Math.max(0, -fresh),
    forget: () => {
      fresh = 0
    },
  }
}

/** What a budget needs to know of its plan. */
export type BudgetTerms = {
  readonly planId: PlanId
  /** The speed of a plan that is sold by time; null: it is sold by traffic. */
  readonly bytesPerSecond: number | null
}

const minSlab = 256 * 1024
const maxSlab = 32 * 1024 * 1024

/** A plan without tunnels keeps its slab this long for the next one, unless it is nearly used up. */
const idleMs = 5_000
const nearlyUsedUp = 16 * 1024 * 1024

/** A tunnel that may pass nothing waits this long for the books before it is told that they are away. */
const maxWaitMs = 10_000

/** Of a plan that is sold by time, a process counts as one that passes traffic for so long after its last byte, milliseconds. */
const activeMs = 2_000

/** How often those who wait for their speed are looked at, milliseconds. */
const refillMs = 10

/**
 * Up to this many bytes need not queue for the speed, one frame of Ethernet: datagrams and keystrokes do not stand behind
 * downloads.
 */
const promptBytes = 1_500

type Waiter = {
  readonly wanted: number
  readonly least: number
  readonly settle: (denied: Denied | null) => void
  readonly untilMs: number
}

/**
 * What this process may sell of one plan, for all its tunnels together. Taking is synchronous, since it happens for every
 * chunk; leases come in beside it.
 *
 * At any moment the lease on record covers what is left of the slab and what was sold and not reported. So whatever
 * happens to this process, no other sells a byte that it sold.
 */
export class PlanBudget {
  readonly planId: PlanId
  readonly #monotonicMs: MonotonicClock
  readonly #need: () => void
  readonly #unreported = createUnreportedBytes()
  readonly #bucket: Bucket | null
  readonly #bytesPerSecond: number | null
  readonly #ended = new AbortController()
  #slab = 0
  /** Sold since the last renewal: the next slab is measured by it. */
  #recent = 0
  /** When something last passed of a plan that is sold by time. */
  #usedAtMs = Number.NEGATIVE_INFINITY
  #validUntilMs = Number.NEGATIVE_INFINITY
  #free = Number.POSITIVE_INFINITY
  #lease = 0
  #paused = false
  #denied: Denied | null = null
  #deniedAtMs = 0
  #tunnels = 0
  #idleSinceMs: number
  /** In the order in which they came, and in which they are served. */
  #waiters: Waiter[] = []
  /** Bytes that those may take who waited for the speed and were told that it is their turn. */
  #turn = 0
  /** Ends it. */
  #refilling: (() => void) | null = null
  #closed = false

  /** @param need called when a lease is due before the next round */
  constructor(terms: BudgetTerms, deps: { readonly monotonicMs: MonotonicClock; readonly need: () => void }) {
    this.planId = terms.planId
    this.#monotonicMs = deps.monotonicMs
    this.#need = deps.need
    this.#bytesPerSecond = terms.bytesPerSecond
    this.#bucket = terms.bytesPerSecond === null ? null : createBucket(deps.monotonicMs, terms.bytesPerSecond)
    this.#idleSinceMs = deps.monotonicMs()
  }

  /** Aborted with a `Denied` as its reason once nothing more may pass. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** Why nothing more may pass, and for how long it has been so; null while something may. */
  denial(): { readonly denied: Denied; readonly forMs: number } | null {
    return this.#denied && { denied: this.#denied, forMs: this.#monotonicMs() - this.#deniedAtMs }
  }

  /** Which lease it is: the next one after each that was lost. */
  get lease(): number {
    return this.#lease
  }

  enter(): void {
    this.#tunnels += 1
  }

  /** No tunnel is open on it. */
  unused(): boolean {
    return this.#tunnels === 0
  }

  leave(): void {
    this.#tunnels -= 1
    this.#idleSinceMs = this.#monotonicMs()
  }

  #valid(): boolean {
    return this.#monotonicMs() < this.#validUntilMs
  }

  #available(): number {
    if (this.#denied || !this.#valid()) return 0
    return this.#bucket ? this.#bucket.available() : this.#slab
  }

  /** Whoever comes while others wait for the speed waits behind them. */
  #allowed(wanted: number): number {
    const available = this.#available()
    const queues = this.#bucket !== null && this.#waiters.length > 0 && wanted > promptBytes
    return queues ? Math.min(available, this.#turn) : available
  }

  take(wanted: number): number {
    const bytes = Math.min(wanted, this.#allowed(wanted))
    if (bytes <= 0) return 0
    if (this.#bucket) {
      this.#turn = Math.max(0, this.#turn - bytes)
      this.#bucket.take(bytes)
      this.#usedAtMs = this.#monotonicMs()
    } else {
      const before = this.#slab
      this.#slab -= bytes
      this.#recent += bytes
      if (before >= this.#target() / 2 && this.#slab < this.#target() / 2) this.#need()
    }
    this.#unreported.add(bytes)
    return bytes
  }

  /** @param bytes of what was taken under this lease */
  giveBack(bytes: number): void {
    if (this.#bucket) this.#bucket.giveBack(bytes)
    else this.#slab += bytes
    this.#unreported.add(-bytes)
    this.#wake()
  }

  /**
   * Settles with null when something may pass again, else with why nothing will.
   *
   * Of a plan that is sold by time it waits until what is wanted is there, or what is worth a piece: a bucket has a few bytes
   * whenever somebody asks, and who took those and asked again would keep the process busy with tiny writes.
   */
  more(wanted = 1, least = 1): Promise<Denied | null> {
    if (this.#denied) return Promise.resolve(this.#denied)
    if (this.#allowed(wanted) >= (this.#bucket?.worthwhile(wanted) ?? least)) return Promise.resolve(null)
    return new Promise((settle) => {
      this.#waiters.push({ wanted, least, settle, untilMs: this.#monotonicMs() + maxWaitMs })
      if (this.#bucket) this.#refill()
      if (!this.#bucket || !this.#valid()) this.#need()
    })
  }

  /** Whether a tunnel waits for a lease. */
  starves(): boolean {
    return this.#waiters.length > 0 && !(this.#bucket && this.#valid())
  }

  #refill(): void {
    this.#refilling ??= every(refillMs, () => {
      // Who was told and did not take is gone.
      this.#turn = 0
      this.#wake()
      if (this.#waiters.length > 0) return
      this.#refilling?.()
      this.#refilling = null
    })
  }

  #wake(): void {
    if (this.#waiters.length === 0) return
    if (this.#bucket) this.#serve(this.#bucket)
    else this.#settle(({ least }) => least <= this.#available(), null)
  }

  /** Tells as many of those who wait for the speed as there is something for, the first ones first. */
  #serve(bucket: Bucket): void {
    const left = this.#available()
    let served = 0
    for (const { wanted } of this.#waiters) {
      const worth = bucket.worthwhile(wanted)
      if (this.#turn + worth > left) break
      this.#turn += worth
      served += 1
    }
    for (const { settle } of this.#waiters.splice(0, served)) settle(null)
  }

  #settle(which: (waiter: Waiter) => boolean, denied: Denied | null): void {
    const settled = this.#waiters.filter(which)
    if (settled.length === 0) return
    this.#waiters = this.#waiters.filter((waiter) => !which(waiter))
    for (const { settle } of settled) settle(denied)
  }

  #target(): number {
    return Math.min(maxSlab, Math.max(minSlab, this.#recent * 2))
  }

  /**
   * What is to be reported and asked for at this moment, in one step, so that both fit together. What is not wanted any
   * more is given up here, before others may have it.
   */
  snapshot(): { readonly sold: number; readonly request: LeaseRequest; readonly over: boolean } {
    const idle = this.#tunnels === 0
    const idleForMs = this.#monotonicMs() - this.#idleSinceMs
    const over =
      idle && (this.#closed || idleForMs > idleMs || this.#free < nearlyUsedUp || this.#denied !== null)
    if (over || this.#paused) this.#slab = Math.min(this.#slab, this.#unreported.prepaid())
    const sold = this.#unreported.report()
    const held = this.#bucket ? this.#active(over) : Math.max(0, this.#slab - this.#unreported.prepaid())
    const wanted = idle || this.#paused ? 0 : Math.max(0, this.#target() - this.#slab)
    this.#recent = 0
    return { sold, over, request: { planId: this.planId, held, wanted: over && held === 0 ? -1 : wanted } }
  }

  /** 1 while this process passes traffic of a plan that is sold by time, or would; else 0. */
  #active(over: boolean): 0 | 1 {
    const passes = this.#waiters.length > 0 || this.#monotonicMs() - this.#usedAtMs < activeMs
    return passes && !over ? 1 : 0
  }

  /** Takes a lease over. @param askedMs when it was asked for, by the monotonic clock */
  renewed(answer: LeaseAnswer, askedMs: number): void {
    this.#validUntilMs = askedMs + leaseValidMs
    this.#paused = answer.paused
    if (this.#bucket && this.#bytesPerSecond !== null)
      // The processes that pass traffic of the plan have the same share of its speed; those whose tunnels are idle leave theirs.
      this.#bucket.setSpeed(this.#bytesPerSecond / (answer.elsewhere + 1))
    else {
      this.#slab += answer.granted
      this.#free = (answer.free ?? 0) - answer.granted
      const all = answer.free === 0 && answer.elsewhere === 0 && !answer.paused
      if (all && this.#slab === 0) this.deny(trafficExhausted)
      else if (all) this.#settle(({ least }) => least > this.#slab, trafficExhausted)
    }
    this.#wake()
  }

  /** Nothing more may pass; running tunnels are cut. */
  deny(denied: Denied): void {
    if (this.#denied) return
    this.#denied = denied
    this.#deniedAtMs = this.#monotonicMs()
    this.#ended.abort(denied)
    this.#settle(() => true, denied)
  }

  /** The lease may be another's by now, with whatever was sold of it and not reported. */
  forget(): void {
    this.#lease += 1
    this.#slab = 0
    this.#validUntilMs = Number.NEGATIVE_INFINITY
    this.#unreported.forget()
  }

  /** Tells those who waited too long for the books. */
  expireWaiters(): void {
    if (!this.starves()) return
    const nowMs = this.#monotonicMs()
    this.#settle(({ untilMs }) => untilMs <= nowMs, databaseUnavailable)
  }

  /** No tunnel will come: the slab need not wait for one. */
  close(): void {
    this.#closed = true
  }

  stop(): void {
    this.#refilling?.()
    this.#settle(() => true, databaseUnavailable)
  }
}
