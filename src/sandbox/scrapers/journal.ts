/** One call as it came and was answered. */
export type JournalCall = {
  readonly at: number
  readonly method: string
  readonly path: string
  readonly parameters: Readonly<Record<string, string>>
  /** The first characters of the key. */
  readonly key: string
  readonly status: number | null
  readonly creditsCharged: number
}

export type Journal = {
  add(call: JournalCall): void
  begin(): void
  end(): void
  /** What happened since the last `clear`; of the calls the latest ten thousand. */
  read(): {
    readonly total: number
    readonly underWay: number
    readonly mostAtOnce: number
    readonly creditsCharged: number
    readonly calls: readonly JournalCall[]
  }
  clear(): void
}

const kept = 10_000

/** Counts every call, to show how many there were. It lives as long as the process. */
export const createJournal = (): Journal => {
  let calls: JournalCall[] = []
  let total = 0
  let creditsCharged = 0
  let underWay = 0
  let mostAtOnce = 0
  return {
    add: (call) => {
      total += 1
      creditsCharged += call.creditsCharged
      calls.push(call)
      if (calls.length > 2 * kept) calls = calls.slice(-kept)
    },
    begin: () => {
      underWay += 1
      mostAtOnce = Math.max(mostAtOnce, underWay)
    },
    end: () => {
      underWay -= 1
    },
    read: () => ({ total, underWay, mostAtOnce, creditsCharged, calls: calls.slice(-kept) }),
    clear: () => {
      calls = []
      total = 0
      creditsCharged = 0
      mostAtOnce = underWay
    },
  }
}
