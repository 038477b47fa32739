import { type Problem, problemText } from '../../domain/catalog/catalog-rules.ts'
import type { Coverage, ExitState } from '../../domain/exits/events.ts'
import type { KnownExit } from '../../domain/exits/fold.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { readText } from '../../platform/cli/input.ts'
import { CliMisuse, notFound } from '../../platform/cli/output.ts'
import { createVault } from '../../platform/vault/seal.ts'
import { createExitService, endpointOf } from './exit-service.ts'
import { parseExits } from './import-exits.ts'
import type { SandboxExits } from './live-exits.ts'
import { createExitLogins, loginsOf } from './live-exits.ts'
import { probe } from './probe-exit.ts'

const logins = ({ pool, keys }: CliContext) => createExitLogins({ pool, vault: createVault(keys.master) })

const serviceOf = (context: CliContext) =>
  createExitService({ runner: context.runner, logins: logins(context) })

const refusal = (problems: readonly Problem[]): CliMisuse =>
  new CliMisuse(
    `nothing was imported:\n${problems.map((problem) => `  ${problemText(problem)}`).join('\n')}`,
    { problems },
    'invalid_file',
  )

const singleOrCount = <Value>(values: readonly Value[], show: (value: Value) => string): string =>
  values.length === 0 ? '-' : values.length === 1 ? show(values[0]!) : String(values.length)

const singleLocation = (covers: readonly Coverage[], show: (cover: Coverage) => string): string =>
  covers.length === 1 ? show(covers[0]!) : '-'

const exitsOf = (context: CliContext): Promise<readonly KnownExit[]> => serviceOf(context).read(context)

/** A listed exit. Those of the sandbox are listed while none is imported. */
type ListedExit = KnownExit & { readonly sandbox: boolean }

const listedOf = async (context: CliContext): Promise<readonly ListedExit[]> => {
  const ownExits = await exitsOf(context)
  if (ownExits.length > 0) return ownExits.map((exit) => ({ ...exit, sandbox: false }))
  const { rows } = await context.pool.query<{ body: SandboxExits }>(
    "select body from work.sandbox_records where kind = 'exits' and id = 'exits'",
  )
  return (rows[0]?.body.exits ?? []).map(({ terms }) => ({ terms, state: 'live', sandbox: true }))
}

const change = (to: ExitState, doneText: string) => async (context: CliContext, ids: readonly string[]) => {
  const answer = await serviceOf(context).setState(ids, to, context)
  if (answer.status === 'refused')
    throw notFound(`no exit has the id ${answer.unknown.join(', ')}; nothing was changed`)
  const { changed } = answer
  return { json: { state: to, changed }, text: `${doneText} ${pluralize(changed.length, 'exit')}` }
}

export const importFile = async (
  context: CliContext,
  { file, dryRun = false }: { readonly file: string; readonly dryRun?: boolean },
) => {
  const parsed = parseExits(await readText(file, 'invalid_file'))
  if (!parsed.ok) throw refusal(parsed.problems)
  const count = pluralize(parsed.exits.length, 'exit')
  if (dryRun)
    return {
      json: { exits: parsed.exits.length },
      text: `${count} can be imported; nothing was written`,
    }
  const { added, changed, unchanged } = await serviceOf(context).import(parsed.exits, context)
  return {
    json: { added, changed, unchanged },
    text: `${count}: ${added.length} added, ${changed.length} changed, ${unchanged.length} as before`,
  }
}

export const list = async (context: CliContext, { country }: { readonly country?: string }) => {
  const matching = (await listedOf(context)).filter(
    ({ terms }) =>
      country === undefined || terms.covers.some((cover) => cover.country === country.toLowerCase()),
  )
  return {
    json: {
      exits: matching.map(({ terms: { credentialId, ...terms }, state, sandbox }) => ({
        ...terms,
        state,
        credentials: credentialId !== null,
        sandbox,
      })),
    },
    rows: matching.map(({ terms, state, sandbox }) => {
      const { covers, via } = terms
      return {
        ...terms,
        state,
        sandbox,
        kind: via.kind,
        endpoint: endpointOf(via),
        country: singleOrCount(covers, (cover) => cover.country),
        region: singleLocation(covers, ({ states }) => singleOrCount(states, ({ code }) => code)),
        city: singleLocation(covers, ({ cities }) => singleOrCount(cities, ({ code }) => code)),
        isp: singleLocation(covers, ({ isps }) => singleOrCount(isps, ({ code }) => code)),
      }
    }),
  }
}

type Ids = { readonly ids: readonly string[] }

export const check = async (context: CliContext, { ids }: Ids) => {
  const all = await exitsOf(context)
  const unknown = ids.filter((id) => !all.some(({ terms }) => terms.exitId === id))
  if (unknown.length > 0) throw notFound(`no exit has the id ${unknown.join(', ')}`)
  const selected = all.filter(({ terms }) => ids.length === 0 || ids.includes(terms.exitId))
  const storedLogins = await logins(context).read(selected.flatMap(({ terms }) => loginsOf(terms)))
  const checked = []
  for (let at = 0; at < selected.length; at += 50)
    checked.push(
      ...(await Promise.all(
        selected.slice(at, at + 50).map(async ({ terms: { exitId, via, credentialId } }) => {
          const login = storedLogins.get(credentialId ?? '') ?? null
          return { exitId, ...(await probe({ via, login })) }
        }),
      )),
    )
  return { json: { exits: checked }, rows: checked, failed: checked.some(({ ok }) => !ok) }
}

export const drain = async (context: CliContext, { ids, undo = false }: Ids & { readonly undo?: boolean }) =>
  undo ? change('live', 'took back')(context, ids) : change('drained', 'drained')(context, ids)

export const remove = async (context: CliContext, { ids }: Ids) => change('removed', 'removed')(context, ids)
