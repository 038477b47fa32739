import type pg from 'pg'
import type { MonotonicClock } from '../../kernel/clock.ts'
import type { Checkpoint } from './checkpoint.ts'
import type { ReadModel } from './read-model.ts'

/** Notifies that rows of some tables, which this process caches in memory, may have changed. */
export type Watch = {
  /**
   * A number that increases with each change that is announced to this process. Read it before the rows. Null if this
   * process did not see the group's checkpoint for a second, or if a model of the tables is stopped: then it may have
   * missed changes.
   */
  version(): number | null
  /** Calls the listener on each change. Returns the function to unsubscribe. */
  onChange(listener: () => void): () => void
}

/** Receives the changes of the tables of one group and notifies the listeners. */
export type Changes = {
  /** Rows of these tables were written, or of any table. */
  changed(tables: Iterable<string> | 'any'): void
  /** Increases with each change of one of these tables. */
  version(tables: readonly string[]): number
  onChange(tables: readonly string[], listener: () => void): () => void
}

export const createChanges = (): Changes => {
  const versions = new Map<string, number>()
  const listeners = new Set<{ readonly tables: readonly string[]; readonly notify: () => void }>()
  let last = 0
  /** The number of the last change of all tables. */
  let anyVersion = 0

  return {
    changed: (tables) => {
      last += 1
      const written = tables === 'any' ? null : new Set(tables)
      if (written === null) anyVersion = last
      else for (const table of written) versions.set(table, last)
      for (const listener of listeners)
        if (written === null || listener.tables.some((table) => written.has(table))) listener.notify()
    },
    version: (tables) => Math.max(anyVersion, ...tables.map((table) => versions.get(table) ?? 0)),
    onChange: (tables, notify) => {
      const listener = { tables, notify }
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
  /** The tables of stopped models. Their changes are not announced. */
  stopped: ReadonlySet<string>
  waiters: Set<Waiter>
  /** Called when a read starts to wait. */
  listeners: Set<() => void>
  readonly changes: Changes
  /** The checkpoint up to which its changes were announced. */
  announcedCheckpoint: { position: number; epoch: number }
  /** When this process last knew all changes up to a checkpoint that it read, milliseconds. */
  seenMs: number
  /** How often the position increased through another owner. */
  moveCount: number
}

/**
 * The position of each group, as far as this process knows. Positions only increase until a connection to Postgres
 * ends: commits of batches do not wait for the disk (postgres-session.ts), so a crash of Postgres can undo the last
 * ones.
 */
export type Progress = {
  /** The last position known to be committed; 0: none is known; -1: this process cannot use the group's tables. */
  position(group: string): number
  /** Resolves to true when the group reaches the position, to false after `timeoutMs`. */
  reached(group: string, position: number, timeoutMs: number): Promise<boolean>
  advance(group: string, to: Pick<Checkpoint, 'position' | 'epoch'>): void
  /** As `advance`, for the owner: the owner announces its changes itself. */
  advanceAsOwner(group: string, position: number): void
  /**
   * As `advance`, for a process that reads the checkpoint twice a second. A step that no hint announced counts as a
   * change of any table.
   */
  observeCheckpoint(group: string, checkpoint: Pick<Checkpoint, 'position' | 'epoch'>): void
  /** The connection that reported the group's position has ended. Reads that wait query Postgres again. */
  forget(group: string): void
  /** Rows of these tables were committed, by the owner in this process or according to the hint of another owner. */
  changed(group: string, tables: Iterable<string> | 'any'): void
  /**
   * Watches tables of a group. An owner in this process announces changes before reads see its position. The changes
   * of another owner are announced by a hint, and at the latest half a second later by its checkpoint. With `exact`,
   * each step of its position counts as a change, so that the rows include what the caller waited for.
   */
  watch(group: string, tables: readonly string[], options?: { readonly exact?: true }): Watch
  /**
   * Calls the listener when a read in this process waits for the group, and at once if one waits already. Returns the
   * function to unsubscribe.
   */
  onAwaited(group: string, listener: () => void): () => void
  /** Sets whether this process moves the checkpoint and announces it, or another one, whose checkpoint is polled. */
  setOwned(group: string, owned: boolean): void
  /** False while the tables are being created, or belong to another version of the program. */
  setUsable(group: string, usable: boolean): void
  /** Sets which models of the group are stopped. */
  setStopped(group: string, models: readonly ReadModel[]): void
  /** Removes the listener on the pool. */
  close(): void
}

/** How often the checkpoint of another process is polled while a read waits, milliseconds. */
const pollMs = 5
/** The owner in this process announces each step, so this poll only covers a change of owner. */
const ownedPollMs = 250
/** A process that read no checkpoint for this long may have missed changes. It reads one twice a second. */
const maxUnseenMs = 1_000
/** An owner checks every five seconds that it is still the owner (leadership.ts). */
const maxUnseenOwnedMs = 12_000

/**
 * Waits for checkpoints. The owner announces each commit at once. For groups of other processes one query every 5 ms
 * serves all waiting reads, and no query runs without a waiting read. (There is no NOTIFY for each batch, because it
 * serializes the commits of the whole server, including those of the log.)
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
        stopped: new Set<string>(),
        waiters: new Set<Waiter>(),
        listeners: new Set<() => void>(),
        changes: createChanges(),
        announcedCheckpoint: { position: 0, epoch: 0 },
        seenMs: Number.NEGATIVE_INFINITY,
        moveCount: 0,
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
      if (!group.owned) group.moveCount += 1
      group.position = position
    }
    settle(group)
  }
  const advance: Progress['advance'] = (name, { position, epoch }) => {
    const group = groupNamed(name)
    group.epoch = epoch
    // Another owner or other tables: the changes are unknown here.
    if (epoch !== group.announcedCheckpoint.epoch) observeCheckpoint(name, { position, epoch })
    else moveTo(group, position)
  }
  const observeCheckpoint: Progress['observeCheckpoint'] = (name, { position, epoch }) => {
    const group = groupNamed(name)
    const { announcedCheckpoint } = group
    const hasMissed = position !== announcedCheckpoint.position || epoch !== announcedCheckpoint.epoch
    group.epoch = epoch
    group.announcedCheckpoint = { position, epoch }
    group.seenMs = monotonicMs()
    if (hasMissed) group.changes.changed('any')
    moveTo(group, position)
  }

  let polling = false
  const poll = async (): Promise<void> => {
    const awaitedGroups = [...groups].filter(([, group]) => group.waiters.size > 0)
    if (awaitedGroups.length === 0) {
      polling = false
      return
    }
    try {
      const { rows } = await options.pool.query<{ name: string; position: number; epoch: number }>({
        name: 'farebox_checkpoints',
        text: 'select name, position, epoch from engine.checkpoints where name = any ($1::text[])',
        values: [awaitedGroups.map(([name]) => name)],
      })
      for (const { name, ...to } of rows) advance(name, to)
    } catch {
      // Waiting reads time out. Their own queries use the same database and report the error.
    }
    schedule()
  }
  /** Whether the owner in this process announces each step from a known position. */
  const isAnnounced = ({ owned, position }: GroupProgress): boolean => owned && position > 0
  const schedule = (): void => {
    polling = true
    const hasWaiters = [...groups.values()].some((group) => group.waiters.size > 0 && !isAnnounced(group))
    setTimeout(() => void poll(), hasWaiters ? pollMs : ownedPollMs)
  }
  const startPolling = (group: GroupProgress): void => {
    if (polling) return
    if (isAnnounced(group)) schedule()
    else {
      polling = true
      void poll()
    }
  }

  const forget = (group: GroupProgress): void => {
    group.position = 0
  }
  // Any of the connections may have reported the position of a group. An unnecessary reset costs one more query.
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
      group.announcedCheckpoint = { ...group.announcedCheckpoint, position }
      group.seenMs = monotonicMs()
      moveTo(group, position)
    },
    observeCheckpoint,
    forget: (name) => forget(groupNamed(name)),
    changed: (name, tables) => groupNamed(name).changes.changed(tables),
    watch: (name, tables, { exact } = {}) => {
      const group = groupNamed(name)
      return {
        version: () => {
          const unseenMs = monotonicMs() - group.seenMs
          const isUnseen = unseenMs > (group.owned ? maxUnseenOwnedMs : maxUnseenMs)
          if (!group.usable || isUnseen || tables.some((table) => group.stopped.has(table))) return null
          return group.changes.version(tables) + (exact ? group.moveCount : 0)
        },
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
      const becameUsable = usable && !group.usable
      group.usable = usable
      // Rebuilt tables may have other rows.
      if (becameUsable) group.changes.changed('any')
      settle(group)
    },
    setStopped: (name, models) => {
      groupNamed(name).stopped = new Set(models.flatMap(({ tables }) => tables.map((table) => table.name)))
    },
    close: () => void options.pool.off('remove', forgetAll),
  }
}

