import { runCli } from '../../src/app/cli-program.ts'
import { allRegistrations } from '../../src/app/commands.ts'
import { settingsHelp } from '../../src/app/settings-command.ts'
import { eventDictionary, eventsPage, markdownTable } from '../../src/audit/event-dictionary-page.ts'
import { placedFieldsOf } from '../../src/domain/scrapers/sample.ts'
import { rowName, type ScraperRow } from '../../src/domain/scrapers/scraper.ts'
import { platforms, scrapers } from '../../src/domain/scrapers/scraper-table.ts'
import { sampleAnswer } from '../../src/features/scrapers/sample-answer.ts'
import { dollarsOfMicros } from '../../src/kernel/money.ts'
import { exampleOf } from '../../src/platform/api-docs/openapi-errors.ts'
import { type ErrorCode, errorCodes, errorEntry } from '../../src/platform/http/errors.ts'
import { demoCommands } from '../demo-history/main.ts'
import { makeVectors } from './seal-vectors.ts'

const code = (text: string): string => `\`${text}\``

const fenced = (language: string, text: string): string => `\`\`\`${language}\n${text}\n\`\`\``

const page = (...parts: readonly string[]): string => `${parts.join('\n\n')}\n`

const jsonFile = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

const retryTexts = { later: 'later', 'after-change': 'after a change', never: 'no' } as const

const errorPage = (error: ErrorCode): string => {
  const { status, meaning, causes = [], remedy, retry } = errorEntry(error)
  return page(
    `# ${error}`,
    `Status ${status}. Retry: ${retryTexts[retry]}.`,
    meaning,
    ...(causes.length === 0 ? [] : ['## Causes', causes.map((cause) => `- ${cause}`).join('\n')]),
    '## What to do',
    remedy,
    '## Example',
    fenced('json', JSON.stringify(exampleOf(error, []).value, null, 2)),
    '[All errors](README.md)',
  )
}

const errorsPage = (): string =>
  page(
    '# Errors',
    'Every error has a status that is not 2xx and the body `{ "error", "code", "requestId" }`. Branch on `code`.',
    markdownTable(
      ['Code', 'Status', 'Meaning', 'Retry'],
      errorCodes.map((error) => {
        const { status, meaning, retry } = errorEntry(error)
        return [`[${error}](${error}.md)`, String(status), meaning, retryTexts[retry]]
      }),
    ),
  )

const settingsPage = (): string =>
  page(
    '# Settings',
    'Settings are environment variables. `bin/farebox settings` also prints their effective values.',
    markdownTable(
      ['Setting', 'Default', 'Accepted values', 'Purpose'],
      settingsHelp().map(({ name, takes, default: fallback, help }) => [
        code(name),
        fallback === null ? '' : code(fallback),
        takes,
        help,
      ]),
    ),
  )

type CommandHelp = { readonly name: string; readonly help: string }

/** The help of a command and of all commands below it. */
const helpOf = async (path: readonly string[]): Promise<readonly CommandHelp[]> => {
  const lines: string[] = []
  const out = (text: string): void => {
    lines.push(text)
  }
  const open = () => Promise.reject(new Error('help opens no database'))
  await runCli([...path, '--help'], [...(await allRegistrations()), ...demoCommands], { out, err: out, open })
  const help = lines.join('\n')
  const [, list = ''] = /^Commands:\n((?: {2}.*\n?)+)/m.exec(help) ?? []
  const below: CommandHelp[] = []
  for (const [, name = ''] of list.matchAll(/^ {2}([a-z][a-z-]*)/gm))
    if (name !== 'help') below.push(...(await helpOf([...path, name])))
  return [{ name: ['farebox', ...path].join(' '), help }, ...below]
}

const commandsPage = async (): Promise<string> =>
  page(
    '# Commands',
    'The output of `--help` of every command.',
    ...(await helpOf([])).map(({ name, help }) => `## ${name}\n\n${fenced('text', help)}`),
  )

const scraperFields = ({ inputs, oneOf }: ScraperRow): string => {
  const grouped = new Set(oneOf.flat())
  const required = [
    ...inputs.filter((input) => input.required).map(({ name }) => code(name)),
    ...oneOf.map((names) => names.map(code).join(' or ')),
  ]
  const optional = inputs.filter((input) => !input.required && !grouped.has(input.name))
  return [
    required.join(', '),
    optional.length === 0 ? '' : `(${optional.map(({ name }) => code(name)).join(', ')})`,
  ]
    .filter((text) => text !== '')
    .join(' ')
}

const scrapersPage = (): string =>
  page(
    '# Scrapers',
    'Fields in parentheses are optional. `GET /v1/scrape` has the same with an example of each field. The page of a platform has the fields of the answers.',
    ...platforms.map(
      (platform) =>
        `## [${platform}](scrapers/${platform}.md)\n\n${markdownTable(
          ['Scraper', 'Price', 'Fields', 'Result'],
          scrapers
            .filter((row) => row.platform === platform)
            .map((row) => [
              code(rowName(row)),
              `$${dollarsOfMicros(row.priceMicros)}`,
              scraperFields(row),
              `${row.answer.description}.${row.note === null ? '' : ` ${row.note}.`}`,
            ]),
        )}`,
    ),
  )

const answerOf = (row: ScraperRow): string =>
  [
    `## ${rowName(row)}`,
    `${row.summary}. ${row.answer.description}.`,
    markdownTable(
      ['Field of `data`', 'Type', 'Meaning', 'Unit'],
      placedFieldsOf(row).map(({ path, type, meaning, unit }) => [code(path), type, meaning, unit ?? '']),
    ),
    'A sample answer, with invented values:',
    fenced('json', JSON.stringify(sampleAnswer(row), null, 2)),
  ].join('\n\n')

/** A page for each platform with the fields of all answers. */
const answerPages = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    platforms.map((platform) => [
      `scrapers/${platform}.md`,
      page(
        `# Scrapers of ${platform}`,
        'Each field of an answer can be missing or null, and platforms add fields.',
        ...scrapers.filter((row) => row.platform === platform).map(answerOf),
      ),
    ]),
  )

/** The generated pages of the reference: text by file name, relative to `docs/reference/generated`. */
export const referencePages = async (): Promise<Readonly<Record<string, string>>> => ({
  'errors/README.md': errorsPage(),
  ...Object.fromEntries(errorCodes.map((error) => [`errors/${error}.md`, errorPage(error)])),
  'settings.md': settingsPage(),
  'commands.md': await commandsPage(),
  'scrapers.md': scrapersPage(),
  ...answerPages(),
  'events.md': eventsPage(),
  'events.json': jsonFile(eventDictionary()),
  'seals-vectors.json': jsonFile(makeVectors()),
})
