import type { FeedFormat } from '../../domain/free-list/endpoint.ts'
import { pluralize } from '../../kernel/formats.ts'
import type { BareContext, CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import { withContext } from '../../platform/cli/command.ts'
import { type InputOf, readText } from '../../platform/cli/input.ts'
import { CliMisuse, fields } from '../../platform/cli/output.ts'
import type { importInput } from './commands.ts'
import { readStats } from './endpoint-reads.ts'
import { addCandidates, candidateRefusal } from './endpoint-store.ts'
import { countEndpoints } from './fetch-sources.ts'
import { parseFeed } from './parse-source.ts'
import { type CheckingConfig, isSandboxed } from './settings.ts'
import { createSourceStore, isOfSandbox, readSources } from './sources.ts'

type Bare = BareContext<CheckingConfig & CliSettings>

const parsed = (text: string, format: FeedFormat, file: string) => {
  try {
    return parseFeed(text, format)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new CliMisuse(`${file} is not JSON: ${error.message}; nothing was added`, {}, 'invalid_file')
  }
}

export const sources = async (bare: Bare) => {
  const configured = await readSources((await bare.readSettings()).freelist.sources)
  const storedStates = await withContext(bare, ({ pool }) => createSourceStore(pool).read())
  const ids = [...new Set([...configured.map(({ id }) => id), ...storedStates.keys()])]
  const sources = ids.map((id) => {
    const source = configured.find((one) => one.id === id)
    const from = source?.from ?? null
    const state = storedStates.get(id)
    return {
      id,
      from: from === null ? null : 'url' in from ? from.url : from.file,
      configured: source !== undefined,
      format: source?.format ?? null,
      everyMinutes: source?.everyMinutes ?? null,
      outcome: state?.outcome ?? 'never',
      problem: state?.problem ?? null,
      failures: state?.failures ?? 0,
      candidates: state?.candidates ?? 0,
      refused: state?.refused ?? 0,
      unreadable: state?.unreadable ?? 0,
      added: state?.added ?? 0,
      readAt: state?.readAt ?? null,
      nextAt: state?.nextAt ?? null,
    }
  })
  const fromText = ({ id, from }: (typeof sources)[number]): string =>
    from ?? (isOfSandbox(id) ? 'the sandbox' : 'not configured any more')
  return { json: { sources }, rows: sources.map((source) => ({ ...source, fromText: fromText(source) })) }
}

export const importFile = async (
  bare: Bare,
  { file, format, dryRun = false }: InputOf<typeof importInput>,
) => {
  const config = await bare.readSettings()
  const { candidates, unreadable, leftOut } = parsed(await readText(file, 'invalid_file'), format, file)
  const rules = { sandbox: isSandboxed(config), own: new Set<string>() }
  const legal = candidates.filter((socketAddress) => candidateRefusal(socketAddress, rules) === null)
  const refused = candidates.length - legal.length + leftOut
  const rest = `${refused} refused, ${unreadable} not read`
  const json = { candidates: legal.length, refused, unreadable }
  const countText = pluralize(legal.length, 'candidate')
  if (dryRun) return { json, text: `${countText}, ${rest}; nothing was added` }
  return withContext(bare, async ({ pool, clock }) => {
    const capacity = Math.max(0, config.freelist.endpoints - (await countEndpoints(pool)))
    const added = await addCandidates(pool, legal.slice(0, capacity), clock())
    const full = Math.max(0, legal.length - capacity)
    return {
      json: { ...json, added, leftOut: full },
      text: `${countText}: ${added} new, ${rest}${full > 0 ? `; ${full} left out, the record is full` : ''}`,
    }
  })
}

export const stats = async ({ pool, clock }: CliContext) => {
  const stats = await readStats(pool, clock())
  const counts = (all: Readonly<Record<string, number>>): string =>
    Object.entries(all)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ') || '-'
  return {
    json: stats,
    text: fields({
      endpoints: pluralize(stats.endpoints, 'endpoint'),
      states: counts(stats.states),
      'protocols of live ones': counts(stats.protocols),
      'anonymity of live ones': counts(stats.anonymity),
      'why others did not answer': counts(stats.errors),
      'due now': `${stats.due}, the longest for ${Math.round(stats.lateMs / 1_000)} s`,
      'checks so far': `${stats.checks}, ${stats.successes} answered`,
    }),
  }
}
