import {
  decideImport,
  decideState,
  type ExitDecision,
  type ImportAnswer,
  maxExitsPerEvent,
  type StateAnswer,
} from '../../domain/exits/decide.ts'
import type { ExitState, ExitTerms, ExitVia } from '../../domain/exits/events.ts'
import { type ExitsState, exitsFold, type KnownExit } from '../../domain/exits/fold.ts'
import type { Cause } from '../../kernel/event.ts'
import { exitsStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import type { Db } from '../../platform/postgres/kysely.ts'
import { sameLogin } from '../../platform/vault/logins.ts'
import type { ImportedExit } from './import-exits.ts'
import { type ExitLogins, loginsOf, placeOf } from './live-exits.ts'

/** A listed exit with its health; null: no problem was found yet. */
export type ListedExit = {
  readonly exitId: string
  readonly state: ExitState
  readonly terms: ExitTerms
  readonly alive: boolean
  /** Why it counts as dead, or its last problem. */
  readonly problem: string | null
  /** Start of the current health state; null: it never changed. */
  readonly since: string | null
}

/** Up to `limit` exits after the given one, ordered by id, without removed ones; null: from the first. */
export const exitsAfter = (
  db: Db,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly ListedExit[]> =>
  db
    .selectFrom('read.exits as listed')
    .leftJoin('work.exit_health as health', 'health.exitId', 'listed.exitId')
    .where('listed.state', '<>', 'removed')
    .where('listed.exitId', '>', after ?? '')
    .orderBy('listed.exitId')
    .limit(limit)
    .select(({ fn, val }) => [
      'listed.exitId',
      'listed.state',
      'listed.terms',
      fn.coalesce('health.alive', val(true)).as('alive'),
      'health.problem',
      'health.changedAt as since',
    ])
    .execute()

/** The number of exits in use that do not work. */
export const countDeadExits = async (db: Db): Promise<number> =>
  (
    await db
      .selectFrom('read.exits as listed')
      .innerJoin('work.exit_health as health', 'health.exitId', 'listed.exitId')
      .where('listed.state', '=', 'live')
      .where('health.alive', '=', false)
      .select(({ fn }) => fn.countAll<number>().as('total'))
      .executeTakeFirstOrThrow()
  ).total

/** The address of an exit without credentials. */
export const endpointOf = (via: ExitVia): string => {
  switch (via.kind) {
    case 'direct':
      return via.localAddress ?? 'this machine'
    case 'prefix':
      return via.prefix
    default:
      return `${via.host}:${via.port}`
  }
}

export type ExitService = {
  /** Adds and changes the exits of a file. After a crash, the same call completes the import. */
  import(exits: readonly ImportedExit[], cause: Cause): Promise<ImportAnswer>
  /** Refused completely when an id is unknown. */
  setState(exitIds: readonly string[], to: ExitState, cause: Cause): Promise<StateAnswer>
  /** The exits in the log that were not removed, by id. */
  read(cause: Cause): Promise<readonly KnownExit[]>
}

/** Changes of exits: events on the `exits` stream. Credentials are stored in the vault first. */
export const createExitService = (dependencies: {
  readonly runner: CommandRunner
  readonly logins: ExitLogins
}): ExitService => {
  const { runner, logins } = dependencies
  const run = async <Answer>(
    name: string,
    cause: Cause,
    decide: (state: ExitsState) => ExitDecision<Answer>,
  ): Promise<Answer> => {
    const { answer } = await runner.run({
      name,
      correlationId: cause.correlationId,
      actor: cause.actor,
      streams: { exits: { stream: exitsStream, fold: exitsFold } },
      decide: ({ exits }) => {
        const { events, answer } = decide(exits)
        return { appends: events.length > 0 ? [{ stream: exitsStream, events }] : [], answer }
      },
    })
    return answer
  }
  const readState = (cause: Cause): Promise<ExitsState> =>
    run('read-exits', cause, (state) => ({ events: [], answer: state }))

  /** The terms with their credentials: the existing ones if they are equal, else new ones. */
  const withLogins = async (
    batch: readonly ImportedExit[],
    state: ExitsState,
  ): Promise<readonly ExitTerms[]> => {
    const idOf = ({ terms }: ImportedExit) => state.get(terms.exitId)?.terms.credentialId ?? null
    const storedLogins = await logins.read(
      batch.flatMap((exit) => loginsOf({ via: exit.terms.via, credentialId: idOf(exit) })),
    )
    const changed = batch.filter((exit) => !sameLogin(storedLogins.get(idOf(exit) ?? ''), exit.login))
    const newLogins = changed.flatMap(({ terms: { exitId, via }, login }) => {
      const endpointAddress = placeOf(via)
      return login && endpointAddress !== null ? [{ owner: exitId, place: endpointAddress, login }] : []
    })
    const ids = await logins.store(newLogins)
    const idOfExit = new Map(newLogins.map(({ owner }, at) => [owner, ids[at]]))
    return batch.map((exit) => {
      const credentialId = exit.login && (idOfExit.get(exit.terms.exitId) ?? idOf(exit))
      return { ...exit.terms, credentialId }
    })
  }

  return {
    import: async (exits, cause) => {
      let merged: ImportAnswer = { added: [], changed: [], unchanged: [] }
      for (let at = 0; at < exits.length; at += maxExitsPerEvent) {
        const terms = await withLogins(exits.slice(at, at + maxExitsPerEvent), await readState(cause))
        const imported = await run('import-exits', cause, (state) => decideImport(state, terms))
        await logins.dropOthers(terms.map(({ exitId: owner, credentialId }) => ({ owner, credentialId })))
        merged = {
          added: [...merged.added, ...imported.added],
          changed: [...merged.changed, ...imported.changed],
          unchanged: [...merged.unchanged, ...imported.unchanged],
        }
      }
      return merged
    },
    setState: (exitIds, to, cause) => run('change-exits', cause, (state) => decideState(state, exitIds, to)),
    read: async (cause) =>
      [...(await readState(cause)).values()]
        .filter(({ state }) => state !== 'removed')
        .sort((a, b) => (a.terms.exitId < b.terms.exitId ? -1 : 1)),
  }
}
