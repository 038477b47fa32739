import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { sameLogin } from '../../platform/vault/logins.ts'
import { exitsStream } from '../../terms/streams.ts'
import {
  decideImport,
  decideState,
  type ExitDecision,
  exitsAtOnce,
  type ImportAnswer,
  type StateAnswer,
} from './decide.ts'
import type { ExitState, ExitTerms } from './events.ts'
import { type ExitsState, exitsFold, type KnownExit } from './fold.ts'
import type { ImportedExit } from './import-file.ts'
import type { ExitLogins } from './vault.ts'

export type ExitService = {
  /** Adds and changes exits, those of one file; what a crash left out comes with the same call again. */
  import(exits: readonly ImportedExit[], cause: Cause): Promise<ImportAnswer>
  /** Refused as a whole when an id is unknown. */
  setState(exitIds: readonly string[], to: ExitState, cause: Cause): Promise<StateAnswer>
  /** Those that were not removed, as the log has them now, by id. */
  read(cause: Cause): Promise<readonly KnownExit[]>
}

/** The writes of exits: events on the `exits` stream, credentials in the vault before them. */
export const createExitService = (deps: {
  readonly runner: CommandRunner
  readonly logins: ExitLogins
}): ExitService => {
  const { runner, logins } = deps
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
  const look = (cause: Cause): Promise<ExitsState> =>
    run('read-exits', cause, (state) => ({ events: [], answer: state }))

  /** The terms with their credentials: those that they have, where they are the same, else new ones. */
  const withLogins = async (
    batch: readonly ImportedExit[],
    state: ExitsState,
  ): Promise<readonly ExitTerms[]> => {
    const idOf = ({ terms }: ImportedExit) => state.get(terms.exitId)?.terms.credentialId ?? null
    const known = await logins.read(batch.flatMap((exit) => idOf(exit) ?? []))
    const changed = batch.filter((exit) => !sameLogin(known.get(idOf(exit) ?? ''), exit.login))
    const fresh = changed.flatMap(({ terms: { exitId }, login }) => (login ? [{ owner: exitId, login }] : []))
    const ids = await logins.store(fresh)
    const idOfExit = new Map(fresh.map(({ owner }, at) => [owner, ids[at]]))
    return batch.map((exit) => {
      const credentialId = exit.login && (idOfExit.get(exit.terms.exitId) ?? idOf(exit))
      return { ...exit.terms, credentialId }
    })
  }

  return {
    import: async (exits, cause) => {
      let all: ImportAnswer = { added: [], changed: [], unchanged: [] }
      for (let at = 0; at < exits.length; at += exitsAtOnce) {
        const terms = await withLogins(exits.slice(at, at + exitsAtOnce), await look(cause))
        const done = await run('import-exits', cause, (state) => decideImport(state, terms))
        await logins.dropOthers(terms.map(({ exitId: owner, credentialId }) => ({ owner, credentialId })))
        all = {
          added: [...all.added, ...done.added],
          changed: [...all.changed, ...done.changed],
          unchanged: [...all.unchanged, ...done.unchanged],
        }
      }
      return all
    },
    setState: (exitIds, to, cause) => run('change-exits', cause, (state) => decideState(state, exitIds, to)),
    read: async (cause) =>
      [...(await look(cause)).values()]
        .filter(({ state }) => state !== 'removed')
        .sort((a, b) => (a.terms.exitId < b.terms.exitId ? -1 : 1)),
  }
}