/** Lets batches pass, or stops them before they start. Tests use it to check requests while nothing is folded. */
export type Gate = {
  /** Runs one batch when the gate is open. Rejects with the signal's reason if it is aborted before that. */
  pass<Value>(signal: AbortSignal, batch: () => Promise<Value>): Promise<Value>
  /** Resolves when no batch is in progress. No batch starts until `open`. */
  close(): Promise<void>
  open(): void
}

export const createGate = (): Gate => {
  let opened: PromiseWithResolvers<void> | null = null
  const underWay = new Set<Promise<unknown>>()
  return {
    pass: async (signal, batch) => {
      while (opened) {
        const aborted = Promise.withResolvers<never>()
        const abort = (): void => aborted.reject(signal.reason)
        signal.throwIfAborted()
        signal.addEventListener('abort', abort, { once: true })
        try {
          await Promise.race([opened.promise, aborted.promise])
        } finally {
          signal.removeEventListener('abort', abort)
        }
      }
      const running = batch()
      underWay.add(running)
      try {
        return await running
      } finally {
        underWay.delete(running)
      }
    },
    close: async () => {
      opened ??= Promise.withResolvers()
      await Promise.allSettled(underWay)
    },
    open: () => {
      opened?.resolve()
      opened = null
    },
  }
}

/** The one channel on which the owners of groups announce their commits to all processes. */
const channel = 'farebox_read'

/**
 * Notifies other processes that rows of these tables changed. It is sent after the commit, in a statement of its own:
 * with NOTIFY in the batch, its commit would wait for the commits of the log. A hint may be lost, so every process
 * also reads the checkpoint twice a second.
 */
export const sendHint = async (
  client: pg.ClientBase,
  group: string,
  tables: readonly string[],
): Promise<void> => {
  await client.query({
    name: 'farebox_hint',
    text: 'select pg_notify($1::text, $2::text)',
    values: [channel, `${group} ${tables.join(' ')}`],
  })
}

/** Listens to the hints of a group's owner until the connection ends. */
export const listenForHints = async (
  client: pg.ClientBase,
  name: string,
  progress: Pick<Progress, 'changed'>,
): Promise<void> => {
  client.on('notification', ({ payload = '' }) => {
    const [group, ...tables] = payload.split(' ')
    if (group === name) progress.changed(name, tables)
  })
  await client.query(`listen ${channel}`)
}

/** An owner does not need its own hints. */
export const stopListening = async (client: pg.ClientBase): Promise<void> => {
  client.removeAllListeners('notification')
  await client.query(`unlisten ${channel}`)
}
