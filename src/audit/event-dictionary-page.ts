import type { z } from 'zod'
import { eventDefinitions } from '../domain/events.ts'
import { type BookedLeg, bookedLegs } from '../domain/ledger/booked-legs.ts'
import { type EventDefinition, signInMethods } from '../kernel/event.ts'
import {
  anyId,
  either,
  exactly,
  group,
  id,
  oneOf,
  orAbsent,
  orNull,
  text,
  time,
} from '../kernel/event-fields.ts'
import type { CliOutput } from '../platform/cli/output.ts'
import { type JsonSchema, jsonSchemaOf } from '../platform/http/json-schema.ts'

/** The metadata of every event. */
const metadata = group(
  {
    correlationId: text('the request, or the run of a command: all events of one cause have the same'),
    causationId: orNull(text('the event that caused this one; null: none')),
    actor: either(
      [
        group(
          {
            kind: exactly('key', 'a key of an account'),
            accountId: id('acc', 'the account of the key'),
            keyId: id('key', 'the key'),
          },
          'A key of an account.',
        ),
        group(
          {
            kind: exactly('session', 'a person in the console'),
            subjectId: anyId('an account, or a member of the staff'),
            sessionId: anyId('the session'),
            method: oneOf(signInMethods, 'the sign-in method'),
          },
          'A person in the console.',
        ),
        group(
          { kind: exactly('operator', 'on the command line'), name: text('the name of the system user') },
          'An operator on the command line.',
        ),
        group(
          { kind: exactly('system', 'the service itself'), name: text('the part of the service') },
          'The service itself.',
        ),
      ],
      'the actor',
    ),
    recordedAt: time("the time of the decision; never before that of the stream's previous event"),
    decidedAt: orAbsent(
      time(
        'the time of the decision, if the stream has an earlier event of the future, whose time is `recordedAt`; else absent',
      ),
    ),
  },
  'the metadata of every event',
)

type Entry = {
  readonly stream: string
  readonly means: string
  /** JSON Schema (draft 2020-12) with the keywords `unit` and `sign`. */
  readonly data: JsonSchema
  /** All legs of the entries; only for money events. */
  readonly books?: readonly BookedLeg[]
}

export type EventDictionary = {
  readonly format: 'farebox-events'
  readonly version: 1
  /** The format of the books' names, and the event that gives an account its own book. */
  readonly books: {
    readonly service: string
    readonly reseller: string
    readonly owner: { readonly stream: string }
    readonly reseller_when: { readonly event: string; readonly account: string; readonly is: string }
  }
  readonly metadata: JsonSchema
  readonly events: Readonly<Record<string, Entry>>
  readonly $defs: Readonly<Record<string, JsonSchema>>
}

const booksOf = (type: string): readonly BookedLeg[] | undefined =>
  Object.hasOwn(bookedLegs, type) ? bookedLegs[type as keyof typeof bookedLegs] : undefined

/** The machine-readable dictionary: `ledger events --json`. */
export const eventDictionary = (): EventDictionary => {
  const defs: Record<string, JsonSchema> = {}
  const schemaOf = (schema: z.ZodType): JsonSchema => {
    const { $defs = {}, ...json } = jsonSchemaOf(schema, 'output')
    Object.assign(defs, $defs)
    return json
  }
  const entryOf = ({ type, stream, means, data }: EventDefinition): Entry => {
    const books = booksOf(type)
    return { stream, means, data: schemaOf(data), ...(books && { books }) }
  }
  return {
    format: 'farebox-events',
    version: 1,
    books: {
      service: 'service',
      reseller: 'reseller:{owner}',
      owner: { stream: 'ledger-{owner}' },
      reseller_when: { event: 'AccountCreated', account: 'accountId', is: 'reseller' },
    },
    metadata: schemaOf(metadata),
    events: Object.fromEntries(eventDefinitions.map((definition) => [definition.type, entryOf(definition)])),
    $defs: defs,
  }
}

type Row = readonly [field: string, type: string, unit: string, meaning: string]

const nameOfRef = (ref: string): string => ref.replace('#/$defs/', '')

const isObject = (schema: JsonSchema): boolean => schema.properties !== undefined

/** The schema without its null alternative, for a nullable field. */
const withoutNull = (schema: JsonSchema): JsonSchema => {
  const [singleOption, ...more] = (schema.anyOf ?? []).filter(({ type }) => type !== 'null')
  return singleOption !== undefined && more.length === 0 ? singleOption : schema
}
const isNullable = (schema: JsonSchema): boolean =>
  (Array.isArray(schema.type) && schema.type.includes('null')) ||
  (schema.anyOf ?? []).some(({ type }) => type === 'null')

/** The first field of an object with its value, which identifies one of several forms. */
const formOf = (option: JsonSchema): string => {
  const [first] = Object.values(option.properties ?? {})
  return first === undefined ? 'object' : plainType(first)
}

const plainType = (schema: JsonSchema): string => {
  if (schema.$ref !== undefined) return `[${nameOfRef(schema.$ref)}](#${nameOfRef(schema.$ref)})`
  if (schema.const !== undefined) return `\`${schema.const}\``
  if (schema.enum !== undefined)
    return schema.enum
      .filter((value) => value !== null)
      .map((value) => `\`${value}\``)
      .join(', ')
  if (schema.items !== undefined) return `list of ${plainType(schema.items)}`
  if (schema.anyOf !== undefined) return `one of the forms ${schema.anyOf.map(formOf).join('; ')}`
  const [, prefix] = (typeof schema.pattern === 'string' && /^\^([a-z]+_)$/.exec(schema.pattern)) || []
  if (prefix !== undefined) return `\`${prefix}…\``
  const types = [schema.type ?? 'object'].flat().filter((type) => type !== 'null')
  return types
    .map(
      (type) => ({ string: 'text', integer: 'whole number', boolean: 'yes or no' })[type as string] ?? type,
    )
    .join(', ')
}

