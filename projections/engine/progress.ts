import type pg from 'pg'
import { type ChangeCounter, createChangeCounter, type Subjects } from './changes.ts'
import type { Checkpoint } from './checkpoint.ts'

type Waiter = { readonly position: number; resolve(reached: boolean): void }
type GroupProgress = {
  position: number
  epoch: number
  usable: boolean
  owned: boolean
  waiters: Set<Waiter>
  /** Told when somebody starts to wait. */
  listeners: Set<() => void>
  readonly changes: ChangeCounter
}

/**
 * How far each group has come, as far as this process knows. Positions only rise, until a connection to Postgres ends:
 * commits of batches do not wait for the disk (session.ts), so a crash of Postgres takes the last ones back.
 */
export type Progress = {
  /** The last position known to be committed, 0 while none is; -1 while this process cannot use the group's tables. */
  position(group: string): number
  /** Resolves true when the group is past a position, false when `timeoutMs` passed first. */
  reached(group: string, position: number, timeoutMs: number): Promise<boolean>
  advance(group: string, to: Pick<Checkpoint, 'position' | 'epoch'>): void
  /** As `advance`, by the owner: its changes were told. */
  advanceOwn(group: string, position: number): void
  /** The connection that told where the group is has ended: readers that wait ask Postgres again. */
  forget(group: string): void
  /** The owner is about to write rows about these, or has written them. */
  changed(group: string, subjects: Subjects): void
  /**
   * A number that changes with every change of rows of these subjects: accounts, and tables whose rows belong to no
   * account. As long as it stays the same, reading again would give the same. Null where this process does not see every
   * change, because another one folds the group.
   */
  versionOf(group: string, subjects: readonly string[]): number | null
  /**
   * The last epoch that is known. Another one says that the tables may be others now: rows that were read before, at
   * whatever position, may have been wrong and made anew.
   */
  epoch(group: string): number
  /** Tells as soon as somebody in this process waits for the group, at once when somebody does. Returns the way to unsubscribe. */
  onAwaited(group: string, listener: () => void): () => void
  /** Who moves the checkpoint: this process (it will say so), or another (then it is asked for). */
  setOwned(group: string, owned: boolean): void
  /** False while the tables are being made, or belong to another version of the program. */
  setUsable(group: string, usable: boolean): void
  /** Lets go of the pool. */
  close(): void
}

/** Another process owns the group: how often its checkpoint is asked for while somebody waits. */
const pollMs = 5
/** The owner here tells of each step, so this poll only catches what happens around a change of owner. */
const ownedPollMs = 250

/**
 * Waits for checkpoints. The owner tells each commit at once; for groups of other processes one query every 5 ms
 * serves all waiters, and none runs while nobody waits. (NOTIFY for each batch was left out: it serialises commits of
 * the whole server, those of the log included.)
 */
export const createProgress = (options: {
  readonly pool: pg.Pool
  readonly groups: readonly string[]
}): Progress => {
  const groups = new Map<string, GroupProgress>(
    options.groups.map((name) => [
      name,
      {
        position: 0,
        epoch: 0,
        usable: false,
        owned: false,
        waiters: new Set<Waiter>(),
        listeners: new Set<() => void>(),
        changes: createChangeCounter(),
      },
    ]),
  )
  const groupNamed = (name: string): GroupProgress => {
    const group = groups.get(name)
    if (!group) throw new Error(`there is no group ${name} of read models`)
    return group
  }
  const settle = (group: GroupProgress): void => {
    if (!group.usable) return
    for (const waiter of group.waiters) if (group.position >= waiter.position) waiter.resolve(true)
  }
  const moveTo = (group: GroupProgress, position: number): void => {
    if (position > group.position) group.position = position
    settle(group)
  }
  const advance: Progress['advance'] = (name, { position, epoch }) => {
    const group = groupNamed(name)
    // Somebody else folded, or made the tables: what changed is not known here.
    if (position > group.position || epoch !== group.epoch) group.changes.changedAll()
    group.epoch = epoch
    moveTo(group, position)
  }

  let polling = false
  const poll = async (): Promise<void> => {
    const waitedFor = [...groups].filter(([, group]) => group.waiters.size > 0)
    if (waitedFor.length === 0) {
      polling = false
      return
    }
    try {
      const { rows } = await options.pool.query<{ name: string; position: number; epoch: number }>({
        name: 'farebox_checkpoints',
        text: 'select name, position, epoch from engine.checkpoints where name = any ($1::text[])',
        values: [waitedFor.map(([name]) => name)],
      })
      for (const { name, ...to } of rows) advance(name, to)
    } catch {
      // Waiters give up at their own time; a query of theirs will meet the same database and say what is wrong.
    }
    schedule()
  }
  /** Whether the owner here tells of each step from a position that is known. */
  const isTold = ({ owned, position }: GroupProgress): boolean => owned && position > 0
  const schedule = (): void => {
    polling = true
    const asked = [...groups.values()].some((group) => group.waiters.size > 0 && !isTold(group))
    setTimeout(() => void poll(), asked ? pollMs : ownedPollMs)
  }
  const startPolling = (group: GroupProgress): void => {
    if (polling) return
    if (isTold(group)) schedule()
    else {
      polling = true
      void poll()
    }
  }

  const forget = (group: GroupProgress): void => {
    group.position = 0
  }
  // Any of them may have told where a group is. Forgetting without need costs one query more.
  const forgetAll = (): void => {
    for (const group of groups.values()) forget(group)
  }
  options.pool.on('remove', forgetAll)

  return {
    position: (name) => {
      const { usable, position } = groupNamed(name)
      return usable ? position : -1
    },
    reached: async (name, position, timeoutMs) => {
      const group = groupNamed(name)
      if (group.usable && group.position >= position) return true
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const waiter: Waiter = { position, resolve }
      const timer = setTimeout(() => resolve(false), timeoutMs)
      group.waiters.add(waiter)
      for (const listener of group.listeners) listener()
      startPolling(group)
      try {
        return await promise
      } finally {
        clearTimeout(timer)
        group.waiters.delete(waiter)
      }
    },
    advance,
    advanceOwn: (name, position) => moveTo(groupNamed(name), position),
    forget: (name) => forget(groupNamed(name)),
    changed: (name, subjects) => groupNamed(name).changes.changed(subjects),
    versionOf: (name, subjects) => {
      const { owned, usable, changes } = groupNamed(name)
      if (!owned || !usable) return null
      let version = 0
      for (const subject of subjects) version = Math.max(version, changes.version(subject))
      return version
    },
    epoch: (name) => groupNamed(name).epoch,
    onAwaited: (name, listener) => {
      const { waiters, listeners } = groupNamed(name)
      listeners.add(listener)
      if (waiters.size > 0) listener()
      return () => listeners.delete(listener)
    },
    setOwned: (name, owned) => {
      const group = groupNamed(name)
      group.owned = owned
      group.changes.changedAll()
    },
    setUsable: (name, usable) => {
      const group = groupNamed(name)
      group.usable = usable
      group.changes.changedAll()
      settle(group)
    },
    close: () => void options.pool.off('remove', forgetAll),
  }
}
