import { pluralize } from '../../kernel/formats.ts'
import type { CliContext, CliSettings, OpenContext } from '../../platform/cli/cli-context.ts'
import { readText } from '../../platform/cli/options.ts'
import { CliMisuse, fields, table } from '../../platform/cli/output.ts'
import { readStats } from './endpoint-reads.ts'
import { addCandidates, candidateRefusal } from './endpoint-store.ts'
import { countEndpoints } from './fetch-sources.ts'
import { parseFeed } from './parse-source.ts'
import type { FeedFormat } from './settings.ts'
import { type CheckingConfig, isSandboxed } from './settings.ts'
import { createSourceStore, isOfSandbox, readSources } from './sources.ts'

type Config = CheckingConfig & CliSettings

const parsed = (text: string, format: FeedFormat, file: string) => {
  try {
    return parseFeed(text, format)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new CliMisuse(`${file} is not JSON: ${error.message}; nothing was added`, {}, 'invalid_file')
  }
}

export const sources = async (config: Config, open: OpenContext) => {
  const configured = await readSources(config.freelist.sources)
  const { context, close } = await open()
  try {
    const storedStates = await createSourceStore(context.pool).read()
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
    return {
      json: { sources },
      text: table(
        sources,
        [
          { title: 'source', value: ({ id }) => id },
          { title: 'last', value: ({ outcome }) => outcome },
          { title: 'at', value: ({ readAt }) => readAt ?? '-' },
          { title: 'candidates', value: ({ candidates }) => candidates, align: 'right' },
          { title: 'refused', value: ({ refused }) => refused, align: 'right' },
          { title: 'new', value: ({ added }) => added, align: 'right' },
          { title: 'problem', value: ({ problem }) => problem ?? '' },
          {
            title: 'from',
            value: ({ from, id }) => from ?? (isOfSandbox(id) ? 'the sandbox' : 'not configured any more'),
          },
        ],
        'no feeds: FAREBOX_FREELIST_SOURCES names a file of them (docs/freelist.md)',
      ),
    }
  } finally {
    await close()
  }
}

export const importFile = async (
  config: Config,
  open: OpenContext,
  file: string,
  importOptions: { format: FeedFormat; dryRun?: boolean },
) => {
  const { candidates, unreadable, leftOut } = parsed(
    await readText(file, 'invalid_file'),
    importOptions.format,
    file,
  )
  const rules = { sandbox: isSandboxed(config), own: new Set<string>() }
  const legal = candidates.filter((socketAddress) => candidateRefusal(socketAddress, rules) === null)
  const refused = candidates.length - legal.length + leftOut
  const rest = `${refused} refused, ${unreadable} not read`
  if (importOptions.dryRun === true)
    return {
      json: { candidates: legal.length, refused, unreadable },
      text: `${pluralize(legal.length, 'candidate')}, ${rest}; nothing was added`,
    }
  const { context, close } = await open()
  try {
    const capacity = Math.max(0, config.freelist.endpoints - (await countEndpoints(context.pool)))
    const added = await addCandidates(context.pool, legal.slice(0, capacity), context.clock())
    const full = Math.max(0, legal.length - capacity)
    return {
      json: { candidates: legal.length, refused, unreadable, added, leftOut: full },
      text: `${pluralize(legal.length, 'candidate')}: ${added} new, ${rest}${full > 0 ? `; ${full} left out, the record is full` : ''}`,
    }
  } finally {
    await close()
  }
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