const rowsOf = (schema: JsonSchema, path = ''): readonly Row[] =>
  Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const fieldPath = `${path}${name}`
    const nonNullSchema = withoutNull(field)
    const type = [
      plainType(nonNullSchema),
      ...(isNullable(field) ? ['or null'] : []),
      ...(schema.required?.includes(name) ? [] : ['may be absent']),
    ].join(', ')
    const {
      unit,
      sign,
      description = 'see its own table',
    } = field as {
      readonly unit?: string
      readonly sign?: string
      readonly description?: string
    }
    const row: Row = [
      `\`${fieldPath}\``,
      type,
      [unit, sign].filter((part) => part !== undefined).join(', '),
      description,
    ]
    const items = nonNullSchema.items === undefined ? undefined : withoutNull(nonNullSchema.items)
    if (isObject(nonNullSchema)) return [row, ...rowsOf(nonNullSchema, `${fieldPath}.`)]
    if (items !== undefined && isObject(items)) return [row, ...rowsOf(items, `${fieldPath}[].`)]
    const options = nonNullSchema.anyOf ?? []
    return [row, ...options.filter(isObject).flatMap((option) => optionRows(option, `${fieldPath}.`))]
  })

/** The fields of one of several forms. Each row names the form. */
const optionRows = (option: JsonSchema, path: string): readonly Row[] =>
  rowsOf(option, path).map(([field, type, unit, meaning]) => [
    `${field} of ${formOf(option)}`,
    type,
    unit,
    meaning,
  ])

const escapeCell = (cell: string): string => cell.replaceAll('|', '\\|')

export const markdownTable = (headings: readonly string[], rows: readonly (readonly string[])[]): string =>
  [headings, headings.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map(escapeCell).join(' | ')} |`)
    .join('\n')

const fieldsTable = (schema: JsonSchema): string => {
  const rows = schema.anyOf ? schema.anyOf.flatMap((option) => optionRows(option, '')) : rowsOf(schema)
  return rows.length === 0
    ? 'It has no fields.'
    : markdownTable(['Field', 'Type', 'Unit, sign', 'Meaning'], rows)
}

const sumText = (debit: BookedLeg['debit']): string =>
  Object.entries(debit)
    .map(
      ([field, times], index) =>
        `${times === 1 ? (index === 0 ? '' : '+ ') : index === 0 ? '− ' : '− '}${field}`,
    )
    .join(' ')

const whenText = (when: BookedLeg['when']): string =>
  Object.entries(when ?? {})
    .map(([field, values]) => `${field} is ${values.join(' or ')}`)
    .join(', ')

const booksTable = (legs: readonly BookedLeg[]): string =>
  markdownTable(
    ['Book', 'Account', 'Debit', 'Only when'],
    legs.map(({ book, account, debit, when }) => [book, `\`${account}\``, sumText(debit), whenText(when)]),
  )

const intro = `# Events

Every kind of event in the log, with its fields. \`farebox ledger events\` prints this page. With \`--json\` it prints
[events.json](events.json), which has the same for programs. Both are generated from the declarations that
\`farebox ledger verify\` checks. A test derives all balances from \`events.json\` and an export of the log (docs/finance/exports.md).

How to read the tables:

- Fields that end in \`Micros\` are whole micro-dollars (1 cent is 10,000). Fields that end in \`Cents\` are whole cents.
  Times are ISO 8601 UTC. 1 GB is 1,000,000,000 bytes.
- A field is present unless it "may be absent". \`ledger verify\` reports fields that are not listed.
- An event changes the books only if it has a table "In the books". A negative debit is a credit, and a debit of 0 is no leg.
  \`{owner}\` is the account of the ledger, and \`{field}\` a field of the event. The legs of the book \`reseller\` count only if
  the account's \`AccountCreated\` has \`reseller\`; the name of that book is \`reseller:{owner}\`. Every entry sums to zero in
  each book.
- \`debtChangeMicros\` and \`walletDebtChangeMicros\` are the change of a debt; a payment is negative. Events before 0.2.0 have
  \`receivableMicros\` and \`walletReceivableMicros\` instead. In \`…Credited\` and \`…Refunded\` these are the **paid** part of a
  debt, in \`…Adjusted\` the **change** of it. An event has one of the two fields;
  \`HoldReleased\` has \`debtChangeMicros\` only if it pays a debt. In the tables of the books an absent field counts as 0.
`

/** The dictionary for people: `ledger events`. */
export const eventsPage = (): string => {
  const { events, metadata: metadataSchema, $defs } = eventDictionary()
  const byStream = Map.groupBy(Object.entries(events), ([, { stream }]) => stream)
  const parts = [intro, '## Metadata', '', fieldsTable(metadataSchema), '']
  for (const [name, schema] of Object.entries($defs))
    parts.push(
      `## ${name}`,
      '',
      `In the fields that name it: ${schema.description}.`,
      '',
      fieldsTable(schema),
      '',
    )
  for (const [stream, typeEntries] of byStream) {
    parts.push(`## \`${stream}\``, '')
    for (const [type, { means, data, books }] of typeEntries) {
      parts.push(`### ${type}`, '', means, '', fieldsTable(data), '')
      if (books) parts.push('In the books:', '', booksTable(books), '')
    }
  }
  return `${parts.join('\n').trimEnd()}\n`
}

/** `ledger events` */
export const printEvents = async (): Promise<CliOutput> => ({
  json: eventDictionary(),
  text: eventsPage().trimEnd(),
})
