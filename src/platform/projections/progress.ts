import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Checkpoint } from './checkpoint.ts'

/** What tells that rows of some tables, which this process holds in memory, may have changed. */
export type Watch = {
  /**
   * A number that rises with each change that this process is told of; read it before the rows. Null while this process
   * has not seen the group's checkpoint for a second: then it may have missed any change.
   */
  version(): number | null
  /** Calls the listener with each change. Returns the way to unsubscribe. */
  onChange(listener: () => void): () => void
}

/** Told of changes to the tables of one group, it tells whoever watches them. */
export type Changes = {
  /** Rows of these tables were written, or of any. */
  changed(tables: Iterable<string> | 'any'): void
  /** Rises with each change of one of these tables. */
  version(tables: readonly string[]): number
  onChange(tables: readonly string[], listener: () => void): () => void
}

export const createChanges = (): Changes => {
  const versions = new Map<string, number>()
  const listeners = new Set<{ readonly tables: readonly string[]; readonly tell: () => void }>()
  let last = 0
  /** When all tables changed last. */
  let any = 0

  return {
    changed: (tables) => {
      last += 1
      const written = tables === 'any' ? null : new Set(tables)
      if (written === null) any = last
      else for (const table of written) versions.set(table, last)
      for (const listener of listeners)
        if (written === null || listener.tables.some((table) => written.has(table))) listener.tell()
    },
    version: (tables) => Math.max(any, ...tables.map((table) => versions.get(table) ?? 0)),
    onChange: (tables, tell) => {
      const listener = { tables, tell }
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

type Waiter = { readonly position: number; resolve(reached: boolean): void }
type GroupProgress = {
  position: number
  epoch: number
  usable: boolean
  owned: boolean
  waiters: Set<Waiter>
  /** Told when somebody starts to wait. */
  listeners: Set<() => void>
  readonly changes: Changes
  /** Up to which checkpoint its changes were told. */
  told: { position: number; epoch: number }
  /** When this process last knew all changes up to a checkpoint that it saw, milliseconds. */
  seenMs: number
  /** How often the position rose by another owner's hand. */
  moves: number
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
  /** As `advance`, by the owner: it tells its changes itself. */
  advanceAsOwner(group: string, position: number): void
  /** As `advance`, by who looks at the checkpoint twice a second: a step that no hint told of counts as any change. */
  observeCheckpoint(group: string, checkpoint: Pick<Checkpoint, 'position' | 'epoch'>): void
  /** The connection that told where the group is has ended: readers that wait ask Postgres again. */
  forget(group: string): void
  /** Rows of these tables were committed: by the owner here, or so another one says. */
  changed(group: string, tables: Iterable<string> | 'any'): void
  /**
   * Watches tables of a group. The owner here tells before readers see its position. Of another owner a hint tells, and
   * half a second later at the latest its checkpoint; with `exact` each step of its position counts, so that what was
   * waited for is in what is read.
   */
  watch(group: string, tables: readonly string[], options?: { readonly exact?: true }): Watch
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
/** A process that has not seen a checkpoint for this long does not know of changes; it looks twice a second. */
const unseenMs = 1_000

/**
 * Waits for checkpoints. The owner tells each commit at once; for groups of other processes one query every 5 ms
 * serves all waiters, and none runs while nobody waits. (NOTIFY for each batch was left out: it serialises commits of
 * the whole server, those of the log included.)
 */
export const createProgress = (options: {
  readonly pool: pg.Pool
  readonly groups: readonly string[]
  /** Default `performance.now`. */
  readonly monotonicMs?: MonotonicClock
}): Progress => {
  const { monotonicMs = () => performance.now() } = options
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
        changes: createChanges(),
        told: { position: 0, epoch: 0 },
        seenMs: Number.NEGATIVE_INFINITY,
        moves: 0,
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
    if (position > group.position) {
      if (!group.owned) group.moves += 1
      group.position = position
    }
    settle(group)
  }
  const advance: Progress['advance'] = (name, { position, epoch }) => {
    const group = groupNamed(name)
    group.epoch = epoch
    // Another owner, or other tables: what changed is not known here.
    if (epoch !== group.told.epoch) observeCheckpoint(name, { position, epoch })
    else moveTo(group, position)
  }
  const observeCheckpoint: Progress['observeCheckpoint'] = (name, { position, epoch }) => {
    const group = groupNamed(name)
    const { told } = group
    const missed = position !== told.position || epoch !== told.epoch
    group.epoch = epoch
    group.told = { position, epoch }
    group.seenMs = monotonicMs()
    if (missed) group.changes.changed('any')
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
    advanceAsOwner: (name, position) => {
      const group = groupNamed(name)
      group.told = { ...group.told, position }
      group.seenMs = monotonicMs()
      moveTo(group, position)
    },
    observeCheckpoint,
    forget: (name) => forget(groupNamed(name)),
    changed: (name, tables) => groupNamed(name).changes.changed(tables),
    watch: (name, tables, { exact } = {}) => {
      const group = groupNamed(name)
      return {
        version: () =>
          !group.usable || monotonicMs() - group.seenMs > unseenMs
            ? null
            : group.changes.version(tables) + (exact ? group.moves : 0),
        onChange: (listener) => group.changes.onChange(tables, listener),
      }
    },
    onAwaited: (name, listener) => {
      const { waiters, listeners } = groupNamed(name)
      listeners.add(listener)
      if (waiters.size > 0) listener()
      return () => listeners.delete(listener)
    },
    setOwned: (name, owned) => {
      const group = groupNamed(name)
      group.owned = owned
    },
    setUsable: (name, usable) => {
      const group = groupNamed(name)
      const became = usable && !group.usable
      group.usable = usable
      // Tables that were made anew may say something else.
      if (became) group.changes.changed('any')
      settle(group)
    },
    close: () => void options.pool.off('remove', forgetAll),
  }
}
